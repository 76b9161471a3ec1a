package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	text, queries, _ := strings.Cut(out.String(), "7 calls, ")
	want := `anne sees 10 of 11 projects
anne sees 10 of 10 entities of type instance
anne sees 20 of 20 entities of type profile
anne sees 20 of 20 entities of type storage_volume
anne can_exec /1.0/instances/c1?project=project1: true
anne can_edit /1.0/projects/project1: false
anne can_view /1.0/projects/default: false
`
	if text != want || queries == "" {
		t.Errorf("printed\n%s%s", text, queries)
	}
}

// TestListsAreChecks compares lists with single checks, for callers with and
// without groups, and for a caller with a grant on the server.
func TestListsAreChecks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	db := newDatabase(3)
	db.grants = append(db.grants, grant{"auditors", "viewer", rel.Object{Type: "server", ID: theServer}},
		grant{"auditors", "user", rel.Object{Type: "instance", ID: "/1.0/instances/c1?project=project2"}})
	for _, groups := range [][]string{nil, {"operators"}, {"auditors"}, {"operators", "auditors"}} {
		for typ, entities := range db.entities {
			for _, entitlement := range []string{"can_view", "can_edit"} {
				r := newRequest(s, db, "tls/anne", groups...)
				listed, err := r.all(ctx, entitlement, typ)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entities {
					fresh := newRequest(s, db, "tls/anne", groups...)
					allowed, err := fresh.can(ctx, entitlement, typ, e)
					if err != nil || allowed != slices.Contains(listed, e) {
						t.Errorf("%v %s %s: check %v, list %v, %v", groups, entitlement, e, allowed, listed, err)
					}
				}
			}
		}
	}
}

// TestBrokenRows uses application data that cannot be read. The result must be an
// error, not a decision.
func TestBrokenRows(t *testing.T) {
	t.Parallel()
	s, err := compile()
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest(s, newDatabase(1), "tls/anne", "operators")
	allowed, err := r.can(context.Background(), "can_view", "instance", "/1.0/instances/%zz")
	if err == nil || allowed {
		t.Errorf("%v, %v", allowed, err)
	}
}

// BenchmarkListing repeats one listing of the benchmark that LXD published: for
// each of ten projects, it checks the project's instance, and lists the profiles
// and volumes of all projects.
func BenchmarkListing(b *testing.B) {
	ctx := context.Background()
	s, err := compile()
	if err != nil {
		b.Fatal(err)
	}
	db := newDatabase(10)
	for b.Loop() {
		r := newRequest(s, db, "tls/anne", "operators")
		projects, err := r.all(ctx, "can_view", "project")
		if err != nil || len(projects) != 10 {
			b.Fatal(projects, err)
		}
		for i := range projects {
			for _, typ := range []string{"profile", "storage_volume"} {
				if l, err := r.all(ctx, "can_view", typ); err != nil || len(l) != 20 {
					b.Fatal(l, err)
				}
			}
			if ok, err := r.can(ctx, "can_view", "instance", db.entities["instance"][i]); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
		if r.calls != 31 {
			b.Fatal(r.calls)
		}
	}
}

var _ authz.Reverser = source{}
