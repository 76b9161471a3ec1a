package domain_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// relationModel has documents that users and members of groups may view, and forms,
// which have an attribute of each type.
func relationModel() *schema.Model {
	user, group := schema.SubjectType{Type: "user"}, schema.SubjectType{Type: "group", Relation: "member"}
	direct := func(name string, subjects ...schema.SubjectType) schema.RelationDef {
		return schema.RelationDef{Name: name, Rewrite: schema.Direct(), Subjects: subjects}
	}
	integer, text := expr.Type{Kind: expr.Int}, expr.Type{Kind: expr.String}
	form := schema.TypeDef{Name: "form"}
	for kind := expr.Bool; kind <= expr.IPAddress; kind++ {
		one := expr.Type{Kind: kind}
		form.Attributes = append(form.Attributes, schema.AttributeDef{Name: kind.String(), Type: one},
			schema.AttributeDef{Name: kind.String() + "s", Type: expr.Type{Kind: expr.List, Elem: &one}})
	}
	return &schema.Model{Types: []schema.TypeDef{form,
		{Name: "user", Attributes: []schema.AttributeDef{{Name: "clearance", Type: integer}}},
		{Name: "group", Relations: []schema.RelationDef{direct("member", user)}},
		{Name: "document", Relations: []schema.RelationDef{direct("viewer", user, group)},
			Attributes: []schema.AttributeDef{{Name: "level", Type: integer}, {Name: "labels", Type: expr.Type{Kind: expr.List, Elem: &text}}}},
	}}
}

// newRelations creates a store with relationModel.
func newRelations(t testing.TB, e *ostiary.Engine, tuples ...string) *ostiary.Store {
	t.Helper()
	s := must(e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "relations"}))(t)
	if _, _, err := s.WriteSchema(context.Background(), authz.SchemaSource{Model: relationModel()}); err != nil {
		t.Fatal(err)
	}
	write(t, s, tuples...)
	return s
}

func write(t testing.TB, s *ostiary.Store, tuples ...string) {
	t.Helper()
	var w authz.WriteRequest
	for _, text := range tuples {
		w.Add = append(w.Add, must(rel.Parse(text))(t))
	}
	must(s.Write(context.Background(), w))(t)
}

// apply is an Apply element.
func apply(function string, args ...string) string {
	return fmt.Sprintf("<Apply FunctionId=%q>%s</Apply>", function, strings.Join(args, ""))
}

const function1 = "urn:oasis:names:tc:xacml:1.0:function:"

// one is the only string of an attribute.
func one(category, id string) string {
	return apply(function1+"string-one-and-only", designator(category, id, xsString))
}

func designator(category, id, typ string) string {
	return fmt.Sprintf("<AttributeDesignator Category=%q AttributeId=%q DataType=%q MustBePresent=\"true\"/>", category, id, typ)
}

func literal(text string) string {
	return fmt.Sprintf("<AttributeValue DataType=%q>%s</AttributeValue>", xsString, text)
}

// related asks whether the subject has a relation to the resource.
func related(relation string) string {
	return apply(domain.RelatedID, one(policy.CategoryResource, policy.AttributeResourceID), literal(relation),
		one(policy.CategorySubject, policy.AttributeSubjectID))
}

// TestRelated checks the function that asks the relation store, and every way in
// which it has no answer.
func TestRelated(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{Questions: 2})
	s := newRelations(t, e, "document:1#viewer@user:anne", "document:1#viewer@group:eng#member", "group:eng#member@user:bob")
	d := must(r.FindOrMake(ctx, s.ID().String()))(t)
	root := effect("root", "Permit", related("viewer"))
	change(t, d, domain.Change{Root: &root})
	for subject, want := range map[string]policy.Decision{"user:anne": policy.Permitted, "user:bob": policy.Permitted, "user:eve": policy.NotApplicable} {
		if got := decide(t, d, subject, "document:1"); got.Decision != want {
			t.Errorf("%s: %d %v", subject, got.Decision, got.Status)
		}
	}
	write(t, s, "group:eng#member@user:eve")
	if got := decide(t, d, "user:eve", "document:1"); got.Decision != policy.Permitted {
		t.Error("a new tuple is not seen")
	}
	indeterminate := func(d *domain.Domain, subject, resource, text string) {
		t.Helper()
		got := decide(t, d, subject, resource)
		if got.Decision < policy.Indeterminate || got.Status == nil || got.Status.Code != status.ProcessingError || !strings.Contains(got.Status.Message, text) {
			t.Errorf("%s %s: %d %v, want an error with %q", subject, resource, got.Decision, got.Status, text)
		}
	}
	indeterminate(d, "user:anne", "planet:1", "planet")
	indeterminate(d, "user:anne", "document", "document")
	indeterminate(d, "", "document:1", "subject")
	unknown := effect("root", "Permit", related("none"))
	change(t, d, domain.Change{Root: &unknown})
	indeterminate(d, "user:anne", "document:1", "none")
	three := effect("root", "Permit", apply(function1+"or", related("viewer"), related("viewer"), related("viewer")))
	change(t, d, domain.Change{Root: &three})
	if got := decide(t, d, "user:nemo", "document:1"); got.Status == nil || got.Status.Bound != domain.BoundQuestions {
		t.Errorf("three questions: %d %v", got.Decision, got.Status)
	}
	two := effect("root", "Permit", apply(function1+"or", related("viewer"), related("viewer")))
	change(t, d, domain.Change{Root: &two})
	if got := decide(t, d, "user:nemo", "document:1"); got.Decision != policy.NotApplicable {
		t.Errorf("two questions: %d %v", got.Decision, got.Status)
	}
	plain := defaultDomain(t, r)
	change(t, plain, domain.Change{Root: &root})
	indeterminate(plain, "user:anne", "document:1", "no relation store")
	if err := e.DeleteStore(ctx, s.ID()); err != nil {
		t.Fatal(err)
	}
	indeterminate(d, "user:anne", "document:1", "no such store")
}

