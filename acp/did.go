package acp

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/mr-tron/base58"

	"github.com/ostiary/ostiary/rel"
)

// The multicodec numbers of key types in a did:key.
const (
	codecSecp256k1 = 0xe7
	codecEd25519   = 0xed
)

// DID returns the key's did:key. A compressed key and its uncompressed form have
// different DIDs.
func (k PublicKey) DID() string {
	codec := uint64(codecSecp256k1)
	if k.Type == KeyEd25519 {
		codec = codecEd25519
	}
	return "did:key:z" + base58.Encode(append(binary.AppendUvarint(nil, codec), k.Bytes...))
}

// ParseKeyDID returns the key in a did:key of secp256k1 or ed25519. It fails
// with [ErrInvalidDID] if the DID is malformed or its key is not a point of the
// curve.
func ParseKeyDID(did string) (PublicKey, error) {
	text, ok := strings.CutPrefix(did, "did:key:z")
	if !ok || len(did) > rel.IDBytesMax {
		return PublicKey{}, fmt.Errorf("%w: %.80q: expected did:key:z and a key in base58", ErrInvalidDID, did)
	}
	raw, err := base58.Decode(text)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: %w", ErrInvalidDID, err)
	}
	codec, n := binary.Uvarint(raw)
	if n <= 0 {
		return PublicKey{}, fmt.Errorf("%w: the did:key has no key type", ErrInvalidDID)
	}
	k := PublicKey{Bytes: raw[n:]}
	switch codec {
	case codecSecp256k1:
		k.Type = KeySecp256k1
	case codecEd25519:
		k.Type = KeyEd25519
	default:
		return PublicKey{}, fmt.Errorf("%w: key type %#x, expected secp256k1 (0xe7) or ed25519 (0xed)", ErrInvalidDID, codec)
	}
	if err := k.validate(); err != nil {
		return PublicKey{}, err
	}
	if k.DID() != did {
		return PublicKey{}, fmt.Errorf("%w: the did:key is not in its canonical form", ErrInvalidDID)
	}
	return k, nil
}

// ValidateDID fails with [ErrInvalidDID] unless the text is a DID. A did:key must
// hold a valid key. For other methods only the syntax did:method:id of W3C DID
// Core is checked, since more would need a network request.
func ValidateDID(did string) error {
	if len(did) > rel.IDBytesMax {
		return fmt.Errorf("%w: %d bytes, expected at most %d", ErrInvalidDID, len(did), rel.IDBytesMax)
	}
	rest, ok := strings.CutPrefix(did, "did:")
	method, id, found := strings.Cut(rest, ":")
	if !ok || !found || method == "" || id == "" {
		return fmt.Errorf("%w: %q: expected did:method:id", ErrInvalidDID, did)
	}
	if method == "key" {
		_, err := ParseKeyDID(did)
		return err
	}
	for _, c := range []byte(method) {
		if !digit(c) && (c < 'a' || c > 'z') {
			return fmt.Errorf("%w: method %q: expected lower-case letters and digits", ErrInvalidDID, method)
		}
	}
	for i := 0; i < len(id); i++ {
		switch c := id[i]; {
		case letter(c), digit(c), strings.IndexByte("._-", c) >= 0:
		case c == ':' && i+1 < len(id):
		case c == '%' && i+2 < len(id) && hexDigit(id[i+1]) && hexDigit(id[i+2]):
			i += 2
		default:
			return fmt.Errorf("%w: %q has a character that a DID cannot contain", ErrInvalidDID, did)
		}
	}
	return nil
}

// didCache caches DIDs that [ValidateDID] accepted.
type didCache struct {
	mu   sync.RWMutex
	dids map[string]struct{}
}

// didCacheMax is the number of cached DIDs. When it is reached, the cache is
// emptied.
const didCacheMax = 10_000

// validate is like [ValidateDID], but looks in the cache first.
func (s *didCache) validate(did string) error {
	s.mu.RLock()
	_, ok := s.dids[did]
	s.mu.RUnlock()
	if ok {
		return nil
	}
	if err := ValidateDID(did); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dids) >= didCacheMax || s.dids == nil {
		s.dids = map[string]struct{}{}
	}
	s.dids[strings.Clone(did)] = struct{}{}
	return nil
}

// authenticate fails with [ErrUnauthenticated] if the identity is empty, and with
// [ErrInvalidDID] if it is not a DID.
func (e *Engine) authenticate(did string) error {
	if did == "" {
		return ErrUnauthenticated
	}
	return e.dids.validate(did)
}

func hexDigit(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
