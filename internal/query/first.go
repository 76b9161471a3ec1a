package query

import (
	"context"
	"sync/atomic"
	"weak"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
)

// SubjectLookup finds a subject of a stored tuple for many objects of one type.
// It looks up the names of the types once. It is safe for concurrent use.
type SubjectLookup struct {
	timeline *snapshot.Timeline
	object   graph.KindName // the relation on the objects' type
	subject  graph.KindName
	kinds    atomic.Pointer[lookupKinds]
}

// lookupKinds are the numbers of the two kinds in a lineage. The pointer is weak
// so that the lookup does not keep a dropped lineage alive.
type lookupKinds struct {
	lineage         weak.Pointer[graph.Graph]
	object, subject graph.Kind
}

// SubjectLookup returns a lookup of the plain subjects of a type that have a
// relation on objects of a type.
func (a *Answerer) SubjectLookup(objectType, relation, subjectType string) *SubjectLookup {
	return &SubjectLookup{timeline: a.timeline, object: graph.KindName{Type: objectType, Relation: relation}, subject: graph.KindName{Type: subjectType}}
}

// First returns the id of one subject for the object with the given id. At one
// revision it always returns the same subject. It returns false if the object
// has no subject. It reads the stored tuples of the newest view, without the
// schema; expired tuples are omitted.
func (l *SubjectLookup) First(ctx context.Context, id string) (string, bool, error) {
	v, err := l.timeline.Newest(ctx)
	if err != nil {
		return "", false, errs.Wrap("first", l.timeline.ID, err)
	}
	k := l.kinds.Load()
	if k == nil || k.lineage.Value() != v.Graph.Lineage() {
		if k = l.findKinds(v.Graph); k == nil {
			return "", false, nil
		}
	}
	n, ok := v.Graph.Node(k.object, id)
	if !ok {
		return "", false, nil
	}
	list := v.Graph.Forward(n, k.subject)
	for i := range list.Chunks() {
		for _, e := range list.Chunk(i) {
			if e.Detailed() && (rel.Tuple{Expires: v.Graph.Detail(n, e.Node()).Expires}).Expired(l.timeline.Now(v)) {
				continue
			}
			return v.Graph.ID(e.Node()), true, nil
		}
	}
	return "", false, nil
}

// findKinds looks up the numbers of the kinds. It returns nil if the view has no
// such tuple.
func (l *SubjectLookup) findKinds(g *graph.View) *lookupKinds {
	object, ok := g.Kind(l.object)
	subject, ok2 := g.Kind(l.subject)
	if !ok || !ok2 {
		return nil
	}
	k := &lookupKinds{weak.Make(g.Lineage()), object, subject}
	l.kinds.Store(k)
	return k
}
