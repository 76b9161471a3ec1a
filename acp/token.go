package acp

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// TokenBytesMax bounds a bearer token.
const TokenBytesMax = 8 << 10

// Identity is who a bearer token speaks for.
type Identity struct {
	DID string
	Key PublicKey
	// AuthorizedAccount is the token's claim of that name, if it has one.
	AuthorizedAccount string
	Expires           time.Time
}

// TokenCheck says what a token must be good for.
type TokenCheck struct {
	// Audience is the server's own name, compared without regard to case. Without
	// one every token is refused: a token for another server must not do here.
	Audience string
	// Now is the time of the check; zero is refused too.
	Now time.Time
	// Leeway is how far the clocks may be apart. Default none.
	Leeway time.Duration
}

// token's two algorithms, the only ones.
const (
	algSecp256k1 = "ES256K"
	algEd25519   = "EdDSA"
)

// claims are those that count.
type claims struct {
	sub, iss, keyType, account string
	audience                   []string
	expires, notBefore         time.Time
}

// VerifyToken checks a bearer token: a JWT that its subject signed with his own
// key, of the algorithms ES256K and EdDSA. sub is the key in hexadecimal digits,
// iss its did:key, key_type its type; aud, exp and nbf must fit. There is no
// issuer to trust and nothing to revoke: keep them short-lived.
func VerifyToken(token string, c TokenCheck) (Identity, error) {
	if c.Audience == "" || c.Now.IsZero() {
		return Identity{}, fmt.Errorf("%w: nothing to hold it against", ErrTokenAudience)
	}
	if len(token) > TokenBytesMax {
		return Identity{}, fmt.Errorf("%w: longer than %d bytes", ErrTokenMalformed, TokenBytesMax)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Identity{}, fmt.Errorf("%w: not three parts", ErrTokenMalformed)
	}
	alg, err := tokenAlgorithm(parts[0])
	if err != nil {
		return Identity{}, err
	}
	x, err := readClaims(parts[1])
	if err != nil {
		return Identity{}, err
	}
	key, err := x.key(alg)
	if err != nil {
		return Identity{}, err
	}
	signature, err := tokenBytes(parts[2])
	if err != nil {
		return Identity{}, err
	}
	if !key.verify([]byte(parts[0]+"."+parts[1]), signature) {
		return Identity{}, ErrTokenSignature
	}
	if err := x.good(&c); err != nil {
		return Identity{}, err
	}
	return Identity{DID: x.iss, Key: key, AuthorizedAccount: x.account, Expires: x.expires}, nil
}

func tokenBytes(part string) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTokenMalformed, err)
	}
	return b, nil
}

// tokenObject decodes a part by the very names of its fields, which
// encoding/json's structs would also match in other cases.
func tokenObject(part string) (map[string]json.RawMessage, error) {
	b, err := tokenBytes(part)
	if err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil || m == nil {
		return nil, fmt.Errorf("%w: no JSON object", ErrTokenMalformed)
	}
	return m, nil
}

func tokenAlgorithm(part string) (string, error) {
	header, err := tokenObject(part)
	if err != nil {
		return "", err
	}
	var alg string
	if json.Unmarshal(header["alg"], &alg) != nil || alg != algSecp256k1 && alg != algEd25519 {
		return "", fmt.Errorf("%w: algorithm %q is none of %s and %s", ErrTokenMalformed, alg, algSecp256k1, algEd25519)
	}
	if _, ok := header["crit"]; ok {
		return "", fmt.Errorf("%w: it demands extensions", ErrTokenMalformed)
	}
	return alg, nil
}

func readClaims(part string) (x claims, err error) {
	m, err := tokenObject(part)
	if err != nil {
		return x, err
	}
	read := func(name string, to any, required bool) {
		raw, ok := m[name]
		switch {
		case err != nil || !ok && !required:
		case !ok:
			err = fmt.Errorf("%w: no claim %s", ErrTokenMalformed, name)
		case json.Unmarshal(raw, to) != nil:
			err = fmt.Errorf("%w: claim %s", ErrTokenMalformed, name)
		}
	}
	read("sub", &x.sub, true)
	read("iss", &x.iss, true)
	read("key_type", &x.keyType, true)
	read("authorized_account", &x.account, false)
	if one := ""; err == nil && json.Unmarshal(m["aud"], &one) == nil {
		x.audience = []string{one}
	} else {
		read("aud", &x.audience, true)
	}
	var exp, nbf float64
	read("exp", &exp, true)
	read("nbf", &nbf, false)
	if err == nil && (math.Abs(exp) > 1e15 || math.Abs(nbf) > 1e15) {
		err = fmt.Errorf("%w: a time out of range", ErrTokenMalformed)
	}
	x.expires, x.notBefore = secondsTime(exp), secondsTime(nbf)
	return x, err
}

func secondsTime(s float64) time.Time { return time.UnixMilli(int64(s * 1000)).UTC() }

