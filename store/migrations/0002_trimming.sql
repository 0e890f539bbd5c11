-- The journal can be trimmed: its oldest entries leave it for the snapshot, which holds
-- every entity as those entries made it. Snapshot (with past) and journal together still
-- give the whole state, without a look at the other tables.

CREATE TABLE snapshot (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  seq INTEGER NOT NULL CHECK (seq >= 0),  -- of the last entry that is in it
  at  INTEGER NOT NULL                    -- when that was written, unix milliseconds
) STRICT;

INSERT INTO snapshot VALUES (1, 0, 0);

CREATE TRIGGER snapshot_goes_forward BEFORE UPDATE ON snapshot
WHEN new.seq < old.seq
BEGIN SELECT RAISE(ABORT, 'the snapshot only goes forward'); END;

CREATE TRIGGER snapshot_stays BEFORE DELETE ON snapshot
BEGIN SELECT RAISE(ABORT, 'the snapshot stands for entries that are gone: it is never deleted'); END;

-- A closed action that has left the journal is in past, and no longer in actions.
CREATE TABLE past (
  id      TEXT    NOT NULL PRIMARY KEY,
  binding TEXT    NOT NULL REFERENCES bindings (name),
  client  TEXT    NOT NULL,
  slot    TEXT    NOT NULL REFERENCES slots (name),
  lease   TEXT    NOT NULL REFERENCES leases (id),
  hash    TEXT    NOT NULL,
  bytes   INTEGER NOT NULL,
  body    TEXT    NOT NULL,
  UNIQUE (binding, client)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER past_stays BEFORE DELETE ON past
BEGIN SELECT RAISE(ABORT, 'an action''s identifier could come again: it is never deleted'); END;

CREATE TRIGGER past_is_final BEFORE UPDATE ON past
BEGIN SELECT RAISE(ABORT, 'the outcome of a closed action is final'); END;

CREATE TABLE snapshot_entities (
  kind TEXT NOT NULL CHECK (kind IN ('slot', 'binding', 'delegation', 'lease', 'action')),
  id   TEXT NOT NULL CHECK (id <> ''),
  body TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER snapshot_entities_stay BEFORE DELETE ON snapshot_entities
WHEN old.kind <> 'action' OR NOT EXISTS (SELECT 1 FROM past WHERE id = old.id)
BEGIN SELECT RAISE(ABORT, 'the snapshot stands for entries that are gone: it is never deleted'); END;

DROP TRIGGER actions_stay;
CREATE TRIGGER actions_stay BEFORE DELETE ON actions
WHEN NOT EXISTS (SELECT 1 FROM past WHERE id = old.id)
BEGIN SELECT RAISE(ABORT, 'an action''s identifier could come again: it is never deleted'); END;

-- An identifier is executed at most once per binding, across leases and trimming (I7).
CREATE TRIGGER actions_once_ever BEFORE INSERT ON actions
WHEN EXISTS (SELECT 1 FROM past WHERE binding = new.binding AND client = new.client)
BEGIN SELECT RAISE(ABORT, 'an action''s identifier was used before'); END;

-- What I7 needs of an action is at hand without reading its body.
ALTER TABLE actions ADD COLUMN hash TEXT NOT NULL DEFAULT '';
ALTER TABLE actions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE actions SET hash = coalesce(body ->> 'body_hash', ''), bytes = coalesce(body ->> 'bytes', 0);

-- total is how many bytes all entries up to this one took: two of them tell the size
-- of what lies between, without reading it.
DROP TRIGGER journal_is_final;
ALTER TABLE journal ADD COLUMN total INTEGER NOT NULL DEFAULT 0;
UPDATE journal SET total = upto.total FROM (
  SELECT seq, sum(100 + octet_length(reason) + coalesce(octet_length(change), 0)) OVER (ORDER BY seq) AS total FROM journal
) AS upto WHERE upto.seq = journal.seq;

CREATE TRIGGER journal_is_final BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is only appended to'); END;

DROP TRIGGER journal_stays;
CREATE TRIGGER journal_stays BEFORE DELETE ON journal
WHEN old.seq > (SELECT seq FROM snapshot)
BEGIN SELECT RAISE(ABORT, 'the journal is only appended to: an entry leaves it for the snapshot'); END;

DROP TRIGGER journal_in_order;
CREATE TRIGGER journal_in_order BEFORE INSERT ON journal
WHEN new.seq <= max((SELECT seq FROM snapshot), (SELECT coalesce(max(seq), 0) FROM journal))
BEGIN SELECT RAISE(ABORT, 'the journal''s sequence only grows'); END;

-- What is known of a closed action is final (I6).
CREATE TRIGGER actions_stay_closed BEFORE UPDATE ON actions
WHEN old.closed = 1 AND (new.closed <> 1 OR new.authority <> old.authority OR new.local <> old.local OR new.remote <> old.remote)
BEGIN SELECT RAISE(ABORT, 'the outcome of a closed action is final'); END;
