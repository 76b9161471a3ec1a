package settings

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

// Key is a Fernet key: 16 bytes for the signature and 16 bytes for the
// encryption. It prints as "[redacted]".
type Key [32]byte

// NewKey returns a random key.
func NewKey() (k Key) {
	rand.Read(k[:]) // never fails
	return k
}

// ParseKey reads the text of a key file: 44 characters of base64url. The error
// does not contain the text.
func ParseKey(text string) (k Key, err error) {
	b, err := base64.URLEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("invalid Fernet key of %d characters: expected 32 bytes as 44 characters of base64url", len(text))
	}
	return Key(b), nil
}

// Encode returns the text of the key's file. It is secret.
func (k Key) Encode() string { return base64.URLEncoding.EncodeToString(k[:]) }

// String returns "[redacted]".
func (k Key) String() string { return "[redacted]" }

// GoString returns "[redacted]".
func (k Key) GoString() string { return "[redacted]" }
