package domain_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/rel"
)

// target returns a policy with a target that compares attributes with texts. Each
// is a function, a category, an id and a text.
func target(id string, matches ...[4]string) string {
	text := ""
	for _, m := range matches {
		text += fmt.Sprintf(`<AnyOf><AllOf><Match MatchId=%q>%s%s</Match></AllOf></AnyOf>`, m[0], literal(m[3]), designator(m[1], m[2], xsString))
	}
	return fmt.Sprintf(`<Policy PolicyId=%q Version="1.0" RuleCombiningAlgId=%q><Target>%s</Target><Rule RuleId="r" Effect="Permit"><Target>%s</Target></Rule></Policy>`,
		id, firstRule, text, strings.ReplaceAll(text, "</AttributeValue>", "-by-rule</AttributeValue>"))
}

// TestAnswers compares questions to the relation store, searches and their
// refusals with a file.
func TestAnswers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := registryOn(t, ostiary.Options{Bounds: authz.Bounds{FutureWait: time.Millisecond}}, domain.Options{Questions: 3, Candidates: 12})
	s := newRelations(t, e, "document:1#viewer@user:anne", "document:2#viewer@group:eng#member", "group:eng#member@user:bob")
	d := must(r.FindOrMake(ctx, s.ID().String()))(t)
	var j journal
	j.name(s, "RELATIONS")
	j.name(d.Store(), "OWN")

	j.line("questions")
	asking := func(object, relation, subject string) {
		root := effect("root", "Permit", apply(domain.RelatedID, literal(object), literal(relation), literal(subject)))
		change(t, d, domain.Change{Root: &root})
		j.result(fmt.Sprintf("%q#%q@%q", object, relation, subject), outcome(decide(t, d)), nil)
	}
	asking("document:1", "viewer", "user:anne")
	asking("document:1", "viewer", "user:bob")
	asking("document:2", "viewer", "user:bob")
	asking("document:2", "viewer", "group:eng#member")
	asking("document:1", "viewer", "user:*")
	asking("document", "viewer", "user:anne")
	asking("document:1", "", "user:anne")
	asking("document:1", "viewer", "")
	asking("document:1", "viewer", "planet:1")
	asking("planet:1", "viewer", "user:anne")
	small, engine := registryOn(t, ostiary.Options{Bounds: authz.Bounds{Nodes: 1}}, domain.Options{})
	deep := newRelations(t, engine, "document:2#viewer@group:eng#member", "group:eng#member@user:bob")
	own := must(small.FindOrMake(ctx, deep.ID().String()))(t)
	root := effect("root", "Permit", apply(domain.RelatedID, literal("document:2"), literal("viewer"), literal("user:bob")))
	change(t, own, domain.Change{Root: &root})
	j.result("more nodes than the bound", outcome(decide(t, own)), nil)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	p := must(own.Pin(ctx, domain.PinOptions{}))(t)
	results, err := p.Decide(canceled, request(), nil)
	if err == nil {
		j.result("when the context has ended", outcome(results[0]), nil)
	} else {
		j.result("when the context has ended", "", err)
	}
	p = must(d.Pin(ctx, domain.PinOptions{}))(t)
	token, err := p.RelationsToken(ctx)
	j.result("token before a question", fmt.Sprintf("%q", token), err)
	must(p.Decide(ctx, request(), nil))(t)
	token, err = p.RelationsToken(ctx)
	j.result("token after a question is the head", token == must(s.Head(ctx))(t), err)

	j.line("\nsearches")
	root = effect("root", "Permit", related("viewer"))
	change(t, d, domain.Change{Root: &root})
	base := domain.SearchRequest{Category: policy.CategoryResource, Known: request("user:anne")}
	search := func(what string, r domain.SearchRequest) domain.SearchResult {
		page, err := d.Search(ctx, &r)
		text := fmt.Sprintf("revision %d,", page.Revision)
		for _, c := range page.Permitted {
			text += " " + c.Name
			for _, duty := range c.Obligations {
				text += fmt.Sprintf("(%s %s)", duty.ID, duty.Arguments[0].Value.Text())
			}
		}
		if page.Undecided > 0 {
			text += fmt.Sprintf(" and %d undecided: %s", page.Undecided, page.Status.Message)
		}
		if page.Next != "" {
			text += " and more"
		}
		j.result(what, text, err)
		return page
	}
	with := func(change func(r *domain.SearchRequest)) domain.SearchRequest {
		r := base
		change(&r)
		return r
	}
	search("documents", with(func(r *domain.SearchRequest) { r.Type = "document" }))
	search("an unknown type", with(func(r *domain.SearchRequest) { r.Type = "planet" }))
	search("candidates", with(func(r *domain.SearchRequest) {
		r.Candidates = []string{"document:2", "z", "document:1", "document:1", "planet:1"}
	}))
	search("no candidates", with(func(r *domain.SearchRequest) { r.Candidates = []string{} }))
	search("of another known object", with(func(r *domain.SearchRequest) {
		r.Candidates, r.Attributes = []string{"one", "two"}, func(name string) []policy.Attribute {
			return []policy.Attribute{{ID: policy.AttributeResourceID, Values: []value.Value{value.NewString(map[string]string{"one": "document:1", "two": "document:2"}[name])}}}
		}
	}))
	search("a reserved attribute", with(func(r *domain.SearchRequest) {
		r.Candidates, r.Attributes = []string{"one"}, func(string) []policy.Attribute {
			return []policy.Attribute{{ID: domain.StoredAttribute + "level", Values: []value.Value{value.NewInteger(1)}}}
		}
	}))
	search("a reserved attribute that is known", with(func(r *domain.SearchRequest) {
		r.Candidates = []string{"document:1"}
		r.Known = &policy.Request{Categories: []policy.Category{{Name: policy.CategorySubject, Attributes: []policy.Attribute{{ID: domain.StoredAttribute + "x"}}}}}
	}))
	search("at a revision of the past", with(func(r *domain.SearchRequest) { r.Type, r.Pin = "document", domain.PinOptions{Revision: 2} }))
	search("at a revision of the future", with(func(r *domain.SearchRequest) { r.Type, r.Pin = "document", domain.PinOptions{Revision: 2_000} }))
	search("at an older revision of the relations", with(func(r *domain.SearchRequest) {
		r.Type, r.Pin = "document", domain.PinOptions{Relations: authz.AtRevision(1)}
	}))
	search("at an unknown revision of the relations", with(func(r *domain.SearchRequest) {
		r.Type, r.Pin = "document", domain.PinOptions{Relations: authz.AtExactly("x")}
	}))
	search("actions without policies that name one", with(func(r *domain.SearchRequest) {
		r.Category, r.Known = policy.CategoryAction, request("user:anne", "document:1")
	}))
	plain := defaultDomain(t, r)
	_, err = plain.Search(ctx, &domain.SearchRequest{Category: policy.CategoryResource, Type: "document", Known: request("user:anne")})
	j.result("without a relation store", "", err)

	j.line("\ncursors")
	write(t, s, "document:2#viewer@user:anne", "document:3#viewer@user:anne", "document:4#viewer@user:anne")
	paged := with(func(r *domain.SearchRequest) { r.Type, r.Limit = "document", 2 })
	first := search("the first page", paged)
	write(t, s, "document:20#viewer@user:anne")
	raw := must(base64.RawURLEncoding.DecodeString(first.Next))(t)
	second := paged
	second.Cursor = first.Next
	search("the second page", second)
	second.Limit = 1
	search("with another limit", second)
	fields := func(change func(map[string]any)) string {
		var all map[string]any
		if err := json.Unmarshal(raw, &all); err != nil {
			t.Fatal(err)
		}
		change(all)
		return base64.RawURLEncoding.EncodeToString(must(json.Marshal(all))(t))
	}
	for _, c := range []struct{ what, cursor string }{
		{"no base64", "%"},
		{"with padding", first.Next + "="},
		{"no JSON", base64.RawURLEncoding.EncodeToString([]byte("x"))},
		{"another digest", fields(func(m map[string]any) { m["d"] = "x" })},
		{"without a revision", fields(func(m map[string]any) { delete(m, "r") })},
		{"another revision", fields(func(m map[string]any) { m["r"] = 2 })},
		{"another token", fields(func(m map[string]any) { m["t"] = "x" })},
		{"another token of the relations", fields(func(m map[string]any) { m["s"] = "x" })},
		{"after a name that does not exist", fields(func(m map[string]any) { m["a"] = "document:2x" })},
		{"of the largest size", strings.Repeat("A", 64<<10)},
		{"larger", strings.Repeat("A", 64<<10+1)},
	} {
		second.Cursor = c.cursor
		search(c.what, second)
	}
	second.Cursor = first.Next
	for what, change := range map[string]func(r *domain.SearchRequest){
		"category":   func(r *domain.SearchRequest) { r.Category = policy.CategoryAction },
		"type":       func(r *domain.SearchRequest) { r.Type = "user" },
		"candidates": func(r *domain.SearchRequest) { r.Candidates = []string{"document:1"} },
		"scope":      func(r *domain.SearchRequest) { r.Scope = "x" },
		"request":    func(r *domain.SearchRequest) { r.Known = request("user:bob") },
	} {
		other := second
		change(&other)
		if _, err := d.Search(ctx, &other); !errors.Is(err, authz.ErrCursor) {
			t.Errorf("the cursor of another %s: %v", what, err)
		}
	}

	j.line("\nactions")
	equal, other := function1+"string-equal", function1+"string-regexp-match"
	in := func(id, text string, category string) [4]string { return [4]string{equal, category, id, text} }
	root = domain.Source{Language: domain.XML, Text: fmt.Appendf(nil, `<PolicySet %s PolicySetId="root" Version="1" PolicyCombiningAlgId=%q><Target/>%s</PolicySet>`, namespace, firstPolicy,
		target("inner", in(policy.AttributeActionID, "read", policy.CategoryAction), in("other", "write", policy.CategoryAction), in(policy.AttributeActionID, "delete", policy.CategoryResource),
			[4]string{other, policy.CategoryAction, policy.AttributeActionID, "x.*"}))}
	stored := domain.Source{Language: domain.XML, Text: []byte(strings.Replace(target("stored", in(policy.AttributeActionID, "share", policy.CategoryAction)), "<Policy ", "<Policy "+namespace+" ", 1))}
	everything := set("targets", "stored")
	everything.Text = []byte(strings.Replace(string(everything.Text), "<Target/>", `<Target><AnyOf><AllOf><Match MatchId="`+equal+`">`+literal("set")+designator(policy.CategoryAction, policy.AttributeActionID, xsString)+`</Match></AllOf></AnyOf></Target>`, 1))
	change(t, d, domain.Change{Root: &root, Put: texts{"stored": stored, "targets": everything}})
	j.result("names", must(d.Pin(ctx, domain.PinOptions{}))(t).Actions(), nil)

	j.line("\nattributes of candidates")
	for _, category := range []string{policy.CategorySubject, policy.CategoryResource, policy.CategoryAction, "urn:other"} {
		for _, name := range []string{"document:1", "anne"} {
			text := ""
			for _, a := range domain.CandidateAttributes(category, name) {
				text += fmt.Sprintf(" %s=%s", a.ID, a.Values[0].Text())
			}
			j.result(category+" "+name, text, nil)
		}
	}
	golden.Equal(t, "testdata/answers.txt", j.text.String())
}

