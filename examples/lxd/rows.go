package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// database is the application's own data: its entities, by URL, and what its groups
// were granted. It contains no tuples.
type database struct {
	projects []string            // names
	entities map[string][]string // by type: URLs that name their project
	grants   []grant
	queries  int // of grants
}

// grant is one row of a group's permissions.
type grant struct {
	group, entitlement string
	object             rel.Object
}

const theServer = "/1.0"

func projectURL(name string) string { return "/1.0/projects/" + name }

// newDatabase returns a database with the default project and n others. Each of the
// n has one instance, two profiles and two volumes. The group operators operates
// all n.
func newDatabase(n int) *database {
	db := &database{projects: []string{"default"}, entities: map[string][]string{}}
	for i := 1; i <= n; i++ {
		p := fmt.Sprintf("project%d", i)
		db.projects = append(db.projects, p)
		add := func(typ, path string) { db.entities[typ] = append(db.entities[typ], "/1.0/"+path+"?project="+p) }
		add("instance", "instances/c1")
		add("profile", "profiles/default")
		add("profile", "profiles/bench")
		add("storage_volume", "storage-pools/local/volumes/custom/data")
		add("storage_volume", "storage-pools/local/volumes/container/c1")
		db.grants = append(db.grants, grant{"operators", "operator", rel.Object{Type: "project", ID: projectURL(p)}})
	}
	return db
}

// projectOf returns the name of an entity's project, from the entity's URL.
func projectOf(entity string) (string, error) {
	u, err := url.Parse(entity)
	if err != nil {
		return "", err
	}
	if p := u.Query().Get("project"); p != "" {
		return p, nil
	}
	return "default", nil
}

// source gives the evaluator the tuples that follow from the database: it computes
// parents and queries grants. It implements [authz.Rows] and [authz.Reverser].
type source struct{ db *database }

// Subjects yields the tuples of a relation of an object: the object's parent, or the
// groups with a grant.
func (r source) Subjects(object rel.Object, relation string, yield func(rel.Tuple) bool) error {
	switch {
	case relation == "server" && object.Type == "project":
		yield(rel.Tuple{Object: object, Relation: relation, Subject: rel.Subject{Type: "server", ID: theServer}})
		return nil
	case relation == "project":
		p, err := projectOf(object.ID)
		if err == nil {
			yield(rel.Tuple{Object: object, Relation: relation, Subject: rel.Subject{Type: "project", ID: projectURL(p)}})
		}
		return err
	}
	r.db.queries++
	for _, g := range r.db.grants {
		if g.object == object && g.entitlement == relation && !yield(g.tuple()) {
			return nil
		}
	}
	return nil
}

// Objects yields the tuples that have a subject: the children of a project or of
// the server, or the grants of a group.
func (r source) Objects(subject rel.Subject, objectType, relation string, yield func(rel.Tuple) bool) error {
	switch {
	case relation == "server" && objectType == "project":
		for _, p := range r.db.projects {
			if !yield(rel.Tuple{Object: rel.Object{Type: "project", ID: projectURL(p)}, Relation: relation, Subject: subject}) {
				return nil
			}
		}
		return nil
	case relation == "project":
		name := strings.TrimPrefix(subject.ID, projectURL(""))
		for _, e := range r.db.entities[objectType] {
			p, err := projectOf(e)
			if err != nil {
				return err
			}
			if p == name && !yield(rel.Tuple{Object: rel.Object{Type: objectType, ID: e}, Relation: relation, Subject: subject}) {
				return nil
			}
		}
		return nil
	}
	r.db.queries++
	for _, g := range r.db.grants {
		if t := g.tuple(); t.Subject == subject && g.object.Type == objectType && g.entitlement == relation && !yield(t) {
			return nil
		}
	}
	return nil
}

func (g grant) tuple() rel.Tuple {
	return rel.Tuple{Object: g.object, Relation: g.entitlement,
		Subject: rel.Subject{Type: "group", ID: g.group, Relation: "member"}}
}