// stored asks whether an attribute of the store is greater than another one.
func stored() string {
	const integer = "http://www.w3.org/2001/XMLSchema#integer"
	only := function1 + "integer-one-and-only"
	return apply(function1+"integer-greater-than-or-equal",
		apply(only, designator(policy.CategorySubject, domain.StoredAttribute+"clearance", integer)),
		apply(only, designator(policy.CategoryResource, domain.StoredAttribute+"level", integer)))
}

// TestStoredAttributes checks that policies read attributes of the store, and that
// a request cannot replace them.
func TestStoredAttributes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{})
	s := newRelations(t, e)
	d := must(r.FindOrMake(ctx, s.ID().String()))(t)
	root := effect("root", "Permit", stored())
	change(t, d, domain.Change{Root: &root})
	must(s.Write(ctx, authz.WriteRequest{SetAttributes: []rel.Attribute{
		{Object: rel.Object{Type: "user", ID: "anne"}, Name: "clearance", Value: "5"},
		{Object: rel.Object{Type: "user", ID: "bob"}, Name: "clearance", Value: "2"},
		{Object: rel.Object{Type: "document", ID: "1"}, Name: "level", Value: "3"},
		{Object: rel.Object{Type: "document", ID: "1"}, Name: "labels", Value: `["a","b"]`},
	}}))(t)
	for subject, want := range map[string]policy.Decision{"user:anne": policy.Permitted, "user:bob": policy.NotApplicable} {
		if got := decide(t, d, subject, "document:1"); got.Decision != want {
			t.Errorf("%s: %d %v", subject, got.Decision, got.Status)
		}
	}
	missing := decide(t, d, "user:eve", "document:1")
	if missing.Status == nil || missing.Status.Code != status.MissingAttribute {
		t.Errorf("a user without clearance: %d %v", missing.Decision, missing.Status)
	}
	named := request("Bob", "document:1")
	named.Categories[0].Attributes = append(named.Categories[0].Attributes, policy.Attribute{ID: domain.ObjectAttribute, Values: []value.Value{value.NewString("user:anne")}})
	if got := must(d.Decide(ctx, named))(t); got[0].Decision != policy.Permitted {
		t.Errorf("a subject with an object: %d %v", got[0].Decision, got[0].Status)
	}
	forged := request("user:bob", "document:1")
	forged.Categories[0].Attributes = append(forged.Categories[0].Attributes, policy.Attribute{ID: domain.StoredAttribute + "clearance", Values: []value.Value{value.NewInteger(9)}})
	if _, err := d.Decide(ctx, forged); !errors.Is(err, domain.ErrReserved) {
		t.Errorf("a forged attribute: %v", err)
	}
	labels := effect("root", "Permit", apply(function1+"string-is-in", literal("b"), designator(policy.CategoryResource, domain.StoredAttribute+"labels", xsString)))
	change(t, d, domain.Change{Root: &labels})
	if got := decide(t, d, "user:anne", "document:1"); got.Decision != policy.Permitted {
		t.Errorf("a list: %d %v", got.Decision, got.Status)
	}
}

