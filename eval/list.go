package eval

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
)

// ListObjectsQuestion asks for the objects of Type that Subject has Relation
// on.
type ListObjectsQuestion struct {
	Type     string
	Relation string
	Subject  rel.Subject
	Page
}

// Page selects a part of a list. The zero Page selects all of it.
type Page struct {
	// Limit is the most entries that are wanted; 0 or less means all.
	Limit int
	// After is the place that the page follows: the zero Position for the first
	// page, the last answer's Next for the next one. It may be any value.
	After Position
	// UnknownPerPage ends the search where the page ends: Unknown, UnknownCount and
	// Reasons then tell of what stands behind After and not behind the entry that
	// comes after the page, so that the pages of a list tell together of all of
	// it. (Each page but the last may tell of a few that the next one tells of
	// again.)
	UnknownPerPage bool
}

// ObjectList is { x : check(x) is true } of the question's type, or a page of
// it, in the order of OrderHash.
//
// An object of which no tuple and no attribute tells is in no list, unless it
// is the subject's own (group:1#member is a member of itself).
type ObjectList struct {
	// IDs are the ids of the objects.
	IDs []string
	// More says that the list goes on: ask again after Next.
	More bool
	Next Position

	// Unknown are the ids of the first UnknownMax objects for which check is
	// unknown, in the same order, and UnknownCount how many there are in all,
	// whatever the page, unless that is Short. Reasons say why, of all of them. Where the schema says
	// MissingContextFails, an edge that does not lead to the subject adds no
	// object to these.
	Unknown      []string
	UnknownCount int
	Reasons      *Reasons

	// Bound names the bound that stopped the search; "" says that the list is
	// complete. What is in IDs is right in any case.
	Bound string
	Stats Stats
}

// UnknownMax bounds the undecided objects or subjects that a list names.
const UnknownMax = 100

// ErrEnumerate says that the list needs all objects of a type (a rule or an
// attribute may hold for any of them), and the data cannot name them.
var ErrEnumerate = errors.New("the data cannot name all objects of a type")

// Enumerator is an optional power of a Reader: all objects of a type. Lists
// of relations that hold by rules or attributes need it.
type Enumerator interface {
	// Objects yields a node of each object of the type of which a tuple or an
	// attribute tells. Order and repetition do not matter.
	Objects(typ string) iter.Seq[graph.Node]
}

// ListObjects lists what a subject has a relation on. It walks from the
// subject to all objects at once; what the walk leaves open is checked. It
// returns ErrReverse where the data cannot be read from the subject's side,
// ErrEnumerate as said there, and otherwise the errors of Check.
func (b *Binding) ListObjects(ctx context.Context, r Reader, lq ListObjectsQuestion, env *Env) (ObjectList, error) {
	if env == nil {
		env = &Env{}
	}
	target, err := b.relation(lq.Type, lq.Relation)
	if err != nil {
		return ObjectList{}, err
	}
	if err := ctx.Err(); err != nil {
		return ObjectList{}, err
	}
	b, r, o, err := b.listReader(r, env)
	if err != nil {
		return ObjectList{}, err
	}
	if o != nil {
		defer o.release()
	}
	if !r.Reversible() {
		return ObjectList{}, ErrReverse
	}
	w := walk{target: target}
	w.q.start(ctx, b, r, lq.Subject, env)
	w.plan = b.planned(planKey{target: target, kind: w.q.kind})
	if v := w.scans(); v != nil {
		return w.scan(v, lq.Page)
	}
	err = w.run()
	defer w.release()
	if err != nil {
		return ObjectList{}, err
	}
	return w.list(lq.Page)
}

// found is what a walk ends in, in the list's order and each object once.
type found struct {
	ids     []string
	entries []ranked // in order; at is the index in ids and nodes
	sure    int      // entries with at below it need no check
}

// list checks what is open and cuts the page.
func (w *walk) list(p Page) (ObjectList, error) {
	w.settle()
	f := w.found()
	l := ObjectList{Bound: w.bound}
	if f.sure == len(f.ids) {
		l.IDs, l.More = f.cut(p)
	} else {
		w.decide(&l, f, p)
	}
	if n := len(l.IDs); n > 0 {
		l.Next = PositionOf(l.IDs[n-1])
	}
	l.Stats = w.q.stats
	return l, w.q.failed()
}

// cut is a page of a list in which nothing is open.
func (f *found) cut(p Page) (ids []string, more bool) {
	entries := f.entries
	if p.After != (Position{}) {
		first, _ := slices.BinarySearchFunc(entries, p.After, func(e ranked, after Position) int {
			if (Position{e.hash, f.ids[e.at]}).Compare(after) > 0 {
				return 1
			}
			return -1
		})
		entries = entries[first:]
	}
	if p.Limit > 0 && len(entries) > p.Limit {
		entries, more = entries[:p.Limit], true
	}
	ids = make([]string, len(entries))
	for i, e := range entries {
		ids[i] = f.ids[e.at]
	}
	return ids, more
}

// decide checks what is open and takes the page from what is true.
func (w *walk) decide(l *ObjectList, f found, p Page) {
	cut := pager{page: p}
	for _, e := range f.entries {
		id := f.ids[e.at]
		if p.UnknownPerPage && (cut.more || (Position{e.hash, id}).Compare(p.After) <= 0) {
			continue
		}
		if int(e.at) >= f.sure {
			switch a := w.check(int(e.at)-f.sure, id); a.Decision {
			case expr.False:
				continue
			case expr.Unknown:
				l.unknown(id, a.Reasons)
				continue
			}
		}
		if cut.take(e.hash, id) {
			l.IDs = append(l.IDs, id)
		}
	}
	l.More = cut.more
}

// pager cuts a page from entries that come in order.
type pager struct {
	page Page
	n    int
	more bool     // an entry came after the page was full
	last Position // of the page
}

// take says whether an entry is on the page.
func (c *pager) take(hash uint64, id string) bool {
	at := Position{hash, id}
	if c.more || c.page.After != (Position{}) && at.Compare(c.page.After) <= 0 {
		return false
	}
	if c.page.Limit > 0 && c.n == c.page.Limit {
		c.more = true
		return false
	}
	c.n++
	c.last = at
	return true
}

func (l *ObjectList) unknown(id string, why *Reasons) {
	l.UnknownCount++
	if len(l.Unknown) < UnknownMax {
		l.Unknown = append(l.Unknown, id)
	}
	if l.Reasons == nil {
		l.Reasons = &Reasons{}
	}
	l.Reasons.merge(why)
}
