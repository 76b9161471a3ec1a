package domain_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/rel"
)

// searchPages returns all pages of a search as "name name | name".
func searchPages(t testing.TB, d *domain.Domain, r domain.SearchRequest) string {
	t.Helper()
	var pages []string
	for {
		page := must(d.Search(context.Background(), &r))(t)
		var names []string
		for _, c := range page.Permitted {
			names = append(names, c.Name)
		}
		if page.Undecided > 0 {
			names = append(names, fmt.Sprintf("(%d undecided)", page.Undecided))
		}
		pages = append(pages, strings.Join(names, " "))
		if r.Cursor = page.Next; r.Cursor == "" {
			return strings.Join(pages, " | ")
		}
	}
}

// TestSearch checks who may read a document and what a user may read, with pages
// that stay at the revision of the first.
func TestSearch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{Candidates: 6, Questions: 1})
	s := newRelations(t, e, "document:1#viewer@user:anne", "document:1#viewer@group:eng#member", "group:eng#member@user:bob",
		"document:2#viewer@user:bob", "document:3#viewer@user:anne", "document:3#viewer@user:eve")
	must(s.Write(ctx, authz.WriteRequest{SetAttributes: []rel.Attribute{{Object: rel.Object{Type: "user", ID: "only-an-attribute"}, Name: "clearance", Value: "1"}}}))(t)
	d := must(r.FindOrMake(ctx, s.ID().String()))(t)
	root := effect("root", "Permit", related("viewer"))
	who := domain.SearchRequest{Category: policy.CategorySubject, Type: "user", Limit: 1,
		Known: &policy.Request{Categories: request("", "document:1").Categories[1:]}}
	what := domain.SearchRequest{Category: policy.CategoryResource, Type: "document", Known: request("user:anne")}
	if got := searchPages(t, d, what); got != "" {
		t.Errorf("without a root: %s", got)
	}
	change(t, d, domain.Change{Root: &root})
	if got := searchPages(t, d, who); got != "user:anne | user:bob | " {
		t.Errorf("who may view document 1: %q", got)
	}
	if got := searchPages(t, d, what); got != "document:1 document:3" {
		t.Errorf("what anne may view: %q", got)
	}
	what.Candidates = []string{"document:3", "document:2", "document:3", "planet:1", "document:9"}
	if got := searchPages(t, d, what); got != "document:3 (1 undecided)" {
		t.Errorf("which of these anne may view: %q", got)
	}
	// The second page reads the revisions of the first.
	first := must(d.Search(ctx, &who))(t)
	deny := effect("root", "Deny", "")
	change(t, d, domain.Change{Root: &deny})
	must(s.Write(ctx, authz.WriteRequest{Remove: []rel.Key{must(rel.Parse("group:eng#member@user:bob"))(t).Key()}}))(t)
	next := who
	next.Cursor = first.Next
	if got := searchPages(t, d, next); got != "user:bob | " {
		t.Errorf("the second page: %q", got)
	}
	change(t, d, domain.Change{Root: &root})
	fails := func(name string, want error, r domain.SearchRequest) {
		t.Helper()
		if _, err := d.Search(ctx, &r); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	other := next
	other.Scope = "other"
	fails("a cursor of another scope", authz.ErrCursor, other)
	other.Cursor = "%"
	fails("a malformed cursor", authz.ErrCursor, other)
	other.Cursor = strings.Repeat("A", 64<<10+1)
	fails("a long cursor", authz.ErrBound, other)
	fails("no candidates", authz.ErrInvalidRequest, domain.SearchRequest{Category: policy.CategoryResource, Known: request("user:anne")})
	fails("the category twice", authz.ErrInvalidRequest, domain.SearchRequest{Category: policy.CategoryResource, Type: "document", Known: request("user:anne", "document:1")})
	write(t, s, "document:1#viewer@user:5")
	if got := searchPages(t, d, domain.SearchRequest{Category: policy.CategorySubject, Type: "user", Known: who.Known}); got != "user:5 user:anne" {
		t.Errorf("at the bound: %q", got)
	}
	write(t, s, "document:1#viewer@user:6", "document:1#viewer@user:7")
	fails("one candidate more", authz.ErrBound, domain.SearchRequest{Category: policy.CategorySubject, Type: "user", Known: who.Known})
	list := []string{"1", "2", "3", "4", "5", "6", "7"}
	fails("one listed candidate more", authz.ErrBound, domain.SearchRequest{Category: policy.CategorySubject, Candidates: list, Known: who.Known})
	if got := searchPages(t, d, domain.SearchRequest{Category: policy.CategorySubject, Candidates: list[:6], Known: who.Known}); got != "(6 undecided)" {
		t.Errorf("six listed candidates: %q", got)
	}
	// The cursor of a twin with the same policies and tuples is refused.
	twin := must(r.FindOrMake(ctx, newRelations(t, e).ID().String()))(t)
	for range must(d.Info(ctx))(t).Revision {
		change(t, twin, domain.Change{Root: &root})
		change(t, twin, domain.Change{Root: &deny})
	}
	if _, err := twin.Search(ctx, &next); !errors.Is(err, authz.ErrCursor) {
		t.Errorf("a cursor of the twin: %v", err)
	}
}

