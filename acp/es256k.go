package acp

import (
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/golang-jwt/jwt/v5"
)

// The two algorithms that sign tokens, by their JWT names.
const (
	algSecp256k1 = "ES256K"
	algEd25519   = "EdDSA"
)

// errSignature reports an ES256K signature that does not belong to the key.
var errSignature = errors.New("ES256K signature does not match")

// registerES256K adds ES256K to the algorithms that the JWT library knows. The
// library keeps one list for the process. [VerifyToken] adds to it on first
// use, so that importing this package has no side effect.
var registerES256K = sync.OnceFunc(func() {
	if jwt.GetSigningMethod(algSecp256k1) == nil {
		jwt.RegisterSigningMethod(algSecp256k1, func() jwt.SigningMethod { return es256k{} })
	}
})

// es256k is the algorithm ES256K of RFC 8812 for the JWT library, which has no
// curve secp256k1 itself. Its keys are [PrivateKey] and [PublicKey].
type es256k struct{}

// Alg returns the algorithm's name in a token's header.
func (es256k) Alg() string { return algSecp256k1 }

// Sign returns the 64 bytes r and s of an ECDSA signature over SHA-256. key
// must be a [PrivateKey] of secp256k1.
func (es256k) Sign(message string, key any) ([]byte, error) {
	k, ok := key.(PrivateKey)
	if !ok || k.secp == nil {
		return nil, jwt.ErrInvalidKeyType
	}
	hash := sha256.Sum256([]byte(message))
	signature := ecdsa.Sign(k.secp, hash[:])
	r, s := signature.R(), signature.S()
	out := make([]byte, 64)
	r.PutBytesUnchecked(out[:32])
	s.PutBytesUnchecked(out[32:])
	return out, nil
}

// Verify checks a signature made by [es256k.Sign]. key must be a [PublicKey] of
// secp256k1.
func (es256k) Verify(message string, signature []byte, key any) error {
	k, ok := key.(PublicKey)
	if !ok || k.Type != KeySecp256k1 {
		return jwt.ErrInvalidKeyType
	}
	if len(signature) != 64 {
		return errSignature
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(signature[:32]) || s.SetByteSlice(signature[32:]) || r.IsZero() || s.IsZero() {
		return errSignature
	}
	public, err := secp256k1.ParsePubKey(k.Bytes)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(message))
	if !ecdsa.NewSignature(&r, &s).Verify(hash[:], public) {
		return errSignature
	}
	return nil
}
