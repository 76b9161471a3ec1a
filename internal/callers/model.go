package callers

import (
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Types and relations of the system store. The rights of a store are its relations read,
// write, schema and admin. A key has them on a store, or on the names that a pattern
// matches. Which patterns match the name of a store is no tuple, but a part of each
// question, because names change.
const (
	keyType     = "key"
	namesType   = "names" // a pattern of names of stores
	storeType   = "store"
	doorType    = "door"
	namedBy     = "named"  // of a store: the patterns that match its name
	systemOf    = "system" // of the system store: who administers all stores
	useRelation = "use"    // of a door: who may use it
	everyDoor   = "every"  // of a door: all doors, as one object
)

const (
	// all is the pattern of all names, and the scope of all doors.
	all = "*"
	// anyID is the id of both in tuples, where "*" would mean every subject of a type.
	anyID = "any"
)

// namesID returns the id of a pattern in tuples.
func namesID(pattern string) string {
	start, open := strings.CutSuffix(pattern, all)
	switch {
	case pattern == all:
		return anyID
	case open:
		return "begins:" + start
	}
	return "is:" + pattern
}

// doorID returns the id of a door of a scope in tuples.
func doorID(door string) string {
	if door == all {
		return anyID
	}
	return door
}

// Model returns the schema of the system store.
func Model() *schema.Model {
	key := schema.SubjectType{Type: keyType}
	// right is a relation that a key has itself, by a pattern, or because of another right.
	right := func(name string, because ...string) schema.RelationDef {
		parts := []schema.Rewrite{schema.Direct(), schema.Arrow(namedBy, name)}
		for _, other := range because {
			parts = append(parts, schema.Computed(other))
		}
		if name == "read" {
			parts = append(parts, schema.Arrow(systemOf, "admin"))
		}
		return schema.RelationDef{Name: name, Subjects: []schema.SubjectType{key}, Rewrite: union(parts...)}
	}
	ofNames := func(name string) schema.RelationDef {
		return schema.RelationDef{Name: name, Rewrite: schema.Direct(), Subjects: []schema.SubjectType{key}}
	}
	return &schema.Model{Options: schema.Options{Dialect: dialect}, Types: []schema.TypeDef{
		{Name: keyType},
		{Name: namesType, Relations: []schema.RelationDef{ofNames("read"), ofNames("write"), ofNames("schema"), ofNames("admin")}},
		{Name: storeType, Relations: []schema.RelationDef{
			{Name: namedBy, Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: namesType}}},
			{Name: systemOf, Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: namesType}}},
			right("read", "write", "schema", "admin"), right("write", "admin"), right("schema", "admin"), right("admin"),
		}},
		{Name: doorType, Relations: []schema.RelationDef{
			{Name: everyDoor, Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: doorType}}},
			{Name: useRelation, Subjects: []schema.SubjectType{key}, Rewrite: union(schema.Direct(), schema.Arrow(everyDoor, useRelation))},
		}},
	}}
}

// dialect is the dialect of [Model].
const dialect = "system"

func union(children ...schema.Rewrite) schema.Rewrite {
	return schema.Rewrite{Op: schema.OpUnion, Children: children}
}

// tuple returns object#relation@subject.
func tuple(objectType, objectID, relation, subjectType, subjectID string) rel.Tuple {
	return rel.Tuple{Object: rel.Object{Type: objectType, ID: objectID}, Relation: relation, Subject: rel.Subject{Type: subjectType, ID: subjectID}}
}

// tuples are the rights of the key in the system store.
func (k *Key) tuples() (out []rel.Tuple) {
	for _, place := range k.Stores {
		for _, right := range k.Rights {
			typ, id := namesType, namesID(place.Pattern)
			if place.Pattern == "" {
				typ, id = storeType, place.ID.String()
			}
			out = append(out, tuple(typ, id, right.String(), keyType, k.ID))
		}
	}
	for _, door := range k.Doors {
		out = append(out, tuple(doorType, doorID(door), useRelation, keyType, k.ID))
	}
	if !k.Expires.IsZero() {
		for i := range out {
			out[i].Expires = rel.TimeOf(k.Expires)
		}
	}
	return out
}