// TestTwins checks that two tenants with the same names never meet: each domain
// asks only the store that it was made for.
func TestTwins(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{})
	root := effect("root", "Permit", related("viewer"))
	var stores [2]*ostiary.Store
	var domains [2]*domain.Domain
	for i := range 2 {
		stores[i] = newRelations(t, e, fmt.Sprintf("document:1#viewer@user:%d", i))
		domains[i] = must(r.FindOrMake(ctx, stores[i].ID().String()))(t)
		change(t, domains[i], domain.Change{Root: &root, Put: texts{"same": permitAll("same")}})
	}
	for i, d := range domains {
		if d.Relations() != stores[i] || must(r.Find(ctx, d.Store().ID().String()))(t) != d {
			t.Errorf("domain %d has other stores", i)
		}
		for user := range 2 {
			got := decide(t, d, fmt.Sprint("user:", user), "document:1")
			if (got.Decision == policy.Permitted) != (user == i) {
				t.Errorf("domain %d permits user %d: %d", i, user, got.Decision)
			}
		}
	}
	change(t, domains[0], domain.Change{Clear: true})
	if got := decide(t, domains[1], "user:1", "document:1"); got.Decision != policy.Permitted {
		t.Error("clearing a domain changes its twin")
	}
	info := must(domains[1].Info(ctx))(t)
	if _, err := domains[0].Change(ctx, domain.Change{Expect: info.Token, Clear: true}); !errors.Is(err, authz.ErrPrecondition) {
		t.Errorf("a token of the twin: %v", err)
	}
	p := must(domains[0].Pin(ctx, domain.PinOptions{Relations: authz.AtLeast(must(stores[1].Head(ctx))(t))}))(t)
	change(t, domains[0], domain.Change{Root: &root})
	p = must(domains[0].Pin(ctx, domain.PinOptions{Relations: authz.AtLeast(must(stores[1].Head(ctx))(t))}))(t)
	if got := must(p.Decide(ctx, request("user:0", "document:1"), nil))(t); got[0].Status == nil || !strings.Contains(got[0].Status.Message, "token") {
		t.Errorf("a relation token of the twin: %v", got)
	}
}

