package ostiary

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// A cursor is a token, a digest of the question, and a position in the
// question's order. It pins the revision: later pages are of the first one's
// view, also after a restart, as long as that revision is kept. Times go on:
// where the first page was asked at its arrival, so is each later one. Any text
// is survived; one that is not of this store and question is ErrCursor.
const cursorPrefix = "c1."

// cursorFixed is what stands before the position: token parts, a flag, digest.
const cursorFixed = tokenBytes + 1 + digestBytes

const digestBytes = 16

type digest [digestBytes]byte

// cursorText writes a cursor for what comes after position.
func (s *Store) cursorText(v *view, d digest, position []byte) string {
	raw := make([]byte, 0, cursorFixed+len(position))
	raw = tokenParts{s.incarnation, v.head.Revision, markOf(v.head.Hash)}.append(raw)
	flag := byte(0)
	if v.past {
		flag = 1
	}
	raw = append(append(append(raw, flag), d[:]...), position...)
	return cursorPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// cursorParts is what a cursor says.
type cursorParts struct {
	tokenParts
	past     bool
	position []byte
}

// readCursor accepts what cursorText writes for the same question.
func readCursor(text string, d digest) (c cursorParts, err error) {
	if len(text) > CursorBytesMax {
		return c, fmt.Errorf("%w: longer than %d bytes", ErrCursor, CursorBytesMax)
	}
	if len(text) < len(cursorPrefix) || text[:len(cursorPrefix)] != cursorPrefix {
		return c, fmt.Errorf("%w: of no known version", ErrCursor)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text[len(cursorPrefix):])
	if err != nil || len(raw) < cursorFixed || raw[tokenBytes] > 1 {
		return c, fmt.Errorf("%w: malformed", ErrCursor)
	}
	if digest(raw[tokenBytes+1:cursorFixed]) != d {
		return c, fmt.Errorf("%w: it belongs to another", ErrCursor)
	}
	return cursorParts{parseParts(raw), raw[tokenBytes] == 1, raw[cursorFixed:]}, nil
}

// digester writes a question as canonical bytes: every field in order, texts
// and lists behind their length, so that different questions differ.
type digester struct{ b []byte }

func (d *digester) sum() digest {
	h := sha256.Sum256(d.b)
	return digest(h[:digestBytes])
}

func (d *digester) number(n int) { d.b = binary.AppendVarint(d.b, int64(n)) }

func (d *digester) text(s ...string) {
	for _, x := range s {
		d.number(len(x))
		d.b = append(d.b, x...)
	}
}

func (d *digester) flag(f bool) {
	if f {
		d.b = append(d.b, 1)
	} else {
		d.b = append(d.b, 0)
	}
}

func (d *digester) object(o rel.Object)   { d.text(o.Type, o.ID) }
func (d *digester) subject(s rel.Subject) { d.text(s.Type, s.ID, s.Relation) }

func (d *digester) tuple(t rel.Tuple) {
	d.object(t.Object)
	d.text(t.Relation)
	d.subject(t.Subject)
	d.text(t.Condition, t.Context)
	d.number(int(t.Expires))
}

func (d *digester) filter(f rel.Filter) {
	d.text(f.ObjectType, f.ObjectID, f.Relation, f.SubjectType, f.SubjectID, f.SubjectRelation)
	d.flag(f.SubjectPlain)
}

func (d *digester) bounds(b eval.Bounds) {
	d.number(b.Depth)
	d.number(b.Nodes)
}

// ask is everything of an Ask but its At: the cursor pins the revision.
func (d *digester) ask(a *QueryOptions) {
	d.text(a.SchemaID)
	d.values(a.Context)
	d.number(len(a.Tuples))
	for _, t := range a.Tuples {
		d.tuple(t)
	}
	d.number(len(a.Attributes))
	for _, x := range a.Attributes {
		d.object(x.Object)
		d.text(x.Name, x.Value)
	}
	d.bounds(a.Bounds)
}

func (d *digester) values(v expr.Values) {
	d.number(len(v))
	for _, k := range slices.Sorted(maps.Keys(v)) {
		d.text(k)
		d.value(v[k])
	}
}

// value writes the Go type, too: 1 and "1" are different questions.
func (d *digester) value(v any) {
	d.text(fmt.Sprintf("%T", v))
	switch x := v.(type) {
	case nil:
	case []any:
		d.number(len(x))
		for _, e := range x {
			d.value(e)
		}
	case map[string]any:
		d.values(x)
	default:
		d.text(fmt.Sprint(x))
	}
}
