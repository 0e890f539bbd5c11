package extension

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func newKey(t *testing.T) Key {
	t.Helper()
	key, err := OpenKey(filepath.Join(t.TempDir(), "state", "extension.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestKey: a key is made once, for this user alone, and gives the copies their identifier
// by Chromium's rule.
func TestKey(t *testing.T) {
	key := newKey(t)
	if info, err := os.Stat(key.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v %v", info, err)
	}
	again, err := OpenKey(key.Path)
	if err != nil || again != key {
		t.Errorf("read again: %v, %v", again, err)
	}
	if other := newKey(t); other.ID == key.ID {
		t.Error("two installations have one identifier")
	}
	dir := t.TempDir()
	if err := Write(dir, key, 7); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Key, Version string
		Permissions  []string
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	if m.Version != "1.0.0.7" || m.Version != Version(7) || len(m.Permissions) == 0 {
		t.Errorf("the copy's manifest: %+v", m)
	}
	der, err := base64.StdEncoding.DecodeString(m.Key)
	if err != nil {
		t.Fatal(err)
	}
	letters := strings.NewReplacer("0", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7", "h",
		"8", "i", "9", "j", "a", "k", "b", "l", "c", "m", "d", "n", "e", "o", "f", "p")
	sum := sha256.Sum256(der)
	if want := letters.Replace(hex.EncodeToString(sum[:16])); key.ID != want {
		t.Errorf("the identifier is %s, want %s", key.ID, want)
	}
	if entries, err := os.ReadDir(filepath.Dir(key.Path)); err != nil || len(entries) != 1 {
		t.Errorf("beside the key: %v %v", entries, err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	good, err := os.ReadFile(newKey(t).Path)
	if err != nil {
		t.Fatal(err)
	}
	for says, file := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"open to others": {string(good), 0o640},
		"PEM":            {"", 0o600},
		"RSA":            {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(file.text), file.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKey(path); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", says, err)
		}
		if text, _ := os.ReadFile(path); string(text) != file.text {
			t.Errorf("%s: the file was replaced", says)
		}
	}
}

func TestTheRepositoryHoldsNoKey(t *testing.T) {
	body, err := shipped.ReadFile(manifestFile)
	if err != nil || strings.Contains(string(body), `"key"`) {
		t.Errorf("the source's manifest has a key, or cannot be read: %v", err)
	}
}

func TestWriteShipsWhatIsImportedAndNoTests(t *testing.T) {
	dir, key := filepath.Join(t.TempDir(), "new", "extension"), newKey(t)
	for serial := range 2 { // the second time over the first
		if err := Write(dir, key, serial); err != nil {
			t.Fatal(err)
		}
	}
	imports := regexp.MustCompile(`(?m)(?:from|src=|href=) ?['"](\.?/?[^'"]+\.(?:js|css))['"]`)
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		if name := d.Name(); strings.Contains(path, "test") && strings.HasSuffix(name, ".test.js") || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".go") || name == "package.json" {
			t.Errorf("%s is shipped", path)
		}
		if ext := filepath.Ext(path); ext != ".js" && ext != ".html" {
			return nil
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range imports.FindAllStringSubmatch(string(body), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
				t.Errorf("%s needs %s, which is not shipped", path, found[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d files are shipped", files)
	}
	body, err := os.ReadFile(filepath.Join(dir, buildFile))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(Build()) || !strings.Contains(string(body), "BUILD = '"+Build()+"'") {
		t.Errorf("build %q is not in %s", Build(), body)
	}
}
