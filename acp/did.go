package acp

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/mr-tron/base58"

	"github.com/ostiary/ostiary/rel"
)

// Multicodec numbers of did:key.
const (
	codecSecp256k1 = 0xe7
	codecEd25519   = 0xed
)

// DID returns the did:key of a key, in the form that the key has.
func (k PublicKey) DID() string {
	codec := uint64(codecSecp256k1)
	if k.Type == KeyEd25519 {
		codec = codecEd25519
	}
	return "did:key:z" + base58.Encode(append(binary.AppendUvarint(nil, codec), k.Bytes...))
}

// ParseKeyDID returns the key of a did:key of secp256k1 or ed25519.
func ParseKeyDID(did string) (PublicKey, error) {
	text, ok := strings.CutPrefix(did, "did:key:z")
	if !ok || len(did) > rel.IDBytesMax {
		return PublicKey{}, fmt.Errorf("%w: not a did:key in base58", ErrInvalidDID)
	}
	raw, err := base58.Decode(text)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: %w", ErrInvalidDID, err)
	}
	codec, n := binary.Uvarint(raw)
	if n <= 0 {
		return PublicKey{}, fmt.Errorf("%w: no key type", ErrInvalidDID)
	}
	k := PublicKey{Bytes: raw[n:]}
	switch codec {
	case codecSecp256k1:
		k.Type = KeySecp256k1
	case codecEd25519:
		k.Type = KeyEd25519
	default:
		return PublicKey{}, fmt.Errorf("%w: key type %#x is none of secp256k1 and ed25519", ErrInvalidDID, codec)
	}
	if err := k.validate(); err != nil {
		return PublicKey{}, err
	}
	if k.DID() != did {
		return PublicKey{}, fmt.Errorf("%w: not written in the one way", ErrInvalidDID)
	}
	return k, nil
}

// ValidateDID checks a DID. A did:key must hold a sound key; of another method
// the form is checked (W3C DID Core: did:method:id), as nothing else can be
// without asking somebody.
func ValidateDID(did string) error {
	if len(did) > rel.IDBytesMax {
		return fmt.Errorf("%w: longer than %d bytes", ErrInvalidDID, rel.IDBytesMax)
	}
	rest, ok := strings.CutPrefix(did, "did:")
	method, id, found := strings.Cut(rest, ":")
	if !ok || !found || method == "" || id == "" {
		return fmt.Errorf("%w: %q is not of the form did:method:id", ErrInvalidDID, did)
	}
	if method == "key" {
		_, err := ParseKeyDID(did)
		return err
	}
	for _, c := range []byte(method) {
		if !digit(c) && (c < 'a' || c > 'z') {
			return fmt.Errorf("%w: method %q", ErrInvalidDID, method)
		}
	}
	for i := 0; i < len(id); i++ {
		switch c := id[i]; {
		case letter(c), digit(c), strings.IndexByte("._-", c) >= 0:
		case c == ':' && i+1 < len(id):
		case c == '%' && i+2 < len(id) && hexDigit(id[i+1]) && hexDigit(id[i+2]):
			i += 2
		default:
			return fmt.Errorf("%w: %q has a character that stands in no DID", ErrInvalidDID, did)
		}
	}
	return nil
}

// soundDIDs remembers DIDs that ValidateDID found sound.
type soundDIDs struct {
	mu   sync.RWMutex
	dids map[string]struct{}
}

// soundMax is how many are remembered; one more forgets them all.
const soundMax = 10_000

func (s *soundDIDs) validate(did string) error {
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
	if len(s.dids) >= soundMax || s.dids == nil {
		s.dids = map[string]struct{}{}
	}
	s.dids[strings.Clone(did)] = struct{}{}
	return nil
}

// authenticated refuses who has no identity, or none that is one.
func (e *Engine) authenticated(did string) error {
	if did == "" {
		return ErrUnauthenticated
	}
	return e.sound.validate(did)
}

func hexDigit(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
