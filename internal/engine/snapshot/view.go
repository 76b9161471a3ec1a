package snapshot

// This file has what every question needs: the view, the schema and the time.

import (
	"context"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// View is what a store held at one revision. It never changes.
type View struct {
	// Head is the place of the view in the log.
	Head storage.Head
	// Graph holds the tuples and the attributes of the revision.
	Graph *graph.View
	// Past is true if the request chose the revision. Questions on such a view are
	// asked at its commit time, or at the time that the request chose, not at the
	// current time.
	Past    bool
	schemas *schemaSet
	// importing is the revision that marked the store as incomplete, 0 without a
	// mark; see [authz.ImportKind].
	importing storage.Revision
	// at is the time at which questions on the view are asked, if it is not 0.
	at rel.Time
}

func marksImport(kind, key string) bool { return kind == authz.ImportKind && key == authz.ImportKey }

// At returns the view that c chooses. It fails with ErrImporting if an import into
// the store had not ended at the revision of the view.
func (t *Timeline) At(ctx context.Context, c authz.Consistency) (v *View, err error) {
	if choice := c.Choice(); choice.Mode == authz.ModeNewest {
		v, err = t.Newest(ctx)
	} else if choice.Mode == authz.ModeLocal {
		v, err = t.Current(ctx)
	} else {
		v, err = t.choose(ctx, choice)
	}
	if err == nil && v.importing != 0 {
		return nil, authz.ErrImporting
	}
	return v, err
}

// Newest returns a view that has every write that was acknowledged before the call, on
// whichever node, loading the store if necessary. It fails with ErrNoStore if another
// engine has deleted the store, and with ErrNoLease if it is not certain that the driver
// has every such write.
func (t *Timeline) Newest(ctx context.Context) (*View, error) {
	if err := t.Runtime.BeforeRead(ctx); err != nil {
		return nil, err
	}
	return t.Current(ctx)
}

// BeforeRead returns when the views have every write that was acknowledged before the
// call, on whichever node. It is called when a request has arrived, and before its view
// is chosen. See [storage.Copy].
func (r *Runtime) BeforeRead(ctx context.Context) error {
	if r.Copy == nil {
		return nil
	}
	return r.Copy.BeforeRead(ctx)
}

// Current returns the newest view that this engine has, loading the store if necessary.
// It fails with ErrNoStore if another engine has deleted the store.
func (t *Timeline) Current(ctx context.Context) (*View, error) {
	if v := t.newest.Load(); v != nil {
		if t.outdated() {
			if err := t.ConfirmStore(ctx); err != nil {
				return nil, err
			}
		}
		t.Use()
		return v, nil
	}
	return t.load(ctx)
}

// outdated reports whether a store was updated or deleted since the description of
// this one was read.
func (t *Timeline) outdated() bool {
	return t.confirmed.Load() != t.Runtime.catalog.Load()+1
}

// Use keeps the view in memory until the call of [Runtime.DropIdle] after the
// next one.
func (t *Timeline) Use() {
	if !t.used.Load() {
		t.used.Store(true)
	}
}

// Now returns the time that questions on v are asked at: the time of
// [Timeline.Hold] for its view, [View.AsOf] for a view whose revision the request
// chose, otherwise the current time.
func (t *Timeline) Now(v *View) rel.Time {
	if v.at != 0 || v.Past {
		return v.AsOf()
	}
	return t.Runtime.Now()
}

// AsOf returns the time that the request chose for questions on v, or the commit time
// of v.
func (v *View) AsOf() rel.Time {
	if v.at != 0 {
		return v.at
	}
	return v.Head.Time
}

// AskedAt returns a copy of v for questions at a time. Its revision is one that the
// request chose.
func (v *View) AskedAt(at rel.Time) *View {
	p := *v
	p.Past, p.at = true, at
	return &p
}

// HasExpiring reports whether a tuple with an expiry may be stored.
func (t *Timeline) HasExpiring() bool { return t.expiring.Load() }

// Schema returns the schema with the id, or with id "" the current schema for a
// type. It compiles and binds the schema on first use. It fails with
// ErrNoSchema if there is none.
func (t *Timeline) Schema(ctx context.Context, v *View, typ, id string) (*BoundSchema, error) {
	b := v.schemas.find(typ)
	if id == "" && b != nil {
		if r := b.bound.Load(); r != nil {
			return r, nil
		}
	}
	return t.bind(ctx, v, b, typ, id)
}

// find returns the current schema for a type: that of the type's namespace
// ("namespace/type"), otherwise that of the default namespace. It returns nil
// if neither has the type.
func (set *schemaSet) find(typ string) *currentSchema {
	if set.only != nil {
		return set.only
	}
	if ns, _, ok := strings.Cut(typ, "/"); ok {
		if b := set.current[ns]; b != nil {
			return b
		}
	}
	return set.current[""]
}