// TestSearchEqualsDecide compares searches with the decisions of the candidates
// one by one, on random policies, tuples and attributes.
func TestSearchEqualsDecide(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range 60 {
		r, e := newRegistry(t, domain.Options{})
		s := newRelations(t, e)
		for n := range 30 {
			tuple := must(rel.Parse(fmt.Sprintf("document:%d#viewer@user:%d", rnd.IntN(12), rnd.IntN(4))))(t)
			must(s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{tuple}, OnDuplicate: authz.Ignore, SetAttributes: []rel.Attribute{
				{Object: rel.Object{Type: "document", ID: fmt.Sprint(n % 12)}, Name: "level", Value: fmt.Sprint(rnd.IntN(4))},
				{Object: rel.Object{Type: "user", ID: fmt.Sprint(n % 3)}, Name: "clearance", Value: fmt.Sprint(rnd.IntN(4))}}}))(t)
		}
		d := must(r.FindOrMake(ctx, s.ID().String()))(t)
		put, names := texts{}, []string(nil)
		for n := range 1 + rnd.IntN(6) {
			name := fmt.Sprint("p", n)
			conditions := []string{related("viewer"), stored(), apply(function1+"not", related("viewer")), "",
				apply(function1+"string-equal", one(policy.CategoryResource, policy.AttributeResourceID), literal(fmt.Sprint("document:", rnd.IntN(12)))),
				apply(function1+"string-equal", one(policy.CategorySubject, policy.AttributeSubjectID), literal(fmt.Sprint("user:", rnd.IntN(4))))}
			put[name] = effect(name, []string{"Permit", "Deny"}[rnd.IntN(2)], conditions[rnd.IntN(len(conditions))])
			names = append(names, name)
		}
		root := set("root", names...)
		change(t, d, domain.Change{Put: put, Root: &root})
		for user := range 5 {
			subject := fmt.Sprint("user:", user)
			var want []string
			undecided := 0
			all := must(must(d.Pin(ctx, domain.PinOptions{}))(t).Objects(ctx, "document"))(t)
			for _, object := range all {
				switch got := decide(t, d, subject, object); {
				case got.Decision == policy.Permitted:
					want = append(want, object)
				case got.Decision >= policy.Indeterminate:
					undecided++
				}
			}
			q := domain.SearchRequest{Category: policy.CategoryResource, Type: "document", Known: request(subject), Limit: 1 + rnd.IntN(5)}
			var got []string
			gotUndecided := 0
			for {
				page := must(d.Search(ctx, &q))(t)
				for _, c := range page.Permitted {
					got = append(got, c.Name)
				}
				gotUndecided += page.Undecided
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			if !slices.Equal(got, want) || gotUndecided != undecided {
				t.Fatalf("seed %d, round %d, %s: found %v and %d undecided, want %v and %d", seed, round, subject, got, gotUndecided, want, undecided)
			}
		}
	}
}
