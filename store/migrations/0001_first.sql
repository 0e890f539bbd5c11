-- Each table keeps a whole entity as JSON in body, and as columns the facts that a
-- constraint protects. A constraint here is a second gate: package core decides, and
-- these refuse what would break an invariant if it ever decided wrongly.

PRAGMA application_id = 1396985699;  -- "SDoc"

-- A slot's epoch is never lowered and never issued twice (I1), so its row outlives
-- its removal and even the intention to delete it.
CREATE TABLE slots (
  name       TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
  removed    INTEGER NOT NULL CHECK (removed IN (0, 1)),
  epoch      INTEGER NOT NULL CHECK (epoch >= 0),
  ceiling    INTEGER NOT NULL CHECK (ceiling <= 9007199254740991),
  holder     TEXT    NOT NULL CHECK (holder IN ('none', 'human', 'agent')),
  lease      TEXT    NOT NULL,
  generation INTEGER NOT NULL CHECK (generation >= 0),
  body       TEXT    NOT NULL,
  CHECK (epoch <= ceiling)
) STRICT;

CREATE TRIGGER slots_never_go_back BEFORE UPDATE ON slots
WHEN new.name <> old.name OR new.epoch < old.epoch OR new.ceiling < old.ceiling
  OR new.generation < old.generation
BEGIN SELECT RAISE(ABORT, 'a slot''s epoch, ceiling and generation never go back, nor does its name change'); END;

CREATE TRIGGER slots_stay BEFORE DELETE ON slots
BEGIN SELECT RAISE(ABORT, 'a slot''s row is never deleted: it keeps the epoch'); END;

CREATE TABLE bindings (
  name    TEXT    NOT NULL PRIMARY KEY CHECK (name <> ''),
  slot    TEXT    NOT NULL REFERENCES slots (name),
  removed INTEGER NOT NULL CHECK (removed IN (0, 1)),
  body    TEXT    NOT NULL
) STRICT;

CREATE TABLE delegations (
  id      TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  binding TEXT    NOT NULL REFERENCES bindings (name),
  agent   TEXT    NOT NULL,
  hash    TEXT    NOT NULL UNIQUE,
  revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)),
  body    TEXT    NOT NULL
) STRICT;

CREATE TABLE leases (
  id         TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  slot       TEXT    NOT NULL REFERENCES slots (name),
  binding    TEXT    NOT NULL REFERENCES bindings (name),
  delegation TEXT    REFERENCES delegations (id),  -- NULL: acquired by a person, who needs none
  state      TEXT    NOT NULL CHECK (state IN
               ('waiting', 'granted', 'active', 'suspended', 'interrupted', 'ended')),
  epoch      INTEGER NOT NULL CHECK (epoch BETWEEN 0 AND 9007199254740991),
  body       TEXT    NOT NULL
) STRICT;

-- At most one holder per slot (I2).
CREATE UNIQUE INDEX leases_one_live ON leases (slot) WHERE state IN ('granted', 'active');

CREATE TRIGGER leases_of_an_issued_epoch BEFORE INSERT ON leases
WHEN new.epoch > (SELECT epoch FROM slots WHERE name = new.slot)
BEGIN SELECT RAISE(ABORT, 'a lease has an epoch that was never issued'); END;

CREATE TABLE actions (
  id        TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
  binding   TEXT    NOT NULL REFERENCES bindings (name),
  client    TEXT    NOT NULL CHECK (client <> ''),
  lease     TEXT    NOT NULL REFERENCES leases (id),
  slot      TEXT    NOT NULL REFERENCES slots (name),
  epoch     INTEGER NOT NULL CHECK (epoch BETWEEN 0 AND 9007199254740991),
  class     TEXT    NOT NULL CHECK (class IN ('read', 'write')),
  authority TEXT    NOT NULL CHECK (authority = 'admitted' OR authority GLOB 'refused:?*'),
  local     TEXT    NOT NULL CHECK (local IN
              ('not_dispatched', 'running', 'interrupted', 'finished', 'failed', 'ended', 'unknown')),
  remote    TEXT    NOT NULL CHECK (remote IN
              ('none_seen', 'in_flight', 'aborted_locally', 'unknown', 'applied', 'not_applied')
              OR remote GLOB 'answered:?*'),
  sent      INTEGER NOT NULL CHECK (sent IN (0, 1)),
  closed    INTEGER NOT NULL CHECK (closed IN (0, 1)),
  body      TEXT    NOT NULL
) STRICT;

-- An identifier is executed at most once per binding, across leases (I7).
CREATE UNIQUE INDEX actions_once ON actions (binding, client);

CREATE TRIGGER actions_of_an_issued_epoch BEFORE INSERT ON actions
WHEN new.epoch > (SELECT epoch FROM slots WHERE name = new.slot)
BEGIN SELECT RAISE(ABORT, 'an action has an epoch that was never issued'); END;

-- What was handed to the host stays handed to it: a restart must not send it again.
CREATE TRIGGER actions_stay_sent BEFORE UPDATE ON actions
WHEN new.sent < old.sent
BEGIN SELECT RAISE(ABORT, 'an action that was sent is never unsent'); END;

CREATE TRIGGER actions_stay BEFORE DELETE ON actions
BEGIN SELECT RAISE(ABORT, 'an action''s identifier could come again: it is never deleted'); END;

CREATE TABLE journal (
  seq       INTEGER PRIMARY KEY CHECK (seq > 0),
  at        INTEGER NOT NULL,
  kind      TEXT    NOT NULL CHECK (kind <> ''),
  slot      TEXT    NOT NULL,
  epoch     INTEGER NOT NULL,
  lease     TEXT    NOT NULL,
  action    TEXT    NOT NULL,
  principal TEXT    NOT NULL,
  reason    TEXT    NOT NULL,
  change    TEXT
) STRICT;

CREATE TRIGGER journal_in_order BEFORE INSERT ON journal
WHEN new.seq <= (SELECT max(seq) FROM journal)
BEGIN SELECT RAISE(ABORT, 'the journal''s sequence only grows'); END;

CREATE TRIGGER journal_stays BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is only appended to'); END;

CREATE TRIGGER journal_is_final BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is only appended to'); END;
