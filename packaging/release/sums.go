package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aead.dev/minisign"
)

const (
	sumsName      = "SHA256SUMS"
	signatureName = sumsName + ".minisig"
	keyVariable   = "OSTIARY_RELEASE_KEY"
	// passwordVariable has the password of an encrypted key.
	passwordVariable = "OSTIARY_RELEASE_PASSWORD"
)

// signingKey reads the secret key of minisign in the file that OSTIARY_RELEASE_KEY names.
func signingKey() (*minisign.PrivateKey, error) {
	name := os.Getenv(keyVariable)
	if name == "" {
		return nil, fmt.Errorf("%s is not set: it names the file of minisign's secret key that signs %s; -unsigned makes a release without a signature", keyVariable, sumsName)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyVariable, err)
	}
	var key minisign.PrivateKey
	switch password, ok := os.LookupEnv(passwordVariable); {
	case !minisign.IsEncrypted(text):
		err = key.UnmarshalText(text)
	case !ok:
		err = fmt.Errorf("the key has a password: expected it in %s", passwordVariable)
	default:
		if key, err = minisign.DecryptKey(password, text); err != nil {
			err = errors.New("the key does not open with the password of " + passwordVariable)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", keyVariable, name, err)
	}
	return &key, nil
}

// writeSums writes the file SHA256SUMS of files in the folder dir, and its signature if
// there is a key. It returns the names of what it has written.
func writeSums(s *source, dir string, files []string, key *minisign.PrivateKey) ([]string, error) {
	var sums bytes.Buffer
	for _, name := range slices.Sorted(slices.Values(files)) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	if err := os.WriteFile(filepath.Join(dir, sumsName), sums.Bytes(), 0o644); err != nil {
		return nil, err
	}
	if key == nil {
		return []string{sumsName}, nil
	}
	r := minisign.NewReader(bytes.NewReader(sums.Bytes()))
	if _, err := r.Read(make([]byte, sums.Len())); err != nil {
		return nil, err
	}
	trusted := fmt.Sprintf("timestamp:%d\tfile:%s\tostiary %s\tcommit %s", s.date.Unix(), sumsName, s.version, s.commit)
	signature := r.SignWithComments(*key, trusted, "signature of Ostiary "+s.version+", key "+strings.ToUpper(fmt.Sprintf("%016x", key.ID())))
	return []string{sumsName, signatureName}, os.WriteFile(filepath.Join(dir, signatureName), signature, 0o644)
}
