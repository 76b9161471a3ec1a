package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// leavesOf returns the tuples of the trees in order.
func leavesOf(trees ...*authz.Tree) (out []string) {
	for _, t := range trees {
		for _, l := range t.Leaves {
			out = append(out, l.Tuple.Key().String())
			if l.Tree != nil {
				out = append(out, leavesOf(l.Tree)...)
			}
		}
		out = append(out, leavesOf(t.Children...)...)
	}
	return out
}

// TestExpandPages reads an expansion in pages while tuples of it are written,
// removed and expire. All pages show the revision and the time of the first one.
// Each page is as large as its limit, up to the bound.
func TestExpandPages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const most = 40
	s := newStore(t, newEngine(t, ostiary.Options{Clock: func() time.Time { return now }, Bounds: authz.Bounds{ExpandEntries: most}}), documents())
	expiring := tup(t, "document:1#viewer@group:soon#member")
	expiring.Expires = rel.TimeOf(now.Add(time.Minute))
	add := append(tups(t, "document:1#viewer@group:a#member", "group:a#member@group:b#member", "group:b#member@group:a#member", "group:soon#member@user:last"), expiring)
	for i := range 100 {
		add = append(add, tups(t, fmt.Sprintf("document:1#viewer@user:%d", i), fmt.Sprintf("group:b#member@user:%d", i))...)
	}
	must(s.Write(ctx, authz.WriteRequest{Add: add}))(t)
	all := map[string]int{}
	for i := range add {
		all[add[i].Key().String()] = 1
	}
	q := authz.ExpandPageRequest{ExpandRequest: authz.ExpandRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "viewer", Levels: 9}}
	pages := 0
	for ; pages == 0 || q.Cursor != ""; pages++ {
		page := must(s.ExpandPage(ctx, q))(t)
		entries := 0
		for _, part := range page.Parts {
			entries += entriesOf(part)
		}
		if page.Revision != 2 || page.Bound != "" || entries > most || page.Next != "" && entries < most-4 {
			t.Errorf("page %d: revision %d, bound %q, %d entries", pages, page.Revision, page.Bound, entries)
		}
		for _, leaf := range leavesOf(page.Parts...) {
			all[leaf]--
		}
		q.Cursor = page.Next
		now = now.Add(time.Hour)
		must(s.Write(ctx, authz.WriteRequest{Remove: []rel.Key{add[10+pages].Key()}, Add: tups(t, fmt.Sprintf("document:1#viewer@user:new%d", pages))}))(t)
	}
	for leaf, n := range all {
		if n != 0 {
			t.Errorf("%s: missing %d times", leaf, n)
		}
	}
	if pages < 6 {
		t.Errorf("%d pages", pages)
	}
	q.Limit = most + 1
	var bound *authz.BoundError
	if _, err := s.ExpandPage(ctx, q); !errors.As(err, &bound) || bound.Name != "ExpandEntries" {
		t.Errorf("a limit above the bound: %v", err)
	}
}

// entriesOf returns the number of nodes and tuples of a tree.
func entriesOf(t *authz.Tree) int {
	n := 1 + len(t.Leaves)
	for _, l := range t.Leaves {
		if l.Tree != nil {
			n += entriesOf(l.Tree)
		}
	}
	for _, c := range t.Children {
		n += entriesOf(c)
	}
	return n
}

// TestExpandPagesEndAtBounds gives an expand a bound on visited nodes that the
// first pages stay within. A later page has to find too many usersets again, so it
// names the bound and is the last.
func TestExpandPagesEndAtBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	var add []rel.Tuple
	for i := range 200 {
		add = append(add, tups(t, fmt.Sprintf("group:%d#member@group:%d#member", i, i+1))...)
	}
	must(s.Write(ctx, authz.WriteRequest{Add: add}))(t)
	q := authz.ExpandPageRequest{ExpandRequest: authz.ExpandRequest{Object: rel.Object{Type: "group", ID: "0"}, Relation: "member", Levels: 1000}, Limit: 20}
	q.Bounds.Nodes = 250
	var bounds []string
	for {
		page := must(s.ExpandPage(ctx, q))(t)
		if bounds = append(bounds, page.Bound); page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	if last := len(bounds) - 1; last < 5 || bounds[last] != authz.BoundNodes || slices.ContainsFunc(bounds[:last], func(b string) bool { return b != "" }) {
		t.Errorf("bounds of the pages: %q", bounds)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.ExpandPage(canceled, q); !errors.Is(err, authz.ErrCanceled) {
		t.Errorf("canceled: %v", err)
	}
}