// TestRegistry checks how domains are found and made.
func TestRegistry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{})
	s, other := newRelations(t, e, "document:1#viewer@user:anne"), newRelations(t, e)
	fails := func(want error) func(*domain.Domain, error) {
		return func(_ *domain.Domain, err error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
	fails(authz.ErrNoStore)(r.Find(ctx, "none"))
	fails(authz.ErrNoStore)(r.FindOrMake(ctx, "01ARZ3NDEKTSV4RRFFQ69G5FAV"))
	fails(domain.ErrNoDomain)(r.Find(ctx, s.ID().String()))
	fails(domain.ErrNoDomain)(r.Of(ctx, s))
	own := must(r.FindOrMake(ctx, s.ID().String()))(t)
	if again := must(r.Find(ctx, s.ID().String()))(t); again != own || own.Store() == s {
		t.Error("another domain is found")
	}
	staging := must(r.Make(ctx, "staging policies", "staging", s))(t)
	if found := must(r.Find(ctx, "staging"))(t); found != staging || staging.Relations() != s || staging == own {
		t.Error("another domain is found by its alias")
	}
	fails(authz.ErrStoreExists)(r.Make(ctx, "staging policies", "staging", other))
	fails(authz.ErrInvalidRequest)(r.Make(ctx, "", "nested", own.Store()))
	bound := must(r.Default(ctx, s))(t)
	if again := must(r.Default(ctx, nil))(t); again != bound {
		t.Error("another default domain")
	}
	fails(domain.ErrBinding)(r.Default(ctx, other))
	// A store of relations with the alias of a domain does not become one.
	if err := e.UpdateStore(ctx, other.ID(), replace("x", map[string]string{domain.Alias: "other"})); err != nil {
		t.Fatal(err)
	}
	fails(domain.ErrNoDomain)(r.Find(ctx, "other"))
	// A store that is created again with the id of a relation store gets no access
	// to the domain of the first one.
	id := s.ID()
	if err := e.DeleteStore(ctx, id); err != nil {
		t.Fatal(err)
	}
	must(e.CreateStore(ctx, ostiary.CreateStoreRequest{ID: id}))(t)
	fails(domain.ErrBinding)(r.Find(ctx, id.String()))
	fails(domain.ErrBinding)(r.FindOrMake(ctx, id.String()))
	fresh, err := domain.NewRegistry(e, domain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again := must(fresh.Find(ctx, "staging"))(t)
	root := effect("root", "Permit", related("viewer"))
	change(t, again, domain.Change{Root: &root})
	if got := decide(t, again, "user:anne", "document:1"); got.Status == nil || !strings.Contains(got.Status.Message, "was deleted") {
		t.Errorf("%d %v", got.Decision, got.Status)
	}
}

// TestManyMakeOneDefault checks that concurrent first uses make one domain.
func TestManyMakeOneDefault(t *testing.T) {
	t.Parallel()
	r, e := newRegistry(t, domain.Options{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := r.Default(context.Background(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, err := range e.Stores(context.Background(), storage.StoreID{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d stores", n)
	}
}

// TestOneRevision checks that a request whose questions are asked while tuples
// and policies change sees one revision of each: the policy asks twice, and both
// answers always agree.
func TestOneRevision(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{})
	s := newRelations(t, e)
	d := must(r.FindOrMake(ctx, s.ID().String()))(t)
	// The policies a and b are always both permit or both deny. A decision from one
	// of each, or from two revisions of the tuples, is a permit with one of them.
	differ := apply(function1+"not", apply(function1+"boolean-equal", related("viewer"), related("viewer")))
	version := func(n int) domain.Change {
		text := func(id string) domain.Source {
			src := effect(id, "Permit", differ)
			src.Text = []byte(strings.Replace(string(src.Text), "</Rule>", fmt.Sprintf(
				`<AdviceExpressions><AdviceExpression AdviceId="v%d" AppliesTo="Permit"/></AdviceExpressions></Rule><Rule RuleId="else" Effect="Deny"><AdviceExpressions><AdviceExpression AdviceId="v%d" AppliesTo="Deny"/></AdviceExpressions></Rule>`, n, n), 1))
			return src
		}
		return domain.Change{Put: texts{"a": text("a"), "b": text("b")}}
	}
	root := domain.Source{Language: domain.XML, Text: fmt.Appendf(nil,
		`<PolicySet %s PolicySetId="root" Version="1.0" PolicyCombiningAlgId="urn:oasis:names:tc:xacml:3.0:policy-combining-algorithm:permit-overrides"><Target/><PolicyIdReference>a</PolicyIdReference><PolicyIdReference>b</PolicyIdReference></PolicySet>`, namespace)}
	first := version(0)
	first.Root = &root
	change(t, d, first)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := d.Decide(ctx, request("user:anne", "document:1"))
				if err != nil || got[0].Decision != policy.Denied || len(got[0].Advice) != 2 || got[0].Advice[0].ID != got[0].Advice[1].ID {
					t.Errorf("half of a change: %+v %v", got, err)
					return
				}
			}
		})
	}
	for n := range 200 {
		change(t, d, version(n))
		tuple := must(rel.Parse("document:1#viewer@user:anne"))(t)
		w := authz.WriteRequest{Add: []rel.Tuple{tuple}}
		if n%2 == 1 {
			w = authz.WriteRequest{Remove: []rel.Key{tuple.Key()}}
		}
		must(s.Write(ctx, w))(t)
	}
	close(stop)
	wg.Wait()
}

// TestExpired checks that a pinned question is asked at the time of the request,
// and not at the time of the newest write.
func TestExpired(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var mu sync.Mutex
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	r, e := registryOn(t, ostiary.Options{Clock: clock}, domain.Options{Clock: clock})
	s := newRelations(t, e)
	soon := must(rel.Parse("document:1#viewer@user:anne"))(t)
	soon.Expires = rel.TimeOf(now.Add(time.Hour))
	must(s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{soon}}))(t)
	d := must(r.FindOrMake(ctx, s.ID().String()))(t)
	root := effect("root", "Permit", related("viewer"))
	change(t, d, domain.Change{Root: &root})
	if got := decide(t, d, "user:anne", "document:1"); got.Decision != policy.Permitted {
		t.Errorf("before the expiry: %d", got.Decision)
	}
	write(t, s, "document:0#viewer@user:anne")
	q := domain.SearchRequest{Category: policy.CategoryResource, Type: "document", Known: request("user:anne"), Limit: 1}
	page := must(d.Search(ctx, &q))(t)
	q.Cursor = page.Next
	if rest := must(d.Search(ctx, &q))(t); len(page.Permitted) != 1 || page.Permitted[0].Name != "document:0" || len(rest.Permitted) != 1 {
		t.Errorf("before the expiry: found %v, then %v", page, rest)
	}
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	if rest := must(d.Search(ctx, &q))(t); len(rest.Permitted) != 0 {
		t.Errorf("the second page after the expiry: %v", rest)
	}
	if got := decide(t, d, "user:anne", "document:1"); got.Decision != policy.NotApplicable {
		t.Errorf("after the expiry: %d", got.Decision)
	}
}

// replace is a change of a store for UpdateStore, whatever its name and its aliases are.
func replace(name string, aliases map[string]string) func(*string, map[string]string) error {
	return func(n *string, all map[string]string) error {
		*n = name
		clear(all)
		maps.Copy(all, aliases)
		return nil
	}
}
