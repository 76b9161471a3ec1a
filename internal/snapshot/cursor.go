package snapshot

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/limits"
)

// A cursor is text that consists of a token, a flag, the digest of the request,
// and a position in the order of the results. It pins the revision: all pages
// read the view of the first one, also after a restart, as long as the revision
// is kept. The flag is View.Past, so that later pages use the same kind of time
// as the first one. Text that is not a cursor of the same store and request
// fails with ErrCursor.
const cursorPrefix = "c1."

// cursorFixed is the size of everything before the position.
const cursorFixed = TokenBytes + 1 + digestBytes

// Cursor returns the cursor of a page that ends at position.
func (t *Timeline) Cursor(v *View, d Digest, position []byte) string {
	raw := make([]byte, 0, cursorFixed+len(position))
	raw = t.TokenParts(v.Head).Append(raw)
	flag := byte(0)
	if v.Past {
		flag = 1
	}
	raw = append(append(append(raw, flag), d[:]...), position...)
	return cursorPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// cursorParts is the content of a cursor without its digest.
type cursorParts struct {
	TokenParts
	past     bool
	position []byte
}

// readCursor reads a cursor that [Timeline.Cursor] made for the digest.
func readCursor(text string, d Digest) (c cursorParts, err error) {
	if len(text) > limits.CursorBytesMax {
		return c, fmt.Errorf("%w: the cursor has %d bytes, expected at most %d", errs.ErrCursor, len(text), limits.CursorBytesMax)
	}
	if len(text) < len(cursorPrefix) || text[:len(cursorPrefix)] != cursorPrefix {
		return c, fmt.Errorf("%w: expected text that begins with %q", errs.ErrCursor, cursorPrefix)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text[len(cursorPrefix):])
	if err != nil || len(raw) < cursorFixed || raw[TokenBytes] > 1 {
		return c, fmt.Errorf("%w: malformed text", errs.ErrCursor)
	}
	if Digest(raw[TokenBytes+1:cursorFixed]) != d {
		return c, fmt.Errorf("%w: the cursor belongs to another request", errs.ErrCursor)
	}
	return cursorParts{ParseTokenParts(raw), raw[TokenBytes] == 1, raw[cursorFixed:]}, nil
}

// Pinned returns the view of a page, and the position that the page begins
// after. The first page, which has no cursor, reads the view that c chooses.
// digest is called only if there is a cursor.
func (t *Timeline) Pinned(ctx context.Context, c Consistency, cursor string, digest func() Digest) (*View, []byte, error) {
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
	p.Past = parts.past
	return &p, parts.position, nil
}
