package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/storage"
)

// form describes how the documents of the store become a world.
func (c *Catalog) form() documents.Form[*World] {
	return documents.Form[*World]{
		Kinds: append(slices.Clone(entityKinds[:]), kindGroup, kindAudit, kindOperation),
		Empty: newWorld,
		Apply: func(_ context.Context, old *World, changes []storage.Change) (*World, error) {
			return old.apply(changes)
		},
		Finish: func(ctx context.Context, previous, next *World) (*World, error) {
			if next.Compiled != nil { // only operations have changed
				return next, nil
			}
			return c.compile(ctx, previous, next)
		},
	}
}

// apply returns the world after changes of documents. Its policies are not compiled
// if anything but an operation changes.
func (w *World) apply(changes []storage.Change) (*World, error) {
	d := w.draft(time.Time{})
	history := d.operations.edit()
	for i := range changes {
		if err := d.follow(&changes[i], &history); err != nil {
			return nil, err
		}
	}
	d.operations = history.done()
	return &d.World, nil
}

// follow applies one change of a document.
func (d *draft) follow(c *storage.Change, history *historyEdit) error {
	switch c.Kind {
	case storage.DocumentPut:
		if err := d.read(&c.Document, history); err != nil {
			return fmt.Errorf("read document %s/%s: %w", c.Document.Kind, c.Document.Key, err)
		}
	case storage.DocumentRemove:
		d.forget(c.Document.Kind, c.Document.Key, history)
	case storage.RemoveByFilter:
		for _, key := range d.keys(c.Filter.DocumentKind, history) {
			if strings.HasPrefix(key, c.Filter.DocumentKeyPrefix) {
				d.forget(c.Filter.DocumentKind, key, history)
			}
		}
	}
	return nil
}

// read adds or replaces what a document contains.
func (d *draft) read(doc *storage.Document, history *historyEdit) error {
	switch doc.Kind {
	case kindOperation:
		o := &Operation{}
		if err := json.Unmarshal(doc.Body, o); err != nil {
			return err
		}
		o.ID = doc.Key
		history.put(o)
		return nil
	case kindGroup:
		g := &Group{}
		d.groups.Set(doc.Key, g)
		d.Compiled = nil
		return json.Unmarshal(doc.Body, g)
	case kindAudit:
		r := &AuditRecord{}
		err := json.Unmarshal(doc.Body, r)
		d.audit.Set(r.ID, r)
		d.lastAudit = max(d.lastAudit, r.ID)
		return err
	}
	e, err := readEntity(tosca.Section(slices.Index(entityKinds[:], doc.Kind)), doc.Body)
	if err != nil {
		return err
	}
	d.Compiled = nil
	return d.place(e)
}

// forget removes what a document contains, if it exists.
func (d *draft) forget(kind, key string, history *historyEdit) {
	switch kind {
	case kindOperation:
		history.drop(key)
	case kindGroup:
		d.groups.Delete(key)
		d.Compiled = nil
	case kindAudit:
		var id int64
		if _, err := fmt.Sscanf(key, "%d", &id); err == nil {
			d.audit.Delete(id)
		}
	default:
		name, version, _ := cutLast(key)
		if e := d.Find(tosca.Section(slices.Index(entityKinds[:], kind)), name, version); e != nil {
			d.drop(e)
			d.Compiled = nil
		}
	}
}

// cutLast splits the key of an entity into its name and its version.
func cutLast(key string) (name, version string, ok bool) {
	i := strings.LastIndexByte(key, ':')
	if i < 0 {
		return key, "", false
	}
	return key[:i], key[i+1:], true
}

// keys returns the keys of the documents of a kind.
func (d *draft) keys(kind string, history *historyEdit) (keys []string) {
	switch kind {
	case kindOperation:
		history.rows.Ascend("", func(id string, _ *Operation) bool { keys = append(keys, id); return true })
	case kindGroup:
		d.groups.Ascend("", func(name string, _ *Group) bool { keys = append(keys, name); return true })
	case kindAudit:
		d.audit.Ascend(0, func(id int64, _ *AuditRecord) bool { keys = append(keys, auditKey(id)); return true })
	default:
		for e := range d.All(tosca.Section(slices.Index(entityKinds[:], kind))) {
			keys = append(keys, e.ID())
		}
	}
	return keys
}

// readEntity reads the document of an entity.
func readEntity(s tosca.Section, body []byte) (*tosca.Entity, error) {
	v, err := tosca.ParseJSON(body)
	if err != nil {
		return nil, err
	}
	return &tosca.Entity{Section: s, Name: v.Get("name").Scalar(), Version: v.Get("version").Scalar(), Body: v}, nil
}
