package supervise

import (
	"maps"
	"net"
	"testing"
)

// TestListeners: the kernel's two answers agree, and know a listener of either protocol.
func TestListeners(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("NOT RUN for %s: %v", address, err)
			continue
		}
		defer l.Close()
	}
	// Other programs of this user may open and close a port in between.
	var asked, read map[string]string
	for range 20 {
		var err error
		if asked, err = askListeners(); err != nil {
			t.Fatal(err)
		}
		if read = readListeners(); maps.Equal(asked, read) && len(asked) > 0 {
			return
		}
	}
	t.Errorf("asked: %v, read: %v", asked, read)
}

func BenchmarkListeners(b *testing.B) {
	for name, f := range map[string]func() map[string]string{
		"read": readListeners,
		"ask":  listeningSockets,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}
