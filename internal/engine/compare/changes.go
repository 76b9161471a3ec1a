package compare

import (
	"context"

	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// changedKeys holds the keys of tuples and attributes that log entries touch,
// each once. A key may have the same value before and after the entries.
type changedKeys struct {
	tuples     map[rel.Key]struct{}
	attributes map[rel.Attribute]struct{} // without their values
}

func newChangedKeys() changedKeys {
	return changedKeys{tuples: map[rel.Key]struct{}{}, attributes: map[rel.Attribute]struct{}{}}
}

func (k *changedKeys) len() int { return len(k.tuples) + len(k.attributes) }

const (
	// stepsPerChange is the number of steps of turns.Part that a change of an entry
	// takes.
	stepsPerChange = 40
	// stepsPerObject is the same for an object or a userset that is found, and
	// stepsPerQuestion for a question apart from its nodes.
	stepsPerObject, stepsPerQuestion = 16, 64
)

// changedBetween reads from the log what changed after the revision of before, up
// to and including the revision of after. It fails with [authz.ErrBound] if more
// than Bounds.DifferenceChanges keys changed.
func changedBetween(ctx context.Context, t *snapshot.Timeline, before, after *snapshot.View) (changedKeys, error) {
	keys := newChangedKeys()
	var part turns.Part
	for e, err := range t.Runtime.Driver.Entries(ctx, t.ID, before.Head.Revision+1) {
		if err != nil {
			return keys, err
		}
		if e.Incarnation != t.Incarnation {
			return keys, snapshot.ErrIncarnation
		}
		if e.Revision > after.Head.Revision {
			break
		}
		keys.add(e.Changes, before)
		if err := part.Step(ctx, nil, stepsPerChange*(1+len(e.Changes))); err != nil {
			return keys, err
		}
		if err := errs.CheckBound("DifferenceChanges", keys.len(), t.Runtime.Bounds.DifferenceChanges); err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// add collects the keys that one log entry touches. A removal by filter does not
// name its keys. Those that the filter removed were either in before, or an
// entry after before added them, and that entry names them.
func (k *changedKeys) add(changes []storage.Change, before *snapshot.View) {
	for i := range changes {
		switch ch := &changes[i]; ch.Kind {
		case storage.TupleAdd, storage.TupleRemove:
			k.tuples[ch.Tuple.Key()] = struct{}{}
		case storage.AttributeSet, storage.AttributeRemove:
			k.attributes[rel.Attribute{Object: ch.Attribute.Object, Name: ch.Attribute.Name}] = struct{}{}
		case storage.RemoveByFilter:
			k.addMatching(&ch.Filter, before)
		}
	}
}

// addMatching collects the keys in before that a filter selects.
func (k *changedKeys) addMatching(f *storage.Filter, before *snapshot.View) {
	switch f.Target {
	case storage.FilterTuples:
		for _, t := range before.Graph.Tuples(f.Tuple, graph.Position{}) {
			k.tuples[t.Key()] = struct{}{}
		}
	case storage.FilterAttributes:
		for a := range before.Graph.Attributes(f.ObjectType, f.ObjectID, f.Name) {
			k.attributes[rel.Attribute{Object: a.Object, Name: a.Name}] = struct{}{}
		}
	}
}
