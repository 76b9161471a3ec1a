package catalog

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/internal/tool/btree"
)

// Bounds on a catalog. One more is refused.
const (
	// EntitiesMax is the number of entities of each section.
	EntitiesMax = 100_000
	// GroupsMax is the number of PDP groups.
	GroupsMax = 1000
	// AuditMax is the number of audit records. The oldest ones are removed.
	AuditMax = 10_000
)

// ID names a version of a type or a policy. The version may be "" in requests.
type ID struct {
	Name    string `json:"name"`    // name
	Version string `json:"version"` // version of the form x.y.z
}

// String returns the name and the version, for example "demo.limit:1.0.0".
func (id ID) String() string { return id.Name + ":" + id.Version }

// sectionsNumber is the number of sections of a template.
const sectionsNumber = int(tosca.NodeTemplateSection) + 1

// versions are the versions of an entity, the oldest one first.
type versions []*tosca.Entity

// World is the content of a catalog at one moment. It never changes.
type World struct {
	// Compiled is the result of [Options.Compile].
	Compiled any

	tables [sectionsNumber]btree.Map[string, versions]
	counts [sectionsNumber]int
	groups btree.Map[string, *Group]
	audit  btree.Map[int64, *AuditRecord]
	// lastAudit is the number of the newest audit record.
	lastAudit  int64
	operations operations
	// unstored are the documents of a new catalog, which its first write stores.
	unstored []authz.Document
}

func newWorld() *World { return &World{} }

// Find returns an entity, or nil. Version "" asks for the newest version.
func (w *World) Find(s tosca.Section, name, version string) *tosca.Entity {
	list, _ := w.tables[s].Get(name)
	if version == "" && len(list) > 0 {
		return list[len(list)-1]
	}
	for _, e := range list {
		if e.Version == version {
			return e
		}
	}
	return nil
}

// Versions returns the versions of an entity, the oldest one first. Callers must
// not change the result.
func (w *World) Versions(s tosca.Section, name string) []*tosca.Entity {
	list, _ := w.tables[s].Get(name)
	return list
}

// All yields the entities of a section in the order of names and versions.
func (w *World) All(s tosca.Section) iter.Seq[*tosca.Entity] {
	return func(yield func(*tosca.Entity) bool) {
		w.tables[s].Ascend("", func(_ string, list versions) bool {
			for _, e := range list {
				if !yield(e) {
					return false
				}
			}
			return true
		})
	}
}

// Count returns the number of entities of a section.
func (w *World) Count(s tosca.Section) int { return w.counts[s] }

// draft is the next world while a change makes it.
type draft struct {
	World
	now       time.Time
	documents []authz.Document
	removed   []authz.DocumentKey
	// onlyOperations is true if nothing but operations changes.
	onlyOperations bool
	// check is [Options.Check] on the draft; nil checks nothing.
	check func(p *tosca.Entity) error
}

// checkPolicy checks a policy that the change adds or deploys.
func (d *draft) checkPolicy(p *tosca.Entity) error {
	if d.check == nil {
		return nil
	}
	return d.check(p)
}

// draft returns a copy of the world that can be changed.
func (w *World) draft(now time.Time) *draft {
	d := &draft{World: *w, now: now}
	for i := range d.tables {
		d.tables[i] = d.tables[i].Edit()
	}
	d.groups, d.audit, d.unstored = d.groups.Edit(), d.audit.Edit(), nil
	return d
}

// put adds or replaces an entity.
func (d *draft) put(e *tosca.Entity) error {
	if err := d.place(e); err != nil {
		return err
	}
	d.document(entityKinds[e.Section], e.ID(), tosca.AppendJSON(nil, &e.Body))
	return nil
}

// place is put without the document.
func (d *draft) place(e *tosca.Entity) error {
	old, _ := d.tables[e.Section].Get(e.Name)
	list := slices.DeleteFunc(slices.Clone(old), func(o *tosca.Entity) bool { return o.Version == e.Version })
	if d.counts[e.Section] += len(list) + 1 - len(old); d.counts[e.Section] > EntitiesMax {
		return failf(Full, "too many entities: the bound EntitiesMax is %d for each of data types, policy types, node types, policies and node templates", EntitiesMax)
	}
	i, _ := slices.BinarySearchFunc(list, e.Version, func(o *tosca.Entity, v string) int { return tosca.CompareVersions(o.Version, v) })
	d.tables[e.Section].Set(e.Name, slices.Insert(list, i, e))
	return nil
}

// remove removes an entity that exists.
func (d *draft) remove(e *tosca.Entity) {
	d.drop(e)
	d.removed = append(d.removed, authz.DocumentKey{Kind: entityKinds[e.Section], Key: e.ID()})
}

// drop is remove without the document.
func (d *draft) drop(e *tosca.Entity) {
	old, _ := d.tables[e.Section].Get(e.Name)
	list := slices.DeleteFunc(slices.Clone(old), func(o *tosca.Entity) bool { return o == e })
	if len(list) == 0 {
		d.tables[e.Section].Delete(e.Name)
	} else {
		d.tables[e.Section].Set(e.Name, list)
	}
	d.counts[e.Section]--
}

// putGroup adds or replaces a group.
func (d *draft) putGroup(g *Group) {
	d.groups.Set(g.Name, g)
	d.document(kindGroup, g.Name, marshal(g))
}

// removeGroup removes a group.
func (d *draft) removeGroup(name string) {
	d.groups.Delete(name)
	d.removed = append(d.removed, authz.DocumentKey{Kind: kindGroup, Key: name})
}

// record adds an audit record, and removes the oldest one at the bound.
func (d *draft) record(r AuditRecord) {
	d.lastAudit++
	r.ID, r.Timestamp = d.lastAudit, d.now.UTC().Truncate(time.Second)
	d.audit.Set(r.ID, &r)
	d.document(kindAudit, auditKey(r.ID), marshal(r))
	if oldest := d.lastAudit - AuditMax; oldest > 0 {
		d.removed = append(d.removed, authz.DocumentKey{Kind: kindAudit, Key: auditKey(oldest)})
		d.audit.Delete(oldest)
	}
}

// document adds a document to the write. A document of the same key that the
// draft wrote before is replaced.
func (d *draft) document(kind, key string, body []byte) {
	doc := authz.Document{Kind: kind, Key: key, Body: body}
	for i := range d.documents {
		if d.documents[i].Kind == kind && d.documents[i].Key == key {
			d.documents[i] = doc
			return
		}
	}
	d.documents = append(d.documents, doc)
}

// The kinds of documents. entityKinds are those of entities, by section.
const (
	kindGroup     = "onap.group"
	kindAudit     = "onap.audit"
	kindOperation = "onap.operation"
)

var entityKinds = [sectionsNumber]string{"onap.data-type", "onap.policy-type", "onap.node-type", "onap.policy", "onap.node-template"}

func auditKey(id int64) string { return fmt.Sprintf("%016d", id) }

// marshal returns a value as JSON. The values of this package always marshal.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
