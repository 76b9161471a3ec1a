package identity

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/tool/btree"
	"github.com/ostiary/ostiary/storage"
)

// directory is all records at one revision. It never changes.
type directory struct {
	tables map[Kind]table
	limits settings.LimitModel // how the limits of projects and domains depend on each other
	// referrers are the records that refer to other records, by link.key.
	referrers btree.Map[string, *Record]
	// revocations are the events that make tokens invalid.
	revocations revocations
	// activities are the stored counts of logins, by user.
	activities activityMap
	// nonces are those of the signed requests that were accepted.
	nonces nonceMap
}

// table is the records of one kind, with their indexes.
type table struct {
	byID     btree.Map[string, *Record]
	byName   btree.Map[string, *Record]  // records with a name, by Record.nameKey
	byUnique btree.Map[string, string]   // ids by Record.uniqueKey
	byParent btree.Map[string, struct{}] // parentKey of each record that has a parent
}

// parentKey is the key of a record below its parent. Ids contain no NUL.
func parentKey(parent, id string) string { return parent + "\x00" + id }

// nameKey is the key of a name that is unique in a space.
func nameKey(name, space string) string { return name + "\x00" + space + "\x00" }

// nameKey is the key of the record among those with a name. It ends with the id if
// others may have the name.
func (r *Record) nameKey() string {
	key := nameKey(r.Name, r.space())
	if !r.named() {
		key += r.ID
	}
	return key
}

// space returns the id of what the name of the record is unique in: the domain, or
// the owner of an application credential. It is "" for domains and global roles.
func (r *Record) space() string { return cmp.Or(r.Owner, r.Domain) }

// edit returns a copy that may be changed without changing d.
func (d *directory) edit() *directory {
	c := &directory{limits: d.limits, tables: make(map[Kind]table, len(kinds)),
		referrers: d.referrers.Edit(), revocations: d.revocations.edit(), activities: d.activities.Edit(), nonces: d.nonces.Edit()}
	for _, k := range kinds {
		t := d.tables[k]
		c.tables[k] = table{t.byID.Edit(), t.byName.Edit(), t.byUnique.Edit(), t.byParent.Edit()}
	}
	return c
}

// form describes how the documents of a deployment become its directory.
func form(limits settings.LimitModel) documents.Form[*directory] {
	f := documents.Form[*directory]{
		Kinds: []string{documentPrefix + revocationKind, documentPrefix + activityKind, documentPrefix + nonceKind},
		Empty: func() *directory { return &directory{limits: limits} },
		Apply: func(_ context.Context, old *directory, changes []storage.Change) (*directory, error) {
			return old.apply(changes)
		},
	}
	for _, k := range kinds {
		f.Kinds = append(f.Kinds, documentPrefix+string(k))
	}
	return f
}

// apply returns the directory after changes of documents. Other changes are in the
// graph.
func (d *directory) apply(changes []storage.Change) (*directory, error) {
	next := d.edit()
	for i := range changes {
		c := &changes[i]
		switch c.Kind {
		case storage.DocumentPut:
			if err := next.put(&c.Document); err != nil {
				return nil, err
			}
		case storage.DocumentRemove:
			next.remove(c.Document.Kind, c.Document.Key)
		case storage.RemoveByFilter:
			for _, key := range next.keys(c.Filter.DocumentKind, c.Filter.DocumentKeyPrefix) {
				next.remove(c.Filter.DocumentKind, key)
			}
		}
	}
	return next, nil
}

// with returns the directory after the documents of a write.
func (d *directory) with(w *authz.WriteRequest) (*directory, error) {
	if len(w.Documents)+len(w.RemoveDocuments) == 0 {
		return d, nil
	}
	changes := make([]storage.Change, 0, len(w.Documents)+len(w.RemoveDocuments))
	for _, k := range w.RemoveDocuments {
		changes = append(changes, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: k.Kind, Key: k.Key}})
	}
	for _, x := range w.Documents {
		changes = append(changes, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: x.Kind, Key: x.Key, Body: x.Body}})
	}
	return d.apply(changes)
}

// documentPrefix is the beginning of the kinds of this package's documents.
const documentPrefix = "identity/"

func (d *directory) put(doc *storage.Document) error {
	k := strings.TrimPrefix(doc.Kind, documentPrefix)
	switch k {
	case revocationKind:
		return d.revocations.put(doc.Key, doc.Body)
	case activityKind:
		return d.putActivity(doc.Key, doc.Body)
	case nonceKind:
		d.nonces.Set(doc.Key, struct{}{})
		return nil
	}
	r := &Record{Kind: Kind(k)}
	if err := json.Unmarshal(doc.Body, r); err != nil {
		return fmt.Errorf("document %s/%s: %w", doc.Kind, doc.Key, err)
	}
	d.insert(r)
	return nil
}

