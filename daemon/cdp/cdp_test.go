package cdp

import (
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
)

func TestFilters(t *testing.T) {
	pages := []filter{{Type: "page", Exclude: true}, {}}
	nothing := []filter{{Exclude: true}}
	for _, tt := range []struct {
		rows []filter
		kind string
		want bool
	}{
		{nil, "page", true}, {nil, "tab", false}, {nil, "browser", false}, {nil, "worker", true},
		{pages, "page", false}, {pages, "tab", true}, {nothing, "page", false}, {[]filter{}, "page", false},
		{[]filter{{Type: "page"}}, "page", true}, {[]filter{{Type: "page"}}, "tab", false},
	} {
		if got := passes(tt.rows, tt.kind); got != tt.want {
			t.Errorf("%+v of %s: %v", tt.rows, tt.kind, got)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, tt := range []struct{ path, secret, page string }{
		{"/devtools/browser/S", "S", "browser"}, {"/devtools/browser/S/", "S", "browser"}, {"/S/json/version", "S", "json/version"},
		{"/S/json/version/", "S", "json/version"}, {"/S/json", "S", "json"}, {"/S/devtools/browser/S", "S", "browser"},
		{"/S/devtools/browser/T", "S", "devtools/browser/T"}, {"/json/version", "json", "version"},
	} {
		if secret, page, _ := split(tt.path); secret != tt.secret || page != tt.page {
			t.Errorf("%s: %q %q", tt.path, secret, page)
		}
	}
}

// A secret is of one lease and one epoch, and of one daemon.
func TestSecrets(t *testing.T) {
	s, other := &Server{}, &Server{}
	s.key[0], other.key[0] = 1, 2
	good := s.secret("01JZ8M3T6V4Q0W9YB2C7D5E1FG", 7)
	if lease, epoch, ok := s.proof(good); !ok || lease != "01JZ8M3T6V4Q0W9YB2C7D5E1FG" || epoch != 7 {
		t.Fatalf("%s: %s %d %v", good, lease, epoch, ok)
	}
	if len(good) < 64+26 {
		t.Errorf("%s is too short", good)
	}
	for _, bad := range []string{
		"", "-", "--", good[:len(good)-1], good + "0", strings.ToUpper(good), strings.Replace(good, "-7-", "-8-", 1), strings.Replace(good, "-7-", "-07-", 1),
		"x" + good, other.secret("01JZ8M3T6V4Q0W9YB2C7D5E1FG", 7), strings.Repeat("9", 100),
	} {
		if _, _, ok := s.proof(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
	l := &core.Lease{State: core.LeaseEnded}
	if s.URL(l) != "" {
		t.Error("a lease that has ended has an address")
	}
}

func FuzzProof(f *testing.F) {
	s := &Server{}
	s.key[0] = 1
	f.Add("01JZ8M3T6V4Q0W9YB2C7D5E1FG-7-00")
	f.Fuzz(func(t *testing.T, secret string) {
		if lease, epoch, ok := s.proof(secret); ok && s.secret(lease, epoch) != secret {
			t.Fatalf("%q", secret)
		}
	})
}
