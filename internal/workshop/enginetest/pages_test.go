package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// pagesModel has relations whose subjects are users, everybody and members of groups.
func pagesModel() *schema.Model {
	subjects := []schema.SubjectType{{Type: "user"}, {Type: "user", Wildcard: true}, {Type: "group", Relation: "member"}}
	relations := []schema.RelationDef{{Name: "editor", Rewrite: schema.Direct(), Subjects: subjects}, {Name: "viewer", Rewrite: schema.Direct(), Subjects: subjects}}
	return &schema.Model{Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []schema.RelationDef{{Name: "member", Rewrite: schema.Direct(), Subjects: subjects}}},
		{Name: "doc", Relations: relations, Attributes: []schema.AttributeDef{{Name: "a", Type: expr.Type{Kind: expr.Int}}, {Name: "b", Type: expr.Type{Kind: expr.Int}}}},
	}}
}

// TestPagesOfOneRevision reads lists in pages while tuples and attributes are written and
// removed between the pages. Together the pages are what the revision of the first page
// had, in the documented order.
func TestPagesOfOneRevision(t *testing.T) {
	t.Parallel()
	const seed = 3
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	onEach(t, func(t *testing.T, d disk) {
		ctx := t.Context()
		s := newStore(t, start(t, d, ostiary.Options{}).engine, pagesModel())
		tuples, attributes := map[rel.Key]bool{}, map[rel.Attribute]bool{}
		random := func() rel.Key {
			k := rel.Key{Object: rel.Object{Type: "doc", ID: fmt.Sprint("d", rng.IntN(300))}, Relation: []string{"editor", "viewer"}[rng.IntN(2)],
				Subject: rel.Subject{Type: "user", ID: fmt.Sprint("u", rng.IntN(300))}}
			switch rng.IntN(6) {
			case 0:
				k.Object.ID = "shared"
			case 1:
				k.Subject.ID = "everywhere"
			case 2:
				k.Subject.ID = rel.Wildcard
			case 3:
				k.Subject = rel.Subject{Type: "group", ID: fmt.Sprint("g", rng.IntN(5)), Relation: "member"}
			case 4:
				k.Object, k.Relation = rel.Object{Type: "group", ID: fmt.Sprint("g", rng.IntN(5))}, "member"
			}
			return k
		}
		change := func(n int) {
			w := authz.WriteRequest{OnDuplicate: authz.Ignore, OnMissing: authz.Ignore}
			touched := map[rel.Key]bool{}
			for range n {
				k := random()
				if touched[k] {
					continue
				}
				touched[k] = true
				if rng.IntN(3) == 0 {
					w.Remove = append(w.Remove, k)
					delete(tuples, k)
					continue
				}
				w.Add = append(w.Add, rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject})
				tuples[k] = true
			}
			a := rel.Attribute{Object: rel.Object{Type: "doc", ID: fmt.Sprint("d", rng.IntN(300))}, Name: []string{"a", "b"}[rng.IntN(2)], Value: "1"}
			w.SetAttributes, attributes[a] = append(w.SetAttributes, a), true
			must(s.Write(ctx, w))(t)
		}
		for range 20 {
			change(60)
		}
		for range 30 {
			change(1 + rng.IntN(30))
			f := rel.Filter{}
			if k := random(); rng.IntN(5) > 0 {
				if rng.IntN(2) == 0 {
					f.ObjectType, f.Relation = k.Object.Type, k.Relation
				}
				switch rng.IntN(4) {
				case 0:
					f.ObjectType, f.ObjectID = k.Object.Type, k.Object.ID
				case 1:
					f.SubjectType, f.SubjectID = k.Subject.Type, k.Subject.ID
				case 2:
					f.SubjectType, f.SubjectPlain = "user", true
				}
			}
			var want []rel.Key
			for k := range tuples {
				if f.Match(k) {
					want = append(want, k)
				}
			}
			slices.SortFunc(want, func(a, b rel.Key) int {
				return cmp.Or(strings.Compare(a.Object.Type, b.Object.Type), strings.Compare(a.Relation, b.Relation), strings.Compare(a.Object.ID, b.Object.ID),
					strings.Compare(a.Subject.Type, b.Subject.Type), strings.Compare(a.Subject.ID, b.Subject.ID), strings.Compare(a.Subject.Relation, b.Subject.Relation))
			})
			wantAttributes := slices.SortedFunc(maps.Keys(attributes), func(a, b rel.Attribute) int {
				return cmp.Or(strings.Compare(a.Object.ID, b.Object.ID), strings.Compare(a.Name, b.Name))
			})
			var got []rel.Key
			r := authz.ReadRequest{Filter: f, Limit: 1 + rng.IntN(30)}
			ra := authz.ReadAttributesRequest{ObjectType: "doc", Limit: 1 + rng.IntN(30)}
			var gotAttributes []rel.Attribute
			for first := true; first || r.Cursor != "" || ra.Cursor != ""; first = false {
				if first || r.Cursor != "" {
					p := must(s.Read(ctx, r))(t)
					for _, x := range p.Tuples {
						got = append(got, x.Key())
					}
					r.Cursor = p.Next
				}
				if first || ra.Cursor != "" {
					p := must(s.ReadAttributes(ctx, ra))(t)
					gotAttributes = append(gotAttributes, p.Attributes...)
					ra.Cursor = p.Next
				}
				if rng.IntN(3) == 0 {
					change(1 + rng.IntN(20))
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v in pages of %d: got %d tuples, expected %d", f, r.Limit, len(got), len(want))
			}
			if !slices.Equal(gotAttributes, wantAttributes) {
				t.Fatalf("in pages of %d: got %d attributes, expected %d", ra.Limit, len(gotAttributes), len(wantAttributes))
			}
		}
	})
}

