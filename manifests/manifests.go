package manifests

import (
	"bytes"
	"embed"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"strings"
	"text/template"
)

// HostName is the Native Messaging name of the host. The manifest's file is
// named after it.
const HostName = "dev.sessiondock.host"

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.New("").
	Funcs(template.FuncMap{"json": quote, "xml": escape, "setting": setting, "quoted": quoted, "word": word}).
	ParseFS(files, "*.tmpl"))

// NativeHost renders the Native Messaging manifest of the host at hostPath, an
// absolute path, for the one extension that may start it.
func NativeHost(hostPath, extensionID string) []byte {
	return render("native_host.json.tmpl", map[string]string{
		"Name":   HostName,
		"Path":   hostPath,
		"Origin": "chrome-extension://" + extensionID + "/",
	})
}

// Preferences renders Default/Preferences of a new profile: downloads go to
// downloadDir without a prompt, tabs come back at the next start, and the
// browser neither offers nor fills passwords.
func Preferences(downloadDir string) []byte {
	return render("preferences.json.tmpl", map[string]string{"DownloadDir": downloadDir})
}

// Slot is what a slot's policy says of it.
type Slot struct {
	ExtensionID string
	UpdateXML   string // path of what UpdateXML rendered
	DownloadDir string
	// Test is for launches with a debugging switch: they may look into the extension's
	// own pages, which no other launch may.
	Test bool
}

// Policy renders the managed policy of one slot's browser: the extension is installed
// and pinned, nobody can disable it and no other is let in; neither the person nor a
// page reaches files, the extensions' page, the settings or the switch that lets
// another program debug.
//
// DeveloperToolsAvailability is never 2: with that Chromium refuses the extension to
// attach to any page.
func Policy(s Slot) []byte {
	tools := "0"
	if s.Test {
		tools = "1"
	}
	return render("policy.json.tmpl", map[string]string{
		"ID": s.ExtensionID, "UpdateURL": fileURL(s.UpdateXML), "DownloadDir": s.DownloadDir,
		"DeveloperTools": tools, "RemoteDebugging": fmt.Sprint(s.Test),
	})
}

// UpdateXML renders what a forced installation is installed from: the packed extension
// at the path crx, and its version.
func UpdateXML(extensionID, crx, version string) []byte {
	return render("update.xml.tmpl", map[string]string{"ID": extensionID, "CRX": fileURL(crx), "Version": version})
}

// External renders a profile's "External Extensions/ID.json", by which Chromium
// installs the packed extension without asking.
func External(crx, version string) []byte {
	return render("external.json.tmpl", map[string]string{"CRX": crx, "Version": version})
}

func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

func escape(v string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(v))
	return b.String(), err
}

// quote encodes a value as JSON. Unlike json.Marshal it leaves < > & as they
// are, so that a path reads in the file as it does on disk.
func quote(v string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// render cannot fail for a template that takes every string; if it does, the program
// was built wrongly.
func render(name string, data map[string]string) []byte {
	text, err := execute(name, data)
	if err != nil {
		panic(err)
	}
	return text
}

func execute(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("manifests: %s: %w", name, err)
	}
	return b.Bytes(), nil
}
