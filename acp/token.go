package acp

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// TokenBytesMax is the longest bearer token, in bytes, that [VerifyToken] reads.
const TokenBytesMax = 8 << 10

// Identity is the verified holder of a bearer token.
type Identity struct {
	// DID is the holder's did:key, from the claim iss.
	DID string
	// Key is the public key that signed the token, from the claim sub.
	Key PublicKey
	// AuthorizedAccount is the claim authorized_account, or "" if it is absent.
	AuthorizedAccount string
	// Expires is the claim exp, in whole seconds.
	Expires time.Time
}

// TokenCheck holds what [VerifyToken] compares a token with.
type TokenCheck struct {
	// Audience is this server's own name. Case does not matter. It is required:
	// without it, a token for another server would be accepted here.
	Audience string
	// Now is the time of the check. It is required.
	Now time.Time
	// Leeway is the largest accepted clock difference. The default is none.
	Leeway time.Duration
}

// VerifyToken checks a bearer token: a JWT (RFC 7519) that its subject signed
// with its own key, by ES256K (RFC 8812) or EdDSA (RFC 8037). The claim sub is
// the key in hexadecimal digits, iss its did:key, key_type its [KeyType]; aud,
// exp and nbf must match c. No issuer is trusted and no token can be revoked,
// so tokens should be short-lived.
//
// Every error is an [ErrToken], of the kind [ErrTokenMalformed],
// [ErrTokenIdentity], [ErrTokenSignature], [ErrTokenTime] or
// [ErrTokenAudience].
func VerifyToken(token string, c TokenCheck) (Identity, error) {
	if c.Audience == "" || c.Now.IsZero() {
		return Identity{}, fmt.Errorf("%w: the check has no audience or no time to compare with", ErrTokenAudience)
	}
	if len(token) > TokenBytesMax {
		return Identity{}, fmt.Errorf("%w: %d bytes, expected at most %d", ErrTokenMalformed, len(token), TokenBytesMax)
	}
	if _, err := jsonread.JWT(token); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrTokenMalformed, err)
	}
	registerES256K()
	parser := jwt.NewParser(jwt.WithStrictDecoding(), jwt.WithValidMethods([]string{algSecp256k1, algEd25519}),
		jwt.WithExpirationRequired(), jwt.WithLeeway(c.Leeway), jwt.WithTimeFunc(func() time.Time { return c.Now }))
	claims := jwt.MapClaims{}
	var id Identity
	_, err := parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		var err error
		id, err = readIdentity(claims, t.Method.Alg())
		if id.Key.Type == KeyEd25519 {
			return ed25519.PublicKey(id.Key.Bytes), err
		}
		return id.Key, err
	})
	if err == nil {
		err = checkAudience(claims, c.Audience)
	}
	if err != nil {
		return Identity{}, tokenError(err)
	}
	return id, nil
}

// tokenError returns err with one of this package's kinds.
func tokenError(err error) error {
	switch {
	case errors.Is(err, ErrToken):
		return err
	case errors.Is(err, jwt.ErrTokenExpired), errors.Is(err, jwt.ErrTokenNotValidYet):
		return fmt.Errorf("%w: %w", ErrTokenTime, err)
	case errors.Is(err, jwt.ErrEd25519Verification), errors.Is(err, errSignature):
		return ErrTokenSignature
	}
	return fmt.Errorf("%w: %w", ErrTokenMalformed, err)
}

// readIdentity reads the signer's identity from a token whose signature is not
// verified yet. It fails if the token's key, its did:key and its algorithm do
// not belong together.
func readIdentity(claims jwt.MapClaims, alg string) (Identity, error) {
	var text [4]string
	for i, name := range [...]string{"sub", "iss", "key_type", "authorized_account"} {
		value, ok := claims[name].(string)
		if _, present := claims[name]; !ok && (present || name != "authorized_account") {
			return Identity{}, fmt.Errorf("%w: claim %s: expected a string", ErrTokenMalformed, name)
		}
		text[i] = value
	}
	key, err := tokenKey(text[0], text[1], KeyType(text[2]), alg)
	if err != nil {
		return Identity{}, err
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil {
		return Identity{}, fmt.Errorf("%w: claim exp: expected a number of seconds", ErrTokenMalformed)
	}
	return Identity{DID: text[1], Key: key, AuthorizedAccount: text[3], Expires: expires.UTC()}, nil
}

// tokenKey returns the key in sub. It fails if iss names another key, or if alg
// does not sign with keys of that type.
func tokenKey(sub, iss string, keyType KeyType, alg string) (PublicKey, error) {
	raw, err := hex.DecodeString(sub)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: claim sub: expected a key in hexadecimal digits", ErrTokenIdentity)
	}
	key := PublicKey{keyType, raw}
	if err := key.validate(); err != nil {
		return PublicKey{}, fmt.Errorf("%w: claim sub: %w", ErrTokenIdentity, err)
	}
	if (alg == algSecp256k1) != (key.Type == KeySecp256k1) {
		return PublicKey{}, fmt.Errorf("%w: algorithm %s does not sign with keys of type %s", ErrTokenIdentity, alg, key.Type)
	}
	issuer, err := ParseKeyDID(iss)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: claim iss: %w", ErrTokenIdentity, err)
	}
	if !issuer.same(key) {
		return PublicKey{}, fmt.Errorf("%w: claims iss and sub name different keys", ErrTokenIdentity)
	}
	return key, nil
}

// checkAudience fails unless one of the token's audiences is want.
func checkAudience(claims jwt.MapClaims, want string) error {
	audiences, err := claims.GetAudience()
	if err != nil || len(audiences) == 0 {
		return fmt.Errorf("%w: claim aud: expected a string or a list of strings", ErrTokenMalformed)
	}
	for _, a := range audiences {
		if strings.EqualFold(a, want) {
			return nil
		}
	}
	return fmt.Errorf("%w: the token is for %q, expected %q", ErrTokenAudience, audiences, want)
}

// Token signs a bearer token for an audience, valid from a time on for lifetime.
// account becomes the claim authorized_account; "" leaves it out. It fails with
// [ErrInput] if k holds no key.
func (k PrivateKey) Token(audience string, from time.Time, lifetime time.Duration, account string) (string, error) {
	if k.secp == nil && k.ed == nil {
		return "", fmt.Errorf("%w: the private key is empty", ErrInput)
	}
	public := k.Public()
	claims := jwt.MapClaims{"sub": hex.EncodeToString(public.Bytes), "iss": public.DID(), "key_type": public.Type,
		"aud": []string{strings.ToLower(audience)}, "nbf": from.Unix(), "iat": from.Unix(), "exp": from.Add(lifetime).Unix()}
	if account != "" {
		claims["authorized_account"] = account
	}
	if k.secp != nil {
		return jwt.NewWithClaims(es256k{}, claims).SignedString(k)
	}
	return jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims).SignedString(k.ed)
}
