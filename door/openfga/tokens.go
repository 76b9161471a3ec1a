package openfga

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// tokenKind is the list that a continuation token belongs to. A token is URL-safe
// base64 of its kind, a position, and a digest of both together with the list. The
// digest detects tokens of other lists and accidental changes. It is not secret: a
// position contains nothing that the list does not show. Any text may be passed to
// openToken.
type tokenKind byte

const (
	storesToken tokenKind = iota + 1
	modelsToken
	tuplesToken
	changesToken
)

const tokenDigestBytes = 8

// sealToken returns the token of a position in the list that of identifies.
func sealToken(k tokenKind, position []byte, of ...string) string {
	raw := append([]byte{byte(k)}, position...)
	d := tokenDigest(raw, of)
	return base64.RawURLEncoding.EncodeToString(append(raw, d[:]...))
}

// openToken returns the position of a token. It fails if sealToken did not make the
// token for the same list.
func openToken(k tokenKind, text string, of ...string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 1+tokenDigestBytes || raw[0] != byte(k) {
		return nil, badContinuation()
	}
	body := raw[:len(raw)-tokenDigestBytes]
	if tokenDigest(body, of) != [tokenDigestBytes]byte(raw[len(body):]) {
		return nil, badContinuation()
	}
	return body[1:], nil
}

func tokenDigest(raw []byte, of []string) (d [tokenDigestBytes]byte) {
	b := binary.AppendUvarint(nil, uint64(len(raw)))
	b = append(b, raw...)
	for _, s := range of {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
}

func badContinuation() error { return failf(codeContinuation, "Invalid continuation token") }
