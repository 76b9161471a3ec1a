package query

import (
	"context"
	"sync/atomic"
	"weak"

	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
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

// lookupKinds are the numbers of the two kinds in a lineage, for a schema that has
// them. The pointer is weak so that the lookup does not keep a dropped lineage alive.
type lookupKinds struct {
	lineage         weak.Pointer[graph.Graph]
	schema          string // the id
	object, subject graph.Kind
}

// SubjectLookup returns a lookup of the plain subjects of a type that have a
// relation on objects of a type.
func (a *Answerer) SubjectLookup(objectType, relation, subjectType string) *SubjectLookup {
	return &SubjectLookup{timeline: a.timeline, object: graph.KindName{Type: objectType, Relation: relation}, subject: graph.KindName{Type: subjectType}}
}

// First returns the id of one subject for the object with the given id. At one
// revision it always returns the same subject. It returns false if the object
// has no subject, and fails if the current schema lacks a type or the relation. It
// reads the stored tuples of the newest view, without other rules of the schema;
// expired tuples are omitted.
func (l *SubjectLookup) First(ctx context.Context, id string) (string, bool, error) {
	v, err := l.timeline.Newest(ctx)
	if err != nil {
		return "", false, errs.Wrap("first", l.timeline.ID, err)
	}
	current, _ := v.SchemaFor(l.object.Type)
	k := l.kinds.Load()
	if k == nil || k.schema != current.ID || k.lineage.Value() != v.Graph.Lineage() {
		if k, err = l.findKinds(ctx, v); k == nil {
			return "", false, errs.Wrap("first", l.timeline.ID, err)
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

// findKinds looks up the numbers of the kinds. It returns nil without an error if
// the view has no such tuple.
func (l *SubjectLookup) findKinds(ctx context.Context, v *snapshot.View) (*lookupKinds, error) {
	s, err := l.timeline.Schema(ctx, v, l.object.Type, "")
	if err != nil {
		return nil, err
	}
	for _, typ := range [...]string{l.object.Type, l.subject.Type} {
		if _, ok := s.Schema.Type(typ); !ok {
			return nil, &eval.NameError{Err: eval.ErrNoType, Type: typ, Schema: s.Schema}
		}
	}
	if _, ok := s.Schema.Relation(l.object.Type, l.object.Relation); !ok {
		return nil, &eval.NameError{Err: eval.ErrNoRelation, Type: l.object.Type, Relation: l.object.Relation, Schema: s.Schema}
	}
	object, ok := v.Graph.Kind(l.object)
	subject, ok2 := v.Graph.Kind(l.subject)
	if !ok || !ok2 {
		return nil, nil
	}
	k := &lookupKinds{weak.Make(v.Graph.Lineage()), s.Info.ID, object, subject}
	l.kinds.Store(k)
	return k, nil
}
