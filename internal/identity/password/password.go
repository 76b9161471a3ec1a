// Package password makes and verifies the password hashes of OpenStack
// Keystone. [Hash] makes bcrypt hashes. [Verify] also reads bcrypt_sha256,
// scrypt and pbkdf2_sha512, so that imported users can log in, and reports
// hashes that should be replaced.
//
// Each call computes for as long as the hash is meant to cost, some 300 ms by
// default, on the goroutine of the caller. The package bounds the cost of a
// single call, and [Pool] bounds the number of calls and keeps them from delaying
// other work. [Pattern] checks new passwords. The package never decides whether a user
// may log in.
package password

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"
)

// ErrMalformed is the cause of a failed [Verify] of a text that is not a hash,
// or whose parameters are above the bounds. The error never contains a password
// or a hash.
var ErrMalformed = errors.New("malformed password hash")

// ErrTooLong is the cause of a failed [Hash] of a password of more than
// [BytesMax] bytes.
var ErrTooLong = errors.New("password is too long")

// BytesMax is the largest number of bytes of a password. bcrypt ignores the
// bytes after it, so longer passwords are refused.
const BytesMax = 72

// Bounds of the parameters that a hash may contain. A larger value fails with
// [ErrMalformed], because a single login would block a processor for minutes.
const (
	// RoundsMin and RoundsMax bound the rounds of bcrypt, which are a power of two.
	RoundsMin, RoundsMax = 4, 17
	// RoundsDefault is Keystone's number of rounds of bcrypt.
	RoundsDefault = 12
	// ScryptMemoryMax bounds the memory of scrypt in bytes.
	ScryptMemoryMax = 256 << 20
	// ScryptParallelMax bounds the parameter p of scrypt.
	ScryptParallelMax = 16
	// IterationsMax bounds the iterations of pbkdf2.
	IterationsMax = 5_000_000
)

// Hash returns the bcrypt hash of a password, in Keystone's form "$2b$12$…".
// rounds is between [RoundsMin] and [RoundsMax]. Hash fails with [ErrTooLong].
func Hash(password string, rounds int) (string, error) {
	if len(password) > BytesMax {
		return "", fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLong, len(password), BytesMax)
	}
	if rounds < RoundsMin || rounds > RoundsMax {
		return "", fmt.Errorf("invalid rounds %d of bcrypt: expected %d to %d", rounds, RoundsMin, RoundsMax)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), rounds)
	if err != nil {
		return "", err
	}
	// 2b is the same algorithm as 2a without two faults that this library never
	// had.
	return "$2b$" + strings.TrimPrefix(string(hash), "$2a$"), nil
}

// Verify returns whether a hash was made from the password. It fails with
// [ErrMalformed]. A password of more than [BytesMax] bytes is compared by its
// first [BytesMax] bytes if the hash is a bcrypt hash, as Keystone does.
func Verify(password, hash string) (bool, error) {
	matches, err := parse(hash)
	if err != nil {
		return false, err
	}
	return matches(password)
}

// Validate fails with [ErrMalformed] unless [Verify] can compare passwords with
// the hash. It computes no hash.
func Validate(hash string) error {
	_, err := parse(hash)
	return err
}

// matcher returns whether a hash was made from a password.
type matcher func(password string) (bool, error)

// parse reads a hash of any form. It fails with [ErrMalformed].
func parse(hash string) (matcher, error) {
	switch {
	case strings.HasPrefix(hash, "$bcrypt-sha256$"):
		return parseBcryptSHA256(hash)
	case strings.HasPrefix(hash, "$2"):
		return parseBcrypt(hash)
	case strings.HasPrefix(hash, "$scrypt$"):
		return parseScrypt(hash)
	case strings.HasPrefix(hash, "$pbkdf2-sha512$"):
		return parsePBKDF2(hash)
	}
	return nil, fmt.Errorf("%w: expected bcrypt, bcrypt_sha256, scrypt or pbkdf2_sha512", ErrMalformed)
}

// Outdated returns whether a hash should be replaced after a successful login:
// it is not a bcrypt hash, or it has another number of rounds.
func Outdated(hash string, rounds int) bool {
	cost, err := bcrypt.Cost([]byte(hash))
	return err != nil || cost != rounds
}

// Form returns what decides how long a valid hash takes: its algorithm and its
// parameters, without the salt and the digest.
func Form(hash string) string {
	parts := strings.SplitN(hash, "$", 4)
	if len(parts) < 4 {
		return hash
	}
	if strings.HasPrefix(parts[1], "2") {
		parts[1] = "2" // the types of bcrypt take equally long
	}
	return parts[1] + "$" + parts[2]
}

// bcryptForm is the form of a bcrypt hash. Type 2x is the result of a fault of an
// old library, and type 2 is older than bcrypt's handling of UTF-8.
var bcryptForm = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)

