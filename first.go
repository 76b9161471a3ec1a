package ostiary

import (
	"context"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
)

// First returns the id of one of the plain objects of a type that stand as
// subjects in tuples of object#relation, always the same one at a revision, or
// false where there is none. It reads the stored tuples of the newest view,
// whatever a schema says, and leaves expired ones out. It is the cheap question
// for relations that have one subject: a document's owner, a folder's parent.
func (s *Store) First(ctx context.Context, object rel.Object, relation, subjectType string) (string, bool, error) {
	v, err := s.view(ctx)
	if err != nil {
		return "", false, failed("first", s.id, err)
	}
	g := v.graph
	of, ok := g.Kind(graph.KindName{Type: object.Type, Relation: relation})
	if !ok {
		return "", false, nil
	}
	to, ok := g.Kind(graph.KindName{Type: subjectType})
	if !ok {
		return "", false, nil
	}
	n, ok := g.Node(of, object.ID)
	if !ok {
		return "", false, nil
	}
	list := g.Forward(n, to)
	for i := range list.Chunks() {
		for _, e := range list.Chunk(i) {
			if e.Detailed() && (rel.Tuple{Expires: g.Detail(n, e.Node()).Expires}).Expired(s.nowOf(v)) {
				continue
			}
			return g.ID(e.Node()), true, nil
		}
	}
	return "", false, nil
}