// TestPages checks the limits of pages, and a type with more objects than one read
// of attributes returns.
func TestPages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{})
	s := newRelations(t, e)
	const n = 2_500
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("user:%05d", i))
	}
	for some := names; len(some) > 0; some = some[100:] {
		var w authz.WriteRequest
		for _, name := range some[:100] {
			w.SetAttributes = append(w.SetAttributes, rel.Attribute{Object: must(rel.ParseObject(name))(t), Name: "clearance", Value: "1"})
		}
		must(s.Write(ctx, w))(t)
	}
	d := must(r.FindOrMake(ctx, s.ID().String()))(t)
	root := permitAll("root")
	change(t, d, domain.Change{Root: &root})
	q := domain.SearchRequest{Category: policy.CategorySubject, Type: "user", Known: &policy.Request{}}
	for _, limit := range []int{0, -1, 1, domain.SearchLimitDefault + 1, n - 1, n, n + 1} {
		q.Limit, q.Cursor = limit, ""
		want := limit
		if limit <= 0 {
			want = domain.SearchLimitDefault
		}
		page := must(d.Search(ctx, &q))(t)
		if len(page.Permitted) != min(want, n) || (page.Next == "") != (want >= n) {
			t.Errorf("limit %d: %d candidates, next %q", limit, len(page.Permitted), page.Next)
		}
	}
	q.Limit, q.Cursor = 0, ""
	if got := strings.ReplaceAll(searchPages(t, d, q), " | ", " "); got != strings.Join(names, " ") {
		t.Errorf("all pages: %.200s", got)
	}
	q.Type, q.Limit = "", domain.SearchLimitMax+1
	for i := range domain.SearchLimitMax + 2 {
		q.Candidates = append(q.Candidates, fmt.Sprint(i))
	}
	if page := must(d.Search(ctx, &q))(t); len(page.Permitted) != domain.SearchLimitMax {
		t.Errorf("%d candidates, expected the largest page of %d", len(page.Permitted), domain.SearchLimitMax)
	}
}

