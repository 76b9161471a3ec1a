package snapshot

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// A cursor is text that consists of a token, a flag, the digest of the request,
// and a position in the order of the results. It pins the revision: all pages
// read the view of the first one, also after a restart, as long as the revision
// is kept. The flag is the kind of time that later pages use, as the first one: the
// current time, the commit time, or a time that the request chose, which then is in
// front of the position. Text that is not a cursor of the same store and request
// fails with ErrCursor.
const cursorPrefix = "c1."

// Flags of cursors.
const (
	cursorCurrent byte = iota // the current time
	cursorCommit              // the commit time of the revision
	cursorTime                // a time that follows: 8 bytes, big-endian
)

// cursorFixed is the size of everything before the position.
const cursorFixed = authz.TokenBytes + 1 + digestBytes

// Cursor returns the cursor of a page that ends at position.
func (t *Timeline) Cursor(v *View, d Digest, position []byte) string {
	raw := make([]byte, 0, cursorFixed+8+len(position))
	raw = t.TokenParts(v.Head).Append(raw)
	switch {
	case v.Past && v.at != 0:
		raw = append(append(raw, cursorTime), d[:]...)
		raw = binary.BigEndian.AppendUint64(raw, uint64(v.at))
	case v.Past:
		raw = append(append(raw, cursorCommit), d[:]...)
	default:
		raw = append(append(raw, cursorCurrent), d[:]...)
	}
	raw = append(raw, position...)
	return cursorPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// cursorParts is the content of a cursor without its digest.
type cursorParts struct {
	authz.TokenParts
	past     bool     // View.Past
	at       rel.Time // time that the request chose; 0 for another one
	position []byte
}

// readCursor reads a cursor that [Timeline.Cursor] made for the digest.
func readCursor(text string, d Digest) (c cursorParts, err error) {
	if len(text) > authz.CursorBytesMax {
		return c, fmt.Errorf("%w: the cursor has %d bytes, expected at most %d", authz.ErrCursor, len(text), authz.CursorBytesMax)
	}
	if len(text) < len(cursorPrefix) || text[:len(cursorPrefix)] != cursorPrefix {
		return c, fmt.Errorf("%w: expected text that begins with %q", authz.ErrCursor, cursorPrefix)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text[len(cursorPrefix):])
	if err != nil || len(raw) < cursorFixed || raw[authz.TokenBytes] > cursorTime {
		return c, fmt.Errorf("%w: malformed text", authz.ErrCursor)
	}
	if Digest(raw[authz.TokenBytes+1:cursorFixed]) != d {
		return c, fmt.Errorf("%w: the cursor belongs to another request", authz.ErrCursor)
	}
	c = cursorParts{TokenParts: authz.ParseTokenParts(raw), past: raw[authz.TokenBytes] != cursorCurrent, position: raw[cursorFixed:]}
	if raw[authz.TokenBytes] == cursorTime {
		if len(c.position) < 8 {
			return c, fmt.Errorf("%w: malformed text", authz.ErrCursor)
		}
		c.at, c.position = rel.Time(binary.BigEndian.Uint64(c.position)), c.position[8:]
	}
	return c, nil
}

// Pinned returns the view of a page, and the position that the page begins
// after. The first page, which has no cursor, reads the view that c chooses.
// digest is called only if there is a cursor.
func (t *Timeline) Pinned(ctx context.Context, c authz.Consistency, cursor string, digest func() Digest) (*View, []byte, error) {
	if cursor == "" {
		v, err := t.At(ctx, c)
		return v, nil, err
	}
	parts, err := readCursor(cursor, digest())
	if err != nil {
		return nil, nil, err
	}
	v, err := t.AtToken(ctx, parts.TokenParts, true)
	if err != nil {
		return nil, nil, err
	}
	p := *v
	p.Past, p.at = parts.past, parts.at
	return &p, parts.position, nil
}
