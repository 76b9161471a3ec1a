package eval

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
)

// ListObjectsQuestion asks for the objects of a type on which a subject has a
// relation.
type ListObjectsQuestion struct {
	// Type is the type of the objects.
	Type string
	// Relation is a relation of Type.
	Relation string
	// Subject is the subject, as in [authz.Question].
	Subject rel.Subject
	// Scope restricts the search for objects. While the search looks for
	// candidates, a tuple or an attribute of an object counts only if Scope has
	// no entry for the object's type, or if the entry has the object's id. Each
	// operand of an intersection or an exclusion can make an object a candidate.
	// The list has the candidates for which check is true, and that check sees
	// everything. Nil means no restriction.
	Scope map[string][]string
	// Page selects a part of the list.
	Page
}

// Page selects a part of a list. The zero Page selects all of it.
type Page struct {
	// Limit is the greatest number of entries; 0 or less means all.
	Limit int
	// After is the position that the page follows: the zero Position for the
	// first page, and the Next of one page for the following page. Any value
	// is valid.
	After Position
	// UnknownPerPage limits the report about unknown entries to the page's own
	// range. By default each page reports the unknown entries of the whole
	// list, and so costs as much as the whole list; with UnknownPerPage the
	// search stops at the end of the page.
	//
	// The range of a page begins after After and ends at the first entry that
	// follows the page. All pages together report every unknown entry; the few
	// between two pages may be reported by both.
	UnknownPerPage bool
}

// ObjectList is a list of objects, or a page of it, in the order of
// [OrderHash]: the objects of the question's type for which check is true.
//
// An object that is in no tuple and has no attribute is in no list, unless it
// is the subject's own (group:1#member is a member of itself).
type ObjectList struct {
	// IDs are the ids of the objects.
	IDs []string
	// More is true if the list continues. The next page has Next as its After.
	More bool
	// Next is the position of the last entry of the page.
	Next Position

	// Unknown are the ids of the first [authz.UnknownMax] objects for which check is
	// unknown, in the same order. With schema.Options.MissingContextFails, an
	// edge that does not lead to the subject adds no object to them.
	Unknown []string
	// UnknownCount is the number of objects for which check is unknown, in the
	// whole list or in the page's range ([Page.UnknownPerPage]).
	UnknownCount int
	// Reasons are the reasons of all those objects; nil if there are none.
	Reasons *authz.Reasons

	// Bound names the bound that stopped the search; "" means that the list is
	// complete. Every object in IDs is right in both cases.
	Bound string
	// Stats count the work that the list took.
	Stats authz.Stats
}

// ErrEnumerate means that a list needs all objects of a type, because a rule
// or an attribute may hold for any of them, and that the data cannot enumerate
// them.
var ErrEnumerate = errors.New("the data cannot enumerate the objects of a type")

// Enumerator is an optional interface of a [Reader]: it enumerates the objects
// of a type. Lists of relations with rules or attributes need it.
type Enumerator interface {
	// Objects yields a node of each object of the type that is in a tuple or
	// has an attribute. Order and repetition do not matter.
	Objects(typ string) iter.Seq[graph.Node]
}

// ListObjects lists the objects on which a subject has a relation. It walks
// from the subject to all objects at once, and checks the candidates that the
// walk leaves uncertain. It returns [ErrReverse] if the data cannot be read
// from the subject's side, [ErrEnumerate] as described there, and otherwise
// the errors of Check. A nil env means the zero Env.
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
	w := objectWalk{target: target}
	w.q.start(ctx, b, r, lq.Subject, env)
	defer w.q.finish()
	w.plan = b.listPlan(planKey{target: target, kind: w.q.kind, scoped: lq.Scope != nil})
	if lq.Scope != nil {
		if !w.restrict(lq.Scope) {
			return ObjectList{Bound: w.stopped(), Stats: w.q.stats}, w.q.failed()
		}
	} else if v := w.scanView(); v != nil {
		return w.scan(v, lq.Page)
	}
	err = w.run()
	defer w.releaseScratch()
	if err != nil {
		return ObjectList{}, err
	}
	return w.page(lq.Page)
}

// listEntries is what a walk has found, in the list's order, each object or
// subject once.
type listEntries struct {
	// ids are the ids of the entries, in no order.
	ids []string
	// entries are in the list's order. Their index is that of the id.
	entries []orderedID
	// certain is the number of ids, from the first on, that need no check.
	certain int
}

// page checks what is uncertain and returns the page.
func (w *objectWalk) page(p Page) (ObjectList, error) {
	w.confirmUncertain()
	f := w.found()
	l := ObjectList{Bound: w.bound}
	if f.certain == len(f.ids) {
		l.IDs, l.More = f.page(p)
	} else {
		w.checkUncertain(&l, f, p)
	}
	if n := len(l.IDs); n > 0 {
		l.Next = PositionOf(l.IDs[n-1])
	}
	if l.Bound == "" && w.q.exhausted() {
		l.Bound = w.q.boundReached()
	}
	l.Stats = w.q.stats
	return l, w.q.failed()
}

// page returns a page of a list without uncertain entries, and whether the
// list continues.
func (f *listEntries) page(p Page) (ids []string, more bool) {
	entries := f.entries
	if p.After != (Position{}) {
		entries = f.after(p.After)
	}
	if p.Limit > 0 && len(entries) > p.Limit {
		entries, more = entries[:p.Limit], true
	}
	ids = make([]string, len(entries))
	for i, e := range entries {
		ids[i] = f.ids[e.index]
	}
	return ids, more
}

// after returns the entries that follow a position.
func (f *listEntries) after(p Position) []orderedID {
	first, _ := slices.BinarySearchFunc(f.entries, p, func(e orderedID, p Position) int {
		if (Position{e.hash, f.ids[e.index]}).Compare(p) > 0 {
			return 1
		}
		return -1
	})
	return f.entries[first:]
}

// checkUncertain checks the uncertain entries and fills the page with what is
// true.
func (w *objectWalk) checkUncertain(l *ObjectList, f listEntries, p Page) {
	cut := pageCutter{page: p}
	for _, e := range f.entries {
		if w.q.err != nil || w.q.exhausted() {
			break
		}
		id := f.ids[e.index]
		if p.UnknownPerPage && (cut.more || (Position{e.hash, id}).Compare(p.After) <= 0) {
			continue
		}
		if int(e.index) >= f.certain {
			switch a := w.check(int(e.index)-f.certain, id); a.Decision {
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

// pageCutter cuts a page from entries that come in order.
type pageCutter struct {
	// page is the page to cut.
	page Page
	// taken is the number of entries on the page.
	taken int
	// more is true once an entry came after the page was full.
	more bool
	// last is the position of the last entry on the page.
	last Position
}

// take reports whether an entry is on the page.
func (c *pageCutter) take(hash uint64, id string) bool {
	at := Position{hash, id}
	if c.more || c.page.After != (Position{}) && at.Compare(c.page.After) <= 0 {
		return false
	}
	if c.page.Limit > 0 && c.taken == c.page.Limit {
		c.more = true
		return false
	}
	c.taken++
	c.last = at
	return true
}

// unknown adds an object for which check is unknown.
func (l *ObjectList) unknown(id string, why *authz.Reasons) {
	l.UnknownCount++
	if len(l.Unknown) < authz.UnknownMax {
		l.Unknown = append(l.Unknown, id)
	}
	if l.Reasons == nil {
		l.Reasons = &authz.Reasons{}
	}
	mergeReasons(l.Reasons, why)
}
