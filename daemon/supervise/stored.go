package supervise

import (
	"fmt"
	"os"
	"path/filepath"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Stored is what a look at a profile's store of cookies shows. The file is never opened:
// it is the browser's, which holds locks on it.
type Stored struct {
	Cookies string // changes with every write; "" where there is none
	Writing bool   // a write has begun and is not complete
}

// Stored looks at the slot's profile.
func (d *Direct) Stored(slot core.SlotName) Stored { return stored(d.profile(slot)) }

// Stored looks at the slot's profile.
func (s *Systemd) Stored(slot core.SlotName) Stored { return s.kept.Stored(slot) }

func stored(profile string) Stored {
	file := filepath.Join(profile, "Default", "Cookies")
	var out Stored
	if st, err := os.Stat(file); err == nil {
		out.Cookies = fmt.Sprintf("%d bytes, %d", st.Size(), st.ModTime().UnixNano())
	}
	// SQLite's journal holds what was there before, until a write is complete.
	if st, err := os.Stat(file + "-journal"); err == nil {
		out.Writing = st.Size() > 0
	}
	return out
}
