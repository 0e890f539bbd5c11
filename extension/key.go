package extension

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Key is the key of one installation. It signs the packed extension, and its public
// half in the manifest gives every copy, packed or not, the same identifier. Whoever
// needs the identifier takes it from here: it is written down nowhere else.
type Key struct {
	Path   string // of the private key, in PEM: what Chromium's packer takes
	ID     string // 32 letters from a to p
	public string // as the manifest has it
}

// keyBits is what Chromium's packer makes and its store accepts.
const keyBits = 2048

// OpenKey reads the key at path, or makes it there, readable by this user alone.
func OpenKey(path string) (Key, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path); err != nil {
			return Key{}, fmt.Errorf("the extension's key cannot be made: %w", err)
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return Key{}, fmt.Errorf("the extension's key cannot be read: %w", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		return Key{}, fmt.Errorf("the extension's key %s is open to others; chmod 600 it, or remove it: a new one is made", path)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return Key{}, fmt.Errorf("%s is not a key in PEM; move it away: a new one is made", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return Key{}, fmt.Errorf("%s is not an RSA key in PKCS 8; move it away: a new one is made", path)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Key{}, err
	}
	return Key{Path: path, ID: identifier(der), public: base64.StdEncoding.EncodeToString(der)}, nil
}

// identifier is Chromium's rule: the first half of the key's SHA-256, in the letters
// a to p.
func identifier(der []byte) string {
	sum := sha256.Sum256(der)
	id := make([]byte, 0, 32)
	for _, b := range sum[:16] {
		id = append(id, 'a'+b>>4, 'a'+b&15)
	}
	return string(id)
}

// makeKey makes a key as a whole: of two programs that make one at the same time, one
// is first and the other reads that one's.
func makeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if e := f.Sync(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
