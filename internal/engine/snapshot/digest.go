package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

const digestBytes = 16

// Digest is a hash of a request. A cursor contains it, so that a cursor of one
// request is not accepted by another.
type Digest [digestBytes]byte

// Digester hashes a request. Each method adds a part; lists and texts are
// preceded by their length, so that different requests have different digests.
// The zero Digester is ready to use.
type Digester struct{ b []byte }

// Sum returns the digest of the parts.
func (d *Digester) Sum() Digest {
	h := sha256.Sum256(d.b)
	return Digest(h[:digestBytes])
}

// Number adds a number.
func (d *Digester) Number(n int) { d.b = binary.AppendVarint(d.b, int64(n)) }

// Text adds texts.
func (d *Digester) Text(s ...string) {
	for _, x := range s {
		d.Number(len(x))
		d.b = append(d.b, x...)
	}
}

// Flag adds a boolean.
func (d *Digester) Flag(f bool) {
	if f {
		d.b = append(d.b, 1)
	} else {
		d.b = append(d.b, 0)
	}
}

// Object adds an object.
func (d *Digester) Object(o rel.Object) { d.Text(o.Type, o.ID) }

// Subject adds a subject.
func (d *Digester) Subject(s rel.Subject) { d.Text(s.Type, s.ID, s.Relation) }

// Tuples adds a list of tuples with all their fields.
func (d *Digester) Tuples(tuples []rel.Tuple) {
	d.Number(len(tuples))
	for i := range tuples {
		t := &tuples[i]
		d.Object(t.Object)
		d.Text(t.Relation)
		d.Subject(t.Subject)
		d.Text(t.Condition, t.Context)
		d.Number(int(t.Expires))
	}
}

// Attributes adds a list of attributes.
func (d *Digester) Attributes(attributes []rel.Attribute) {
	d.Number(len(attributes))
	for _, a := range attributes {
		d.Object(a.Object)
		d.Text(a.Name, a.Value)
	}
}

// Filter adds a filter.
func (d *Digester) Filter(f rel.Filter) {
	d.Text(f.ObjectType, f.ObjectID, f.Relation, f.SubjectType, f.SubjectID, f.SubjectRelation)
	d.Flag(f.SubjectPlain)
}

// Bounds adds the bounds of a question.
func (d *Digester) Bounds(b authz.QuestionBounds) {
	for _, n := range [...]int{b.Depth, b.Nodes, b.ConditionCost, b.Memory, b.ExpandEntries, b.ExpandBytes} {
		d.Number(n)
	}
}

// Values adds a request's context, in the order of its names.
func (d *Digester) Values(v expr.Values) {
	d.Number(len(v))
	for _, k := range slices.Sorted(maps.Keys(v)) {
		d.Text(k)
		d.value(v[k])
	}
}

// value adds the Go type of a value as well: 1 and "1" are different values.
func (d *Digester) value(v any) {
	d.Text(fmt.Sprintf("%T", v))
	switch x := v.(type) {
	case nil:
	case []any:
		d.Number(len(x))
		for _, e := range x {
			d.value(e)
		}
	case map[string]any:
		d.Values(x)
	default:
		d.Text(fmt.Sprint(x))
	}
}