// countingContext counts how often it is asked whether it has ended. A read asks after each
// few hundred tuples that it visits.
type countingContext struct {
	context.Context
	asked int
}

func (c *countingContext) Err() error {
	c.asked++
	return c.Context.Err()
}

// TestPagesOfLargeLists reads pages of lists that are longer than what a read visits before
// it looks at its context, and expects that no page visits as much.
func TestPagesOfLargeLists(t *testing.T) {
	t.Parallel()
	filters := []rel.Filter{{}, {ObjectType: "doc", Relation: "viewer"}, {SubjectType: "user", SubjectID: "everywhere"}, {ObjectType: "doc", ObjectID: "shared"}}
	const small = 500
	asked := map[string]int{} // of the small store, by list and place
	for _, size := range []int{small, 10_000} {
		s := newStore(t, newEngine(t, ostiary.Options{}), pagesModel())
		for from := 0; from < size; from += small {
			var w authz.WriteRequest
			for i := from; i < from+small; i++ {
				w.Add = append(w.Add, tup(t, fmt.Sprintf("doc:%05d#viewer@user:u%05d", i, i)), tup(t, fmt.Sprintf("doc:%05d#editor@user:everywhere", i)),
					tup(t, fmt.Sprintf("doc:shared#viewer@user:u%05d", i)))
				w.SetAttributes = append(w.SetAttributes, rel.Attribute{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("%05d", i)}, Name: "a", Value: "1"})
			}
			must(s.Write(t.Context(), w))(t)
		}
		record := func(list, place string, n int) {
			key := list + ", " + place
			if size == small {
				asked[key] = n
			} else if n != asked[key] {
				t.Errorf("%s: a page of %d asks its context %d times, expected %d as for a list of %d", key, size, n, asked[key], small)
			}
		}
		for _, f := range filters {
			far := must(s.Read(t.Context(), authz.ReadRequest{Filter: f, Limit: size / 2}))(t).Next
			for place, cursor := range map[string]string{"beginning": "", "middle": far} {
				ctx := &countingContext{Context: t.Context()}
				if p := must(s.Read(ctx, authz.ReadRequest{Filter: f, Cursor: cursor}))(t); len(p.Tuples) != 100 {
					t.Fatalf("%+v: a page has %d tuples, expected 100", f, len(p.Tuples))
				}
				record(fmt.Sprintf("%+v", f), place, ctx.asked)
			}
		}
		far := must(s.ReadAttributes(t.Context(), authz.ReadAttributesRequest{ObjectType: "doc", Limit: size / 2}))(t).Next
		for place, cursor := range map[string]string{"beginning": "", "middle": far} {
			ctx := &countingContext{Context: t.Context()}
			must(s.ReadAttributes(ctx, authz.ReadAttributesRequest{ObjectType: "doc", Cursor: cursor}))(t)
			record("attributes", place, ctx.asked)
		}
	}
}
