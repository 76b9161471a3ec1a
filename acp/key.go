package acp

import (
	"crypto/ed25519"
	"fmt"

	"filippo.io/edwards25519"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// KeyType is the algorithm of an identity's key.
type KeyType string

const (
	// KeySecp256k1 is ECDSA on the curve secp256k1.
	KeySecp256k1 KeyType = "secp256k1"
	// KeyEd25519 is EdDSA on the curve edwards25519 (RFC 8032).
	KeyEd25519 KeyType = "ed25519"
)

// PublicKey is an identity's public key.
type PublicKey struct {
	// Type is the key's algorithm.
	Type KeyType
	// Bytes are the 32 bytes of an ed25519 key, or the 33 (compressed) or 65
	// (uncompressed) bytes of a secp256k1 key.
	Bytes []byte
}

// validate fails with [ErrInvalidDID] unless the bytes are a point of the curve.
func (k PublicKey) validate() error {
	switch k.Type {
	case KeySecp256k1:
		if n := len(k.Bytes); n != 33 && n != 65 || n == 65 && k.Bytes[0] != 4 {
			return fmt.Errorf("%w: secp256k1 key of %d bytes, expected 33 (compressed) or 65 (uncompressed)", ErrInvalidDID, n)
		}
		if _, err := secp256k1.ParsePubKey(k.Bytes); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidDID, err)
		}
	case KeyEd25519:
		if len(k.Bytes) != ed25519.PublicKeySize {
			return fmt.Errorf("%w: ed25519 key of %d bytes, expected %d", ErrInvalidDID, len(k.Bytes), ed25519.PublicKeySize)
		}
		// The library also reads points that are not in their one canonical form.
		point, err := new(edwards25519.Point).SetBytes(k.Bytes)
		if err != nil || string(point.Bytes()) != string(k.Bytes) {
			return fmt.Errorf("%w: not a point of the curve ed25519", ErrInvalidDID)
		}
	default:
		return fmt.Errorf("%w: unknown key type %q, expected %s or %s", ErrInvalidDID, k.Type, KeySecp256k1, KeyEd25519)
	}
	return nil
}

// same reports whether two valid keys are equal. A compressed key equals its
// uncompressed form.
func (k PublicKey) same(other PublicKey) bool {
	if k.Type != other.Type {
		return false
	}
	if k.Type == KeyEd25519 {
		return string(k.Bytes) == string(other.Bytes)
	}
	a, err := secp256k1.ParsePubKey(k.Bytes)
	b, err2 := secp256k1.ParsePubKey(other.Bytes)
	return err == nil && err2 == nil && a.IsEqual(b)
}

// PrivateKey signs tokens. Formatting it prints "[redacted]".
type PrivateKey struct {
	secp *secp256k1.PrivateKey
	ed   ed25519.PrivateKey
}

// GenerateKey returns a new random key. It fails with [ErrInvalidDID] if the
// key type is unknown.
func GenerateKey(t KeyType) (PrivateKey, error) {
	switch t {
	case KeySecp256k1:
		k, err := secp256k1.GeneratePrivateKey()
		return PrivateKey{secp: k}, err
	case KeyEd25519:
		_, k, err := ed25519.GenerateKey(nil)
		return PrivateKey{ed: k}, err
	}
	return PrivateKey{}, fmt.Errorf("%w: unknown key type %q, expected %s or %s", ErrInvalidDID, t, KeySecp256k1, KeyEd25519)
}

// NewPrivateKey returns the key with these bytes: the 32-byte scalar of
// secp256k1, or the 32-byte seed or 64-byte private key of ed25519. It fails
// with [ErrInput] if the bytes are not such a key.
func NewPrivateKey(t KeyType, key []byte) (PrivateKey, error) {
	switch {
	case t == KeySecp256k1 && len(key) == 32:
		var d secp256k1.ModNScalar
		if !d.SetByteSlice(key) && !d.IsZero() {
			return PrivateKey{secp: secp256k1.NewPrivateKey(&d)}, nil
		}
	case t == KeyEd25519 && len(key) == ed25519.SeedSize:
		return PrivateKey{ed: ed25519.NewKeyFromSeed(key)}, nil
	case t == KeyEd25519 && len(key) == ed25519.PrivateKeySize:
		if k := ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]); string(k) == string(key) {
			return PrivateKey{ed: k}, nil
		}
	}
	return PrivateKey{}, fmt.Errorf("%w: %d bytes are not a private key of type %q", ErrInput, len(key), t)
}

// String keeps the key out of logs.
func (PrivateKey) String() string { return "[redacted]" }

// GoString keeps the key out of text made by %#v.
func (PrivateKey) GoString() string { return "[redacted]" }

// MarshalText always fails, so that a key is never written by accident.
func (PrivateKey) MarshalText() ([]byte, error) {
	return nil, fmt.Errorf("%w: a private key cannot be marshaled", ErrInput)
}

// Public returns the public key. A secp256k1 key is uncompressed, as in
// DefraDB's identities.
func (k PrivateKey) Public() PublicKey {
	if k.secp != nil {
		return PublicKey{KeySecp256k1, k.secp.PubKey().SerializeUncompressed()}
	}
	if k.ed == nil {
		return PublicKey{}
	}
	return PublicKey{KeyEd25519, []byte(k.ed.Public().(ed25519.PublicKey))}
}