func parseBcrypt(hash string) (matcher, error) {
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil || cost > RoundsMax || !bcryptForm.MatchString(hash) {
		return nil, fmt.Errorf("%w: expected bcrypt of type 2a, 2b or 2y with at most %d rounds", ErrMalformed, RoundsMax)
	}
	return func(password string) (bool, error) {
		err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)[:min(len(password), BytesMax)])
		if errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return true, nil
	}, nil
}

// parseBcryptSHA256 reads "$bcrypt-sha256$v=2,t=2b,r=12$salt$digest": bcrypt of
// a keyed hash of the password, whose key is the salt.
func parseBcryptSHA256(hash string) (matcher, error) {
	part, p, err := split(hash)
	if err != nil {
		return nil, err
	}
	if p["v"] != "2" || p["t"] != "2b" && p["t"] != "2a" {
		return nil, fmt.Errorf("%w: expected version 2 and type 2a or 2b of bcrypt_sha256", ErrMalformed)
	}
	rounds, err := number(p["r"], RoundsMax)
	if err != nil {
		return nil, err
	}
	inner, err := parseBcrypt(fmt.Sprintf("$%s$%02d$%s%s", p["t"], rounds, part[2], part[3]))
	if err != nil {
		return nil, err
	}
	return func(password string) (bool, error) {
		mac := hmac.New(sha256.New, []byte(part[2]))
		mac.Write([]byte(password))
		return inner(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}, nil
}

// parseScrypt reads "$scrypt$ln=16,r=8,p=1$salt$digest".
func parseScrypt(hash string) (matcher, error) {
	part, p, err := split(hash)
	if err != nil {
		return nil, err
	}
	ln, err1 := number(p["ln"], 24)
	r, err2 := number(p["r"], 1<<10)
	parallel, err3 := number(p["p"], ScryptParallelMax)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if memory := 128 * r << ln; memory > ScryptMemoryMax {
		return nil, fmt.Errorf("%w: scrypt needs %d bytes of memory, at most %d are allowed", ErrMalformed, memory, ScryptMemoryMax)
	}
	return derived(part, func(password string, salt []byte, bytes int) ([]byte, error) {
		return scrypt.Key([]byte(password), salt, 1<<ln, r, parallel, bytes)
	})
}

// parsePBKDF2 reads "$pbkdf2-sha512$25000$salt$digest".
func parsePBKDF2(hash string) (matcher, error) {
	part := strings.Split(hash[1:], "$")
	if len(part) != 4 {
		return nil, fmt.Errorf("%w: expected 4 parts, got %d", ErrMalformed, len(part))
	}
	iterations, err := number(part[1], IterationsMax)
	if err != nil {
		return nil, err
	}
	return derived(part, func(password string, salt []byte, bytes int) ([]byte, error) {
		return pbkdf2.Key(sha512.New, password, salt, iterations, bytes)
	})
}

// derived returns the matcher of a hash whose digest key derives from the password
// and the salt.
func derived(part []string, key func(password string, salt []byte, bytes int) ([]byte, error)) (matcher, error) {
	salt, digest, err := saltAndDigest(part)
	if err != nil {
		return nil, err
	}
	return func(password string) (bool, error) {
		got, err := key(password, salt, len(digest))
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return subtle.ConstantTimeCompare(got, digest) == 1, nil
	}, nil
}

// split returns the four parts of a hash (name, parameters, salt, digest), and
// its parameters by name.
func split(hash string) (part []string, parameters map[string]string, err error) {
	part = strings.Split(hash[1:], "$")
	if len(part) != 4 {
		return nil, nil, fmt.Errorf("%w: expected 4 parts, got %d", ErrMalformed, len(part))
	}
	parameters = map[string]string{}
	for p := range strings.SplitSeq(part[1], ",") {
		name, value, _ := strings.Cut(p, "=")
		parameters[name] = value
	}
	return part, parameters, nil
}

// number reads a parameter between 1 and largest.
func number(text string, largest int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > largest {
		return 0, fmt.Errorf("%w: parameter %.12q: expected 1 to %d", ErrMalformed, text, largest)
	}
	return n, nil
}

// digestBytesMin and digestBytesMax bound the digest. A short digest would
// accept many passwords.
const digestBytesMin, digestBytesMax = 16, 128

// saltAndDigest decodes the last two parts of a hash. Older hashes have a dot
// where base64 has a plus sign.
func saltAndDigest(part []string) (salt, digest []byte, err error) {
	decode := base64.RawStdEncoding.DecodeString
	salt, err1 := decode(strings.ReplaceAll(part[2], ".", "+"))
	digest, err2 := decode(strings.ReplaceAll(part[3], ".", "+"))
	if err1 != nil || err2 != nil || len(digest) < digestBytesMin || len(digest) > digestBytesMax {
		return nil, nil, fmt.Errorf("%w: expected salt and digest in base64, and a digest of %d to %d bytes", ErrMalformed, digestBytesMin, digestBytesMax)
	}
	return salt, digest, nil
}
