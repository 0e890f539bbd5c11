package extension

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestIDIsThatOfTheKey(t *testing.T) {
	body, err := shipped.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Key string }
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	der, err := base64.StdEncoding.DecodeString(m.Key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	var id strings.Builder
	for _, b := range sum[:16] {
		id.WriteByte('a' + b>>4)
		id.WriteByte('a' + b&15)
	}
	if id.String() != ID {
		t.Errorf("the key gives %s, ID is %s", id.String(), ID)
	}
}

func TestWriteShipsWhatIsImportedAndNoTests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "extension")
	for range 2 { // the second time over the first
		if err := Write(dir); err != nil {
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
