// Command lxd is an example of an application, similar to LXD, whose own data
// answers authorization questions. It stores no tuples and uses no engine. The
// server of a project and the project of an instance are computed from URLs, grants
// come from a table, and the caller's groups come with the request. The evaluator
// reads all of this from a [source], through package rows.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/rows"
	"github.com/ostiary/ostiary/schema"
)

//go:embed model.fga
var model []byte

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func compile() (*schema.Schema, error) {
	m, _, err := language.ParseDSL(model)
	if err != nil {
		return nil, err
	}
	return schema.Compile(m, nil)
}

// request is a request of one caller. Its evaluator reads each row at most once.
type request struct {
	rows   *rows.Evaluator
	caller rel.Subject
	calls  int
}

func newRequest(s *schema.Schema, db *database, caller string, groups ...string) *request {
	r := &request{caller: rel.Subject{Type: "identity", ID: caller}}
	var o rows.Options
	for _, g := range groups {
		o.Tuples = append(o.Tuples, rel.Tuple{Object: rel.Object{Type: "group", ID: g}, Relation: "member", Subject: r.caller})
	}
	r.rows = rows.New(s, source{db}, o)
	return r
}

// can reports whether the caller has an entitlement on an entity.
func (r *request) can(ctx context.Context, entitlement, typ, entity string) (bool, error) {
	r.calls++
	a, err := r.rows.Check(ctx, authz.Question{Object: rel.Object{Type: typ, ID: entity}, Relation: entitlement, Subject: r.caller})
	return a.Allowed(), err
}

// all returns the entities of a type on which the caller has an entitlement, sorted.
func (r *request) all(ctx context.Context, entitlement, typ string) ([]string, error) {
	r.calls++
	l, err := r.rows.ListObjects(ctx, typ, entitlement, r.caller)
	slices.Sort(l.IDs)
	return l.IDs, err
}

// run lists the projects and entities that a caller may view, and then asks one
// question that is allowed and two that are denied.
func run(ctx context.Context, out io.Writer) error {
	s, err := compile()
	if err != nil {
		return err
	}
	db := newDatabase(10)
	r := newRequest(s, db, "tls/anne", "operators")
	projects, err := r.all(ctx, "can_view", "project")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "anne sees %d of %d projects\n", len(projects), len(db.projects))
	for _, typ := range []string{"instance", "profile", "storage_volume"} {
		seen, err := r.all(ctx, "can_view", typ)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "anne sees %d of %d entities of type %s\n", len(seen), len(db.entities[typ]), typ)
	}
	for _, q := range [][3]string{
		{"can_exec", "instance", "/1.0/instances/c1?project=project1"},
		{"can_edit", "project", projectURL("project1")},
		{"can_view", "project", projectURL("default")},
	} {
		allowed, err := r.can(ctx, q[0], q[1], q[2])
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "anne %s %s: %v\n", q[0], q[2], allowed)
	}
	_, err = fmt.Fprintf(out, "%d calls, %d queries of the table of grants\n", r.calls, db.queries)
	return err
}
