package ostiary

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/ostiary/ostiary/storage"
)

// Token is a point in one store's history, as opaque text: the store's
// incarnation, a revision, and the beginning of that entry's hash. It comes
// from writes and answers and is given back in At. Any text is survived: one
// that this store's history does not confirm is ErrToken.
type Token string

// tokenPrefix names the version of the text.
const tokenPrefix = "o1."

// tokenParts is what a token says.
type tokenParts struct {
	incarnation storage.Incarnation
	revision    storage.Revision
	mark        uint64 // first bytes of the entry's hash; 0 before the first entry
}

const tokenBytes = 16 + 8 + 8

// markOf is the part of a hash that tokens carry.
func markOf(h storage.Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

func (s *Store) tokenAt(h storage.Head) Token {
	return tokenParts{s.incarnation, h.Revision, markOf(h.Hash)}.text()
}

func (p tokenParts) append(dst []byte) []byte {
	dst = append(dst, p.incarnation[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.revision))
	return binary.BigEndian.AppendUint64(dst, p.mark)
}

// tokenText is how long every token is.
const tokenText = len(tokenPrefix) + (tokenBytes*8+5)/6

func (p tokenParts) write(out *[tokenText]byte) {
	var raw [tokenBytes]byte
	copy(out[:], tokenPrefix)
	base64.RawURLEncoding.Encode(out[len(tokenPrefix):], p.append(raw[:0]))
}

func (p tokenParts) text() Token {
	var out [tokenText]byte
	p.write(&out)
	return Token(out[:])
}

// readToken accepts exactly what text writes. It does not allocate for a token
// that is one.
func readToken(t Token) (p tokenParts, err error) {
	if len(t) > TokenBytesMax {
		return p, fmt.Errorf("%w: longer than %d bytes", ErrToken, TokenBytesMax)
	}
	if len(t) < len(tokenPrefix) || t[:len(tokenPrefix)] != tokenPrefix {
		return p, fmt.Errorf("%w: of no known version", ErrToken)
	}
	var in, again [tokenText]byte
	var raw [tokenBytes]byte
	if len(t) == tokenText {
		copy(in[:], t)
		if n, err := base64.RawURLEncoding.Decode(raw[:], in[len(tokenPrefix):]); err == nil && n == tokenBytes {
			p = parseParts(raw[:])
			// Another text of the same bytes is no token.
			if p.write(&again); again == in {
				return p, nil
			}
		}
	}
	return tokenParts{}, fmt.Errorf("%w: malformed", ErrToken)
}

func parseParts(raw []byte) (p tokenParts) {
	copy(p.incarnation[:], raw)
	p.revision = storage.Revision(binary.BigEndian.Uint64(raw[16:]))
	p.mark = binary.BigEndian.Uint64(raw[24:])
	return p
}

// Revision returns the revision that a token names. Nothing is said of whether
// a store has it.
func (t Token) Revision() (storage.Revision, error) {
	p, err := readToken(t)
	return p.revision, failed("read token", storage.StoreID{}, err)
}
