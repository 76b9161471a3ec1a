package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/ostiary/ostiary/door"
)

// ErrNoKeys: authentication by keys was asked for, and there are none.
var ErrNoKeys = errors.New("no preshared key is set")

const (
	// keysMax bounds how many keys there are: each costs every request a
	// comparison.
	keysMax = 1000
	// credentialBytesMax bounds what a client may present.
	credentialBytesMax = 4096
	methodPreshared    = "preshared"
)

// Key is a preshared key. Printed and logged it is [redacted].
type Key struct {
	// Name tells callers apart in logs; it may be empty and is no secret.
	Name   string
	Secret Secret
}

// Secret is a string that no formatting shows.
type Secret string

// String hides the secret.
func (Secret) String() string { return "[redacted]" }

// GoString hides the secret.
func (Secret) GoString() string { return "[redacted]" }

// LogValue hides the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Keys are the keys that open the doors. They are kept as hashes alone. Safe
// for concurrent use; Replace takes effect with the next request.
type Keys struct {
	list atomic.Pointer[[]hashedKey]
}

type hashedKey struct {
	sum    [sha256.Size]byte
	caller door.Caller
}

// NewKeys returns keys to authenticate with; none is ErrNoKeys.
func NewKeys(keys []Key) (*Keys, error) {
	k := &Keys{}
	if err := k.Replace(keys); err != nil {
		return nil, err
	}
	return k, nil
}

// Replace puts other keys in place. On an error the old ones stay.
func (k *Keys) Replace(keys []Key) error {
	if len(keys) == 0 {
		return ErrNoKeys
	}
	if len(keys) > keysMax {
		return fmt.Errorf("%d preshared keys, the bound is %d", len(keys), keysMax)
	}
	list := make([]hashedKey, 0, len(keys))
	for i, key := range keys {
		s := string(key.Secret)
		if s == "" || len(s) > credentialBytesMax || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("preshared key %d of %d is empty, too long, or has characters that no header may have", i+1, len(keys))
		}
		list = append(list, hashedKey{sha256.Sum256([]byte(s)), door.Caller{Method: methodPreshared, ID: key.Name}})
	}
	k.list.Store(&list)
	return nil
}

// Len is how many keys there are.
func (k *Keys) Len() int {
	if list := k.list.Load(); list != nil {
		return len(*list)
	}
	return 0
}

// check says who presents the values of an Authorization header. It takes the
// same time for every wrong key, and looks at all keys.
func (k *Keys) check(values []string) (door.Caller, door.Reason) {
	switch len(values) {
	case 0:
		return door.Caller{}, door.NoCredentials
	case 1:
	default:
		return door.Caller{}, door.BadCredentials // which of them counts, nobody could say
	}
	const scheme = "Bearer "
	v := values[0]
	if v == "" {
		return door.Caller{}, door.NoCredentials
	}
	if len(v) <= len(scheme) || len(v) > len(scheme)+credentialBytesMax || !strings.EqualFold(v[:len(scheme)], scheme) {
		return door.Caller{}, door.BadCredentials
	}
	sum := sha256.Sum256([]byte(v[len(scheme):]))
	list := *k.list.Load()
	found := -1
	for i := range list {
		if subtle.ConstantTimeCompare(sum[:], list[i].sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return door.Caller{}, door.BadCredentials
	}
	return list[found].caller, 0
}

// ParseKeys reads a file of keys: one a line, with a name before it if there
// are two words; blank lines and lines that begin with # count for nothing. An
// error tells the line and never what it holds.
func ParseKeys(text string) (keys []Key, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch len(words) {
		case 1:
			keys = append(keys, Key{Secret: Secret(words[0])})
		case 2:
			keys = append(keys, Key{Name: words[0], Secret: Secret(words[1])})
		default:
			return nil, fmt.Errorf("line %d of the keys is not KEY or NAME KEY", n)
		}
	}
	return keys, nil
}
