package authz

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/ostiary/ostiary/storage"
)

// Token names a revision of one store as opaque text. Writes and answers return
// tokens; [Consistency] takes them. A call fails with ErrToken if the text is
// not a token, or if the token belongs to another store or to another history
// of the store.
type Token string

// tokenPrefix is the version of the text.
const tokenPrefix = "o1."

// TokenParts is the decoded content of a token.
type TokenParts struct {
	// Incarnation is the incarnation of the store.
	Incarnation storage.Incarnation
	// Revision is the revision that the token names.
	Revision storage.Revision
	// Mark is a part of the hash of the entry that led to the revision; 0 for revision 0.
	Mark uint64
}

// TokenBytes is the size of TokenParts in bytes.
const TokenBytes = 16 + 8 + 8

// Append appends the parts to dst as TokenBytes bytes.
func (p TokenParts) Append(dst []byte) []byte {
	dst = append(dst, p.Incarnation[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Revision))
	return binary.BigEndian.AppendUint64(dst, p.Mark)
}

// ParseTokenParts reads what [TokenParts.Append] wrote; raw has TokenBytes bytes
// or more.
func ParseTokenParts(raw []byte) (p TokenParts) {
	copy(p.Incarnation[:], raw)
	p.Revision = storage.Revision(binary.BigEndian.Uint64(raw[16:]))
	p.Mark = binary.BigEndian.Uint64(raw[24:])
	return p
}

// tokenText is the length of every token.
const tokenText = len(tokenPrefix) + (TokenBytes*8+5)/6

func (p TokenParts) write(out *[tokenText]byte) {
	var raw [TokenBytes]byte
	copy(out[:], tokenPrefix)
	base64.RawURLEncoding.Encode(out[len(tokenPrefix):], p.Append(raw[:0]))
}

// Token returns the token that has the parts.
func (p TokenParts) Token() Token {
	var out [tokenText]byte
	p.write(&out)
	return Token(out[:])
}

// ReadToken returns the parts of a token, or ErrToken if the text is not one.
// It does not allocate for a valid token.
func ReadToken(t Token) (p TokenParts, err error) {
	if len(t) > TokenBytesMax {
		return p, fmt.Errorf("%w: the token has %d bytes, expected at most %d", ErrToken, len(t), TokenBytesMax)
	}
	if len(t) < len(tokenPrefix) || t[:len(tokenPrefix)] != tokenPrefix {
		return p, fmt.Errorf("%w %q: expected text that begins with %q", ErrToken, t, tokenPrefix)
	}
	var in, again [tokenText]byte
	var raw [TokenBytes]byte
	if len(t) == tokenText {
		copy(in[:], t)
		if n, err := base64.RawURLEncoding.Decode(raw[:], in[len(tokenPrefix):]); err == nil && n == TokenBytes {
			p = ParseTokenParts(raw[:])
			// Base64 has several texts for the same bytes; only the one that write
			// produces is a token.
			if p.write(&again); again == in {
				return p, nil
			}
		}
	}
	return TokenParts{}, fmt.Errorf("%w %q: malformed text", ErrToken, t)
}

// Revision returns the revision that a token names. It does not check that a
// store has the revision.
func (t Token) Revision() (storage.Revision, error) {
	p, err := ReadToken(t)
	if err != nil {
		return 0, &Error{Op: "read token", Kind: ErrToken, Err: err}
	}
	return p.Revision, nil
}
