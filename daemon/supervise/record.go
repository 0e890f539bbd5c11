package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// keepRecords is how many end records a slot keeps: more than the launches a
// daemon could have missed and still ask for.
const keepRecords = 8

// maxRecord bounds an end record when it is read.
const maxRecord = 64 << 10

// endRecord says that a launch has ended and how that was verified. Only a
// verified end has one. It is written before anybody is told, so that a daemon
// which comes later learns the same, after the machine's restart too: whether the browser
// had ended cleanly before that.
type endRecord struct {
	Launch      core.LaunchID `json:"launch"`
	Generation  int64         `json:"generation"`
	AtMs        int64         `json:"at"` // unix milliseconds
	Exit        string        `json:"exit"`
	Containment string        `json:"containment"`
	Clean       bool          `json:"clean"`
	How         string        `json:"how"`
}

func (r endRecord) ended() Ended {
	return Ended{Verified: true, Containment: r.Containment, Clean: r.Clean, How: r.How}
}

func recordPath(dir string, l core.LaunchID) string {
	return filepath.Join(dir, "end-"+string(l)+".json")
}

func writeRecord(dir string, r endRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFile(recordPath(dir, r.Launch), text)
}

func readRecord(dir string, l core.LaunchID) (endRecord, bool, error) {
	f, err := os.Open(recordPath(dir, l))
	if errors.Is(err, fs.ErrNotExist) {
		return endRecord{}, false, nil
	}
	if err != nil {
		return endRecord{}, false, err
	}
	defer f.Close()
	var r endRecord
	if err := json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&r); err != nil {
		return endRecord{}, false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if r.Launch != l {
		return endRecord{}, false, fmt.Errorf("%s is of launch %s", f.Name(), r.Launch)
	}
	return r, true, nil
}

// pruneRecords removes the oldest end records of a slot.
func pruneRecords(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type aged struct {
		name string
		at   time.Time
	}
	var records []aged
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), "end-") {
			records = append(records, aged{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(records, func(a, b aged) int { return b.at.Compare(a.at) })
	for _, r := range records[min(len(records), keepRecords):] {
		os.Remove(filepath.Join(dir, r.name))
	}
}

// writeFile replaces a file so that a reader, or a machine that loses power,
// finds the old text or the new one.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing to remove once it was renamed
	_, werr := f.Write(text)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
