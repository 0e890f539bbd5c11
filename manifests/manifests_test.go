package manifests

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/url"
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

func TestPolicy(t *testing.T) {
	s := Slot{ExtensionID: "abcdefghijklmnopabcdefghijklmnop", UpdateXML: "/a b/%/update.xml", DownloadDir: awkward}
	got := decode(t, Policy(s))
	want := map[string]any{
		"*": map[string]any{"installation_mode": "blocked"},
		s.ExtensionID: map[string]any{
			"installation_mode": "force_installed", "update_url": "file:///a%20b/%25/update.xml",
			"override_update_url": true, "toolbar_pin": "force_pinned",
		},
	}
	if d := cmp.Diff(want, got["ExtensionSettings"]); d != "" {
		t.Error(d)
	}
	if got["DownloadDirectory"] != awkward || got["DeveloperToolsAvailability"] != 0.0 || got["RemoteDebuggingAllowed"] != false {
		t.Errorf("%v", got)
	}
	s.Test = true
	got = decode(t, Policy(s))
	if got["DeveloperToolsAvailability"] != 1.0 || got["RemoteDebuggingAllowed"] != true {
		t.Errorf("of a test: %v", got)
	}
}

func TestPacked(t *testing.T) {
	var x struct {
		App struct {
			ID    string `xml:"appid,attr"`
			Check struct {
				Codebase string `xml:"codebase,attr"`
				Version  string `xml:"version,attr"`
			} `xml:"updatecheck"`
		} `xml:"app"`
	}
	if err := xml.Unmarshal(UpdateXML("id", `/it's "a"/<&>/e.crx`, "1.2.3.4"), &x); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(x.App.Check.Codebase)
	if err != nil || u.Path != `/it's "a"/<&>/e.crx` || u.Scheme != "file" || x.App.ID != "id" || x.App.Check.Version != "1.2.3.4" {
		t.Errorf("%+v, %v", x, err)
	}
	want := map[string]any{"external_crx": awkward, "external_version": "1.2.3.4"}
	if d := cmp.Diff(want, decode(t, External(awkward, "1.2.3.4"))); d != "" {
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
