package extension

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// ID is the extension's identifier. The key in manifest.json fixes it, so that it
// is known before the browser is started.
const ID = "aklmdnoakchnkeolebfkpmnapacdpgbe"

// buildFile is the one file that differs between the source and an installed copy.
const buildFile = "build.js"

//go:embed manifest.json *.js popup.html popup.css gen/wire.js icons/*.png
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

// Write writes the extension into dir, which is made if it is not there. Each file
// is replaced as a whole: a browser that starts meanwhile reads no half of one.
func Write(dir string) error {
	return walk(func(name string, body []byte) error {
		if name == buildFile {
			body = fmt.Appendf(nil, "// @ts-check\n\n/** The hash of the shipped files. */\nexport const BUILD = '%s';\n", Build())
		}
		return replace(filepath.Join(dir, filepath.FromSlash(name)), body)
	})
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
