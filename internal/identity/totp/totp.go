// Package totp computes and verifies time-based one-time passwords of RFC 6238:
// six digits, HMAC-SHA1, a new password every 30 seconds. Its main type is [Seed].
//
// The package stores nothing. Its caller remembers the step of the last password
// that a seed was used with, and so refuses a password that is used again.
package totp

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Period is how long a password is the current one.
const Period = 30 * time.Second

// digits is the number of digits of a password, and modulus the number of
// different passwords.
const (
	digits  = 6
	modulus = 1_000_000
)

// previous is how many earlier passwords are accepted, because typing one takes
// time.
const previous = 1

// Seed is the secret from which passwords are computed. It prints as "[redacted]".
type Seed []byte

// String returns "[redacted]".
func (s Seed) String() string { return "[redacted]" }

// GoString returns "[redacted]".
func (s Seed) GoString() string { return "[redacted]" }

// ParseSeed reads a seed in base32, with or without padding. The error does not
// contain the text. A seed is not empty.
func ParseSeed(text string) (Seed, error) {
	b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(b) == 0 {
		return nil, fmt.Errorf("invalid seed of %d characters: expected base32", len(text))
	}
	return b, nil
}

// Step returns the number of the period that contains a time.
func Step(t time.Time) int64 { return t.Unix() / int64(Period/time.Second) }

// At returns the password of a step.
func (s Seed) At(step int64) string {
	mac := hmac.New(sha1.New, s)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(step))
	mac.Write(b[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0xf // the dynamic truncation of RFC 4226, section 5.3
	return fmt.Sprintf("%0*d", digits, (binary.BigEndian.Uint32(sum[at:])&0x7fffffff)%modulus)
}

// Match returns the step that a password belongs to: the current one or one
// before it, but later than used, the step of the last password that was
// accepted. The second result is false if there is none. The time does not depend
// on the password.
func (s Seed) Match(password string, now time.Time, used int64) (step int64, ok bool) {
	for i := range int64(previous + 1) {
		n := Step(now) - i
		same := subtle.ConstantTimeCompare([]byte(password), []byte(s.At(n))) == 1
		if same && n > used && !ok {
			step, ok = n, true
		}
	}
	return step, ok
}
