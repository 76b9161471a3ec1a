package ostiary

import (
	"context"
	"sync/atomic"
	"weak"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
)

// FirstSubject returns the id of one of the plain objects of a type that stand as
// subjects in tuples of object#relation, always the same one at a revision, or
// false where there is none. It reads the stored tuples of the newest view,
// whatever a schema says, and leaves expired ones out. It is the cheap question
// for relations that have one subject: a document's owner, a folder's parent.
func (s *Store) FirstSubject(ctx context.Context, object rel.Object, relation, subjectType string) (string, bool, error) {
	return s.SubjectLookup(object.Type, relation, subjectType).First(ctx, object.ID)
}

// SubjectLookup is First for many objects: what is the same for all of them is looked
// up once. It is safe for concurrent use.
type SubjectLookup struct {
	s      *Store
	of, to graph.KindName
	found  atomic.Pointer[firstKinds]
}

// firstKinds are the numbers of the kinds in a lineage, which is not kept alive
// for their sake.
type firstKinds struct {
	lineage weak.Pointer[graph.Graph]
	of, to  graph.Kind
}

// SubjectLookup returns the question for a relation of a type's objects and a type of
// subjects.
func (s *Store) SubjectLookup(objectType, relation, subjectType string) *SubjectLookup {
	return &SubjectLookup{s: s, of: graph.KindName{Type: objectType, Relation: relation}, to: graph.KindName{Type: subjectType}}
}

// First returns what First does for the object of an id.
func (f *SubjectLookup) First(ctx context.Context, id string) (string, bool, error) {
	v, err := f.s.view(ctx)
	if err != nil {
		return "", false, failed("first", f.s.id, err)
	}
	k := f.found.Load()
	if k == nil || k.lineage.Value() != v.graph.Lineage() {
		if k = f.kinds(v.graph); k == nil {
			return "", false, nil
		}
	}
	n, ok := v.graph.Node(k.of, id)
	if !ok {
		return "", false, nil
	}
	list := v.graph.Forward(n, k.to)
	for i := range list.Chunks() {
		for _, e := range list.Chunk(i) {
			if e.Detailed() && (rel.Tuple{Expires: v.graph.Detail(n, e.Node()).Expires}).Expired(f.s.nowOf(v)) {
				continue
			}
			return v.graph.ID(e.Node()), true, nil
		}
	}
	return "", false, nil
}

// kinds looks the kinds up; nil is a view that has no such tuple.
func (f *SubjectLookup) kinds(g *graph.View) *firstKinds {
	of, ok := g.Kind(f.of)
	to, there := g.Kind(f.to)
	if !ok || !there {
		return nil
	}
	k := &firstKinds{weak.Make(g.Lineage()), of, to}
	f.found.Store(k)
	return k
}