// TestOptions checks the defaults of options, and a function that is there twice.
func TestOptions(t *testing.T) {
	t.Parallel()
	r, e := newRegistry(t, domain.Options{})
	o := r.Options()
	if o.PoliciesMax != 100_000 || o.BytesMax != 512<<20 || o.Questions != 10_000 || o.Candidates != 100_000 || o.Zone != time.UTC || o.Clock == nil || o.Functions == nil {
		t.Errorf("the defaults are %+v", o)
	}
	zone := time.FixedZone("zone", 3600)
	own := domain.Options{PoliciesMax: 1, BytesMax: 2, Questions: 3, Candidates: 4, Zone: zone, Functions: function.Standard(), Clock: func() time.Time { return time.Unix(5, 0) }}
	r, err := domain.NewRegistry(e, own)
	if err != nil {
		t.Fatal(err)
	}
	if o = r.Options(); o.PoliciesMax != 1 || o.BytesMax != 2 || o.Questions != 3 || o.Candidates != 4 || o.Zone != zone || o.Functions != own.Functions || !o.Clock().Equal(time.Unix(5, 0)) {
		t.Errorf("the options are %+v", o)
	}
	negative := domain.Options{PoliciesMax: -1}
	if r, err = domain.NewRegistry(e, negative); err != nil || r.Options().PoliciesMax != domain.PoliciesMaxDefault {
		t.Errorf("a negative option: %v", err)
	}
}