// key returns the subject's key, which must be the issuer's and fit the
// algorithm.
func (x *claims) key(alg string) (PublicKey, error) {
	raw, err := hex.DecodeString(x.sub)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: sub is no hexadecimal key", ErrTokenIdentity)
	}
	key := PublicKey{KeyType(x.keyType), raw}
	if err := key.validate(); err != nil {
		return PublicKey{}, fmt.Errorf("%w: %w", ErrTokenIdentity, err)
	}
	if (alg == algSecp256k1) != (key.Type == KeySecp256k1) {
		return PublicKey{}, fmt.Errorf("%w: algorithm %s with a key of %s", ErrTokenIdentity, alg, key.Type)
	}
	issuer, err := ParseKeyDID(x.iss)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: %w", ErrTokenIdentity, err)
	}
	if !issuer.same(key) {
		return PublicKey{}, fmt.Errorf("%w: iss is another key than sub", ErrTokenIdentity)
	}
	return key, nil
}

// same compares two valid keys, in whatever form.
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

// verify checks a signature of a valid key.
func (k PublicKey) verify(message, signature []byte) bool {
	if k.Type == KeyEd25519 {
		return ed25519.Verify(k.Bytes, message, signature)
	}
	if len(signature) != 64 {
		return false
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(signature[:32]) || s.SetByteSlice(signature[32:]) || r.IsZero() || s.IsZero() {
		return false
	}
	pub, err := secp256k1.ParsePubKey(k.Bytes)
	if err != nil {
		return false
	}
	hash := sha256.Sum256(message)
	return ecdsa.NewSignature(&r, &s).Verify(hash[:], pub)
}

// good holds time and audience against the check.
func (x *claims) good(c *TokenCheck) error {
	if !c.Now.Before(x.expires.Add(c.Leeway)) {
		return fmt.Errorf("%w: expired at %s", ErrTokenTime, x.expires)
	}
	if c.Now.Before(x.notBefore.Add(-c.Leeway)) {
		return fmt.Errorf("%w: not valid before %s", ErrTokenTime, x.notBefore)
	}
	for _, a := range x.audience {
		if strings.EqualFold(a, c.Audience) {
			return nil
		}
	}
	return fmt.Errorf("%w: it is for %q", ErrTokenAudience, x.audience)
}

// PrivateKey signs tokens. It never prints itself.
type PrivateKey struct {
	secp *secp256k1.PrivateKey
	ed   ed25519.PrivateKey
}

// GenerateKey returns a new key.
func GenerateKey(t KeyType) (PrivateKey, error) {
	switch t {
	case KeySecp256k1:
		k, err := secp256k1.GeneratePrivateKey()
		return PrivateKey{secp: k}, err
	case KeyEd25519:
		_, k, err := ed25519.GenerateKey(nil)
		return PrivateKey{ed: k}, err
	}
	return PrivateKey{}, fmt.Errorf("%w: unknown key type %q", ErrInvalidDID, t)
}

// NewPrivateKey reads a key: the 32 bytes of secp256k1, the seed of 32 or the
// 64 of ed25519.
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
	return PrivateKey{}, fmt.Errorf("%w: no private key of type %q", ErrInput, t)
}

// String keeps the key out of logs.
func (PrivateKey) String() string { return "[redacted]" }

// GoString keeps it out of %#v too.
func (PrivateKey) GoString() string { return "[redacted]" }

// MarshalText refuses: a key is not written by accident.
func (PrivateKey) MarshalText() ([]byte, error) {
	return nil, fmt.Errorf("%w: a private key is not written", ErrInput)
}

// Public returns the public key; that of secp256k1 in the longer form, which is
// the one of DefraDB's identities.
func (k PrivateKey) Public() PublicKey {
	if k.secp != nil {
		return PublicKey{KeySecp256k1, k.secp.PubKey().SerializeUncompressed()}
	}
	if k.ed == nil {
		return PublicKey{}
	}
	return PublicKey{KeyEd25519, []byte(k.ed.Public().(ed25519.PublicKey))}
}

// Token signs a bearer token for an audience, valid from a time on for a while.
// account is the authorized_account, "" for none.
func (k PrivateKey) Token(audience string, from time.Time, lifetime time.Duration, account string) (string, error) {
	if k.secp == nil && k.ed == nil {
		return "", fmt.Errorf("%w: no key", ErrInput)
	}
	pub := k.Public()
	alg := algEd25519
	if pub.Type == KeySecp256k1 {
		alg = algSecp256k1
	}
	payload := map[string]any{"sub": hex.EncodeToString(pub.Bytes), "iss": pub.DID(), "key_type": pub.Type,
		"aud": []string{strings.ToLower(audience)}, "nbf": from.Unix(), "iat": from.Unix(), "exp": from.Add(lifetime).Unix()}
	if account != "" {
		payload["authorized_account"] = account
	}
	head, err := json.Marshal(map[string]string{"alg": alg, "typ": "JWT"})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	text := enc.EncodeToString(head) + "." + enc.EncodeToString(body)
	return text + "." + enc.EncodeToString(k.sign([]byte(text))), nil
}

func (k PrivateKey) sign(message []byte) []byte {
	if k.secp == nil {
		return ed25519.Sign(k.ed, message)
	}
	hash := sha256.Sum256(message)
	signature := ecdsa.Sign(k.secp, hash[:])
	r, s := signature.R(), signature.S()
	var out [64]byte
	r.PutBytesUnchecked(out[:32])
	s.PutBytesUnchecked(out[32:])
	return out[:]
}
