package manifests

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"text/template"
)

// HostName is the Native Messaging name of the host. The manifest's file is
// named after it.
const HostName = "dev.sessiondock.host"

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.New("").
	Funcs(template.FuncMap{"json": quote}).
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

// render cannot fail for the embedded templates and string values; if it does,
// the program was built wrongly.
func render(name string, data map[string]string) []byte {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(fmt.Sprintf("manifests: %s: %v", name, err))
	}
	return b.Bytes()
}
