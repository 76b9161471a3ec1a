package main

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

// cleanData gives the data folder a path that ends with its name, so that the files
// next to the folder get their names by a suffix: "data" for "data/", and the whole
// path for ".".
func (a *app) cleanData() (err error) {
	clean := filepath.Clean(a.data)
	switch base := filepath.Base(clean); {
	case a.data == "" || base == a.data[strings.LastIndexByte(a.data, filepath.Separator)+1:] && base != "." && base != "..":
		return nil
	case base == "." || base == "..":
		clean, err = filepath.Abs(clean)
	}
	a.data = clean
	return err
}

// secretKeyFile returns the file of the key that encrypts the secrets of stores.
// The default is next to the data folder, not inside of it, so that a copy of the
// folder does not contain the key.
func (a *app) secretKeyFile() string {
	if a.secretKey != "" {
		return a.secretKey
	}
	return a.data + ".key"
}

// readSecretKey reads the key that encrypts secrets. It returns nil if the
// default file does not exist: most deployments have no secrets. In memory the
// key is random.
func (a *app) readSecretKey() (*[32]byte, error) {
	if a.data == inMemory && a.secretKey == "" {
		var key [32]byte
		rand.Read(key[:]) // never fails
		return &key, nil
	}
	file := a.secretKeyFile()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && a.secretKey == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := checkKeysMode(file); err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%w: the file %s of --secret-key-file is no key: expected 32 bytes in base64", errUsage, file)
	}
	return (*[32]byte)(key), nil
}

// ensureSecretKey makes the file of the key if it does not exist.
func (a *app) ensureSecretKey() error {
	if a.data == inMemory {
		return nil
	}
	f, err := os.OpenFile(a.secretKeyFile(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var key [32]byte
	rand.Read(key[:]) // never fails
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}
