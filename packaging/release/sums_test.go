package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"golang.org/x/crypto/blake2b"
)

// verify checks a signature in the form of minisign (prehashed, "ED") as its manual defines
// it, without the library that signs, and returns the trusted comment.
func verify(public, signature string, message []byte) (comment string, err error) {
	field := func(text string, line, size int) []byte {
		lines := strings.Split(text, "\n")
		if line >= len(lines) {
			err = errors.Join(err, fmt.Errorf("line %d is absent", line))
			return make([]byte, size)
		}
		data, e := base64.StdEncoding.DecodeString(lines[line])
		if e == nil && len(data) != size {
			e = fmt.Errorf("line %d has %d bytes, expected %d", line, len(data), size)
		}
		if err = errors.Join(err, e); e != nil {
			return make([]byte, size)
		}
		return data
	}
	key, sig, global := field(public, 1, 42), field(signature, 1, 74), field(signature, 3, 64)
	if err != nil {
		return "", err
	}
	comment, ok := strings.CutPrefix(strings.Split(signature, "\n")[2], "trusted comment: ")
	switch digest := blake2b.Sum512(message); {
	case !ok:
		return "", errors.New("no trusted comment")
	case string(key[:2]) != "Ed" || string(sig[:2]) != "ED":
		return "", fmt.Errorf("algorithms %q and %q", key[:2], sig[:2])
	case !bytes.Equal(key[2:10], sig[2:10]):
		return "", errors.New("another key")
	case !ed25519.Verify(key[10:], digest[:], sig[10:]):
		return "", errors.New("the signature is not of this message")
	case !ed25519.Verify(key[10:], append(bytes.Clone(sig[10:]), comment...), global):
		return "", errors.New("the trusted comment was changed")
	}
	return comment, nil
}

// newKey writes a new secret key to a file, sets the variable to it, and returns the text of
// the public key.
func newKey(t *testing.T) (public string) {
	t.Helper()
	pub, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "release.key")
	if err := os.WriteFile(name, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(keyVariable, name)
	text, err := pub.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSignature signs the sums of a file, and verifies them. A changed byte of the sums, of
// the signature or of the comment is refused.
func TestSignature(t *testing.T) {
	public := newKey(t)
	key, err := signingKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &source{version: "0.1.0", commit: "abc", date: time.Unix(1700000000, 0)}
	if _, err := writeSums(s, dir, []string{"b"}, key); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil {
		t.Fatal(err)
	}
	if want := "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03  b\n"; string(sums) != want {
		t.Errorf("sums %q, expected %q", sums, want)
	}
	signature, err := os.ReadFile(filepath.Join(dir, signatureName))
	if err != nil {
		t.Fatal(err)
	}
	comment, err := verify(public, string(signature), sums)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(comment, "ostiary 0.1.0") || !strings.Contains(comment, "commit abc") {
		t.Errorf("trusted comment %q lacks the version or the commit", comment)
	}
	changed := bytes.Clone(sums)
	changed[0] ^= 1
	if _, err := verify(public, string(signature), changed); err == nil {
		t.Error("a changed byte of the sums is accepted")
	}
	if _, err := verify(public, strings.Replace(string(signature), "0.1.0\tcommit", "0.1.1\tcommit", 1), sums); err == nil {
		t.Error("a changed trusted comment is accepted")
	}
	other := newKey(t)
	if _, err := verify(other, string(signature), sums); err == nil {
		t.Error("the signature of another key is accepted")
	}
}

// TestKeyWithPassword reads a key with a password, which comes from a variable.
func TestKeyWithPassword(t *testing.T) {
	t.Setenv(keyVariable, filepath.Join("testdata", "encrypted.key"))
	_, err := signingKey()
	refused(t, err, "encrypted.key", passwordVariable)
	t.Setenv(passwordVariable, "other")
	_, err = signingKey()
	refused(t, err, "does not open", passwordVariable)
	t.Setenv(passwordVariable, "open")
	if key, err := signingKey(); err != nil || key.ID() != 0x70A7DF0397A64E13 {
		t.Errorf("the key does not open with its password: %v", err)
	}
}
