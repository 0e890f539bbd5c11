package manifests

import (
	"strings"
	"testing"
)

func TestUnits(t *testing.T) {
	socket, err := Socket("/run/a b/control.sock", "/run/100%/api.sock", "/run/host.sock")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"ListenStream=/run/a b/control.sock\n", "ListenStream=/run/100%%/api.sock\n", "ListenStream=/run/host.sock\n"} {
		if !strings.Contains(string(socket), line) {
			t.Errorf("%q is not in\n%s", line, socket)
		}
	}
	service, err := Service([]string{`/opt/a "b"/sessiondockd`, "--browser", "/x/$y%z"}, []string{"XDG_STATE_HOME=/a $b\nc", "B=2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`ExecStart="/opt/a \"b\"/sessiondockd" "--browser" "/x/$$y%%z"` + "\n",
		`Environment="XDG_STATE_HOME=/a $b\nc"` + "\nEnvironment=\"B=2\"\nRestart=",
	} {
		if !strings.Contains(string(service), line) {
			t.Errorf("%q is not in\n%s", line, service)
		}
	}
	if _, err := Socket("/run/a\nExecStartPre=/bin/rm", "/b", "/c"); err == nil {
		t.Error("a line break was written into a unit file")
	}
	if _, err := Service([]string{"/a\x00"}, nil); err == nil {
		t.Error("a zero byte was written into a unit file")
	}
	if len(Slice()) == 0 {
		t.Error("no slice")
	}
}
