package cli

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CleanData gives the data folder a path that ends with its name, so that the files
// next to the folder get their names by a suffix: "data" for "data/", and the whole
// path for ".".
func (a *App) CleanData() (err error) {
	clean := filepath.Clean(a.Data)
	switch base := filepath.Base(clean); {
	case a.Data == "" || base == a.Data[strings.LastIndexByte(a.Data, filepath.Separator)+1:] && base != "." && base != "..":
		return nil
	case base == "." || base == "..":
		clean, err = filepath.Abs(clean)
	}
	a.Data = clean
	return err
}

// SecretKeyFile returns the file of the key that encrypts the secrets of stores.
// The default is next to the data folder, not inside of it, so that a copy of the
// folder does not contain the key.
func (a *App) SecretKeyFile() string {
	if a.SecretKey != "" {
		return a.SecretKey
	}
	return a.Data + ".key"
}

// ReadSecretKey reads the key that encrypts secrets. It returns nil if the
// default file does not exist: most deployments have no secrets. In memory the
// key is random.
func (a *App) ReadSecretKey() (*[32]byte, error) {
	if a.Data == InMemory && a.SecretKey == "" {
		var key [32]byte
		rand.Read(key[:]) // never fails
		return &key, nil
	}
	file := a.SecretKeyFile()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && a.SecretKey == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := CheckKeysMode(file); err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%w: the file %s of --secret-key-file is no key: expected 32 bytes in base64", ErrUsage, file)
	}
	if [32]byte(key) == ([32]byte{}) {
		return nil, fmt.Errorf("%w: the key in the file %s of --secret-key-file is all zeros: expected 32 random bytes in base64", ErrUsage, file)
	}
	return (*[32]byte)(key), nil
}
