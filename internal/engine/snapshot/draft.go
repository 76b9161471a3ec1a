package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// Draft is the state of a store after changes that are not published yet. One
// goroutine at a time may use it.
type Draft struct {
	// Batch is the changed graph.
	Batch    graph.Batch
	timeline *Timeline
	base     *View
	schemas  *schemaSet // after the changes
	// importing is that of [View], after the changes.
	importing storage.Revision
}

// Draft returns a draft on base. base is the newest view, or the view that a
// group is about to publish.
func (t *Timeline) Draft(base *View) Draft {
	return Draft{Batch: base.schemas.lineage.BeginOn(base.Graph), timeline: t, base: base, schemas: base.schemas, importing: base.importing}
}

// Reset undoes all changes of the draft.
func (d *Draft) Reset() { *d = d.timeline.Draft(d.base) }

// Base returns the view that the draft began on.
func (d *Draft) Base() *View { return d.base }

// Apply applies the changes of the entry at a place of the log. After an error
// a part of them is applied.
func (d *Draft) Apply(changes []storage.Change, at storage.Head) error {
	for i := range changes {
		if err := d.apply(&changes[i], at); err != nil {
			return err
		}
	}
	return nil
}

func (d *Draft) apply(c *storage.Change, at storage.Head) error {
	switch c.Kind {
	case storage.TupleAdd:
		d.timeline.NoteExpiry(&c.Tuple)
		return d.Batch.Add(c.Tuple)
	case storage.TupleRemove:
		d.Batch.Remove(c.Tuple.Key())
	case storage.AttributeSet:
		return d.Batch.SetAttribute(c.Attribute)
	case storage.AttributeRemove:
		d.Batch.RemoveAttribute(c.Attribute.Object, c.Attribute.Name)
	case storage.DocumentPut:
		switch {
		case marksImport(c.Document.Kind, c.Document.Key):
			d.importing = at.Revision
		case c.Document.Kind == SchemaKind:
			d.schemas = d.schemas.with(schemaInfoOf(storage.DocumentRow{Key: c.Document.Key, Secondary: c.Document.Secondary,
				Created: at.Revision, CreatedAt: at.Time}))
		}
	case storage.DocumentRemove:
		switch {
		case marksImport(c.Document.Kind, c.Document.Key):
			d.importing = 0
		case c.Document.Kind == SchemaKind:
			d.schemas = d.schemas.without(c.Document.Key)
		}
	case storage.SecretPut, storage.SecretRemove:
		// A view holds no secrets.
	case storage.RemoveByFilter:
		switch f := &c.Filter; f.Target {
		case storage.FilterTuples:
			d.Batch.RemoveMatching(f.Tuple)
		case storage.FilterAttributes:
			d.Batch.RemoveAttributes(f.ObjectType, f.ObjectID, f.Name)
		case storage.FilterDocuments:
			if f.DocumentKind == authz.ImportKind && strings.HasPrefix(authz.ImportKey, f.DocumentKeyPrefix) {
				d.importing = 0
			}
		}
	default:
		return fmt.Errorf("%w: unknown kind of change %d", storage.ErrFormat, c.Kind)
	}
	return nil
}

// View returns the view that the draft leads to, without publishing it.
func (d *Draft) View(head storage.Head) *View {
	v := &struct { // in one allocation
		view  View
		graph graph.View
	}{view: View{Head: head, schemas: d.schemas, importing: d.importing}}
	v.view.Graph = d.Batch.ViewIn(&v.graph)
	return &v.view
}

// Schema returns the schema for a type after the changes, as [Timeline.Schema]
// does for a view.
func (d *Draft) Schema(ctx context.Context, typ, id string) (*BoundSchema, error) {
	if b := d.schemas.find(typ); b != nil && id == "" {
		if r := b.bound.Load(); r != nil {
			return r, nil
		}
	}
	return d.timeline.Schema(ctx, &View{Head: d.base.Head, Graph: d.base.Graph, schemas: d.schemas}, typ, id)
}

// HasSchema reports whether there is a schema with the id after the changes.
func (d *Draft) HasSchema(id string) bool { return d.schemas.row(id) != nil }

// BindCompiled binds a schema that the changes have put, so that the first
// question does not compile it again.
func (d *Draft) BindCompiled(id string, compiled *schema.Schema) {
	for _, b := range d.schemas.current {
		if b.info.ID == id && b.bound.Load() == nil {
			if r, err := bindSchema(b.info, compiled, d.schemas.lineage); err == nil {
				b.bound.Store(r)
			}
		}
	}
	d.timeline.Runtime.schemas.put(d.timeline.schemaKey(id), compiled)
}
