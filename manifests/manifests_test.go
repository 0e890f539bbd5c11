package manifests

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// awkward holds what JSON and templates could each mangle.
const awkward = `/home/a "b"\c/<&>/naïve` + "\n"

func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return m
}

func TestNativeHost(t *testing.T) {
	got := decode(t, NativeHost(awkward, "abcdefghijklmnopabcdefghijklmnop"))
	if got["description"] == "" {
		t.Error("Chromium refuses a manifest without a description")
	}
	delete(got, "description")
	want := map[string]any{
		"name":            "dev.sessiondock.host",
		"path":            awkward,
		"type":            "stdio",
		"allowed_origins": []any{"chrome-extension://abcdefghijklmnopabcdefghijklmnop/"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPreferences(t *testing.T) {
	want := map[string]any{
		"credentials_enable_service": false,
		"download":                   map[string]any{"default_directory": awkward, "prompt_for_download": false},
		"profile":                    map[string]any{"password_manager_enabled": false},
		"session":                    map[string]any{"restore_on_startup": 1.0},
	}
	if d := cmp.Diff(want, decode(t, Preferences(awkward))); d != "" {
		t.Error(d)
	}
}

func TestSameArgumentsSameBytes(t *testing.T) {
	if !bytes.Equal(NativeHost("/a", "b"), NativeHost("/a", "b")) || !bytes.Equal(Preferences("/a"), Preferences("/a")) {
		t.Error("two renderings differ")
	}
	if bytes.Equal(Preferences("/a"), Preferences("/b")) {
		t.Error("the download directory is not rendered")
	}
}
