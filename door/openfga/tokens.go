package openfga

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// A continuation token is URL-safe base64 of a kind, a position, and a digest
// of both with the list that it belongs to. The digest keeps a token from
// being used on another list or altered by accident; it is no secret, and a
// position says nothing that the list would not. Any text is survived.
type tokenKind byte

const (
	storesToken tokenKind = iota + 1
	modelsToken
	tuplesToken
	changesToken
)

const tokenDigestBytes = 8

// sealToken writes a position in the list that of names.
func sealToken(k tokenKind, position []byte, of ...string) string {
	raw := append([]byte{byte(k)}, position...)
	d := tokenDigest(raw, of)
	return base64.RawURLEncoding.EncodeToString(append(raw, d[:]...))
}

// openToken reads what sealToken wrote for the same list.
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