// insert adds a record to the tables, or replaces the one with its id.
func (d *directory) insert(r *Record) {
	d.drop(r.Kind, r.ID)
	if r.Kind == AccessRule {
		r.pattern = sync.OnceValue(r.Rule().pattern)
	}
	t := d.tables[r.Kind]
	t.byID.Set(r.ID, r)
	if r.Name != "" {
		t.byName.Set(r.nameKey(), r)
	}
	if key := r.uniqueKey(); key != "" {
		t.byUnique.Set(key, r.ID)
	}
	if r.Parent != "" {
		t.byParent.Set(parentKey(r.Parent, r.ID), struct{}{})
	}
	d.tables[r.Kind] = t
	for _, l := range r.links() {
		d.referrers.Set(l.key(r), r)
	}
}

func (d *directory) remove(kind, key string) {
	switch k := strings.TrimPrefix(kind, documentPrefix); k {
	case revocationKind:
		d.revocations.remove(key)
	case activityKind:
		d.activities.Delete(key)
	case nonceKind:
		d.nonces.Delete(key)
	default:
		d.drop(Kind(k), key)
	}
}

// keys returns the keys with a prefix of the documents of a kind.
func (d *directory) keys(kind, prefix string) []string {
	switch k := strings.TrimPrefix(kind, documentPrefix); k {
	case revocationKind:
		return keysWith(&d.revocations.events, prefix)
	case activityKind:
		return keysWith(&d.activities, prefix)
	case nonceKind:
		return keysWith(&d.nonces, prefix)
	default:
		t := d.tables[Kind(k)]
		return keysWith(&t.byID, prefix)
	}
}

func keysWith[V any](m *btree.Map[string, V], prefix string) (keys []string) {
	m.Ascend(prefix, func(key string, _ V) bool {
		with := strings.HasPrefix(key, prefix)
		if with {
			keys = append(keys, key)
		}
		return with
	})
	return keys
}

// drop removes a record from the tables, if it exists.
func (d *directory) drop(k Kind, id string) {
	t := d.tables[k]
	if old, ok := t.byID.Delete(id); ok {
		t.byName.Delete(old.nameKey())
		t.byUnique.Delete(old.uniqueKey())
		if old.Parent != "" {
			t.byParent.Delete(parentKey(old.Parent, old.ID))
		}
		for _, l := range old.links() {
			d.referrers.Delete(l.key(old))
		}
	}
	d.tables[k] = t
}

// named returns whether the name of the record is unique within its domain, or
// among the records of its owner.
func (r *Record) named() bool {
	return r.Name != "" && r.Federated == nil && (r.Kind == User || r.Kind == Group || r.Kind == Project || r.Kind == Role || r.Kind == ApplicationCredential)
}

// uniqueKey returns what no other record of the kind may have, apart from the name:
// what a limit is for, or the id of a user at an identity provider. It is "" for
// other records.
func (r *Record) uniqueKey() string {
	switch {
	case r.Kind == RegisteredLimit || r.Kind == Limit:
		return r.resourceKey()
	case r.Federated != nil:
		return r.Federated.key()
	}
	return ""
}

// get returns a record. It fails with NotFound.
func (d *directory) get(k Kind, id string) (*Record, error) {
	t := d.tables[k]
	if r, ok := t.byID.Get(id); ok {
		return r, nil
	}
	return nil, missing(k, id)
}

// find returns the record whose name is unique in a space, or nil.
func (d *directory) find(k Kind, space, name string) *Record {
	t := d.tables[k]
	r, _ := t.byName.Get(nameKey(name, space))
	return r
}

// withName returns the records of a kind with a name, in the order of their ids.
func (d *directory) withName(k Kind, name string) (records []*Record) {
	t, prefix := d.tables[k], name+"\x00"
	t.byName.Ascend(prefix, func(key string, r *Record) bool {
		if r.Name == name { // another name may begin with this one and NUL
			records = append(records, r)
		}
		return strings.HasPrefix(key, prefix)
	})
	slices.SortFunc(records, func(a, b *Record) int { return cmp.Compare(a.ID, b.ID) })
	return records
}

// below returns the records of a kind whose parent is the given one, in the order
// of their ids.
func (d *directory) below(k Kind, parent string) (records []*Record) {
	t := d.tables[k]
	prefix := parentKey(parent, "")
	t.byParent.Ascend(prefix, func(key string, _ struct{}) bool {
		id, ok := strings.CutPrefix(key, prefix)
		if ok {
			r, _ := t.byID.Get(id)
			records = append(records, r)
		}
		return ok
	})
	return records
}
