package certificate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write writes both files of a pair, the key first, so that a certificate never lacks its
// key. The key is readable for its owner alone. Each file is replaced as a whole.
func (p Pair) Write(certificate, key string) error {
	if err := Replace(key, p.Key, 0o600); err != nil {
		return err
	}
	return Replace(certificate, p.Certificate, 0o644)
}

// Replace replaces a file as a whole, or makes it, with a mode.
func Replace(name string, text []byte, mode fs.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(name), "new-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}
