package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/keystone"
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

// errLostKey means that the key of the secrets of a deployment is missing, so that no
// new key may take its place.
var errLostKey = errors.New("the key of the secrets is missing")

// ensureSecretKey makes the file of the key if it does not exist. It fails with
// errLostKey if the folder has a deployment of Identity, whose secrets need the old
// key.
func (a *app) ensureSecretKey(ctx context.Context) error {
	if a.data == inMemory {
		return nil
	}
	file := a.secretKeyFile()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if deployed, err := a.hasDeployment(ctx); err != nil {
		return err
	} else if deployed {
		return fmt.Errorf("%w: %s encrypts the passwords in %s: restore the file from its copy, or name it with --secret-key-file", errLostKey, file, a.data)
	}
	return writeSecretKey(file)
}

// hasDeployment reports whether the data folder has a deployment of Identity, except a
// part of one that an interrupted import left. It needs no key.
func (a *app) hasDeployment(ctx context.Context) (found bool, err error) {
	if _, err := os.Stat(a.data); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	without := *a
	without.secretKey = "" // the file that it names does not exist
	err = without.withEngine(ctx, true, func(e *ostiary.Engine) error {
		store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
		if err == nil {
			err = checkKeystoneImport(ctx, store)
		}
		if found = err == nil; errors.Is(err, ostiary.ErrNoStore) || errors.Is(err, errInterruptedImport) {
			return nil
		}
		return err
	})
	return found, err
}

// writeSecretKey writes a new key to a file that does not exist.
func writeSecretKey(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var key [32]byte
	rand.Read(key[:]) // never fails
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}
