package extension

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// buildFile and manifestFile are the files that differ between the source and a copy:
// the one has the build's hash, the other the installation's key and the copy's version.
const (
	buildFile    = "build.js"
	manifestFile = "manifest.json"
)

//go:embed manifest.json *.js popup.html popup.css gen/*.js icons/*.png
var shipped embed.FS

// Build is the hash of the shipped files: SHA-256 over their names and contents,
// the first 16 hexadecimal digits. The extension carries it in its code and says it
// in its hello, so that an old copy under an unchanged version is found out.
func Build() string { return build() }

var build = sync.OnceValue(func() string {
	h := sha256.New()
	err := walk(func(name string, body []byte) error {
		if name != buildFile {
			fmt.Fprintf(h, "%d %s %d\n", len(name), name, len(body))
			h.Write(body)
		}
		return nil
	})
	if err != nil {
		panic("extension: the embedded files cannot be read: " + err.Error())
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
})

// Write writes a copy of the extension with an installation's key into dir, which is
// made if it is not there. Each file is replaced as a whole: a browser that starts
// meanwhile reads no half of one.
//
// Serial is the last part of the copy's version. A browser replaces a packed extension
// only by one with a higher version, so each packing has a serial of its own.
func Write(dir string, key Key, serial int) error {
	return walk(func(name string, body []byte) error {
		switch name {
		case buildFile:
			body = fmt.Appendf(nil, "// @ts-check\n\n/** The hash of the shipped files. */\nexport const BUILD = '%s';\n", Build())
		case manifestFile:
			var err error
			if body, err = manifest(body, key, serial); err != nil {
				return err
			}
		}
		return replace(filepath.Join(dir, filepath.FromSlash(name)), body)
	})
}

// Version is the version of a copy with the serial.
func Version(serial int) string {
	var m struct{ Version string }
	body, err := shipped.ReadFile(manifestFile)
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		panic("extension: the embedded manifest cannot be read: " + err.Error())
	}
	return fmt.Sprintf("%s.%d", m.Version, serial)
}

// manifest is the source's manifest with a key and a version.
func manifest(source []byte, key Key, serial int) ([]byte, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(source, &m); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"key": key.public, "version": Version(serial)} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		m[name] = text
	}
	return json.MarshalIndent(m, "", "  ")
}

// walk visits the shipped files in the order of their names.
func walk(visit func(name string, body []byte) error) error {
	return fs.WalkDir(shipped, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := shipped.ReadFile(name)
		if err != nil {
			return err
		}
		return visit(name, body)
	})
}

func replace(path string, body []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has been renamed
	_, err = f.Write(body)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
