package domain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/storage/memory"
)

// permitAll returns a policy with an id that permits everything, and denyAll one
// that denies.
func permitAll(id string) domain.Source { return effect(id, "Permit", "") }
func denyAll(id string) domain.Source   { return effect(id, "Deny", "") }

const (
	namespace   = `xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17"`
	firstRule   = "urn:oasis:names:tc:xacml:1.0:rule-combining-algorithm:first-applicable"
	firstPolicy = "urn:oasis:names:tc:xacml:1.0:policy-combining-algorithm:first-applicable"
	xsString    = "http://www.w3.org/2001/XMLSchema#string"
)

// effect returns a policy with one rule.
func effect(id, effect, condition string) domain.Source {
	if condition != "" {
		condition = "<Condition>" + condition + "</Condition>"
	}
	return domain.Source{Language: domain.XML, Text: fmt.Appendf(nil,
		`<Policy %s PolicyId=%q Version="1.0" RuleCombiningAlgId=%q><Target/><Rule RuleId="r" Effect=%q>%s</Rule></Policy>`,
		namespace, id, firstRule, effect, condition)}
}

// set returns a policy set that refers to policies.
func set(id string, policies ...string) domain.Source {
	var refs strings.Builder
	for _, p := range policies {
		fmt.Fprintf(&refs, "<PolicyIdReference>%s</PolicyIdReference>", p)
	}
	return domain.Source{Language: domain.XML, Text: fmt.Appendf(nil,
		`<PolicySet %s PolicySetId=%q Version="1.0" PolicyCombiningAlgId=%q><Target/>%s</PolicySet>`, namespace, id, firstPolicy, refs.String())}
}

func newRegistry(t testing.TB, o domain.Options) (*domain.Registry, *ostiary.Engine) {
	t.Helper()
	return registryOn(t, ostiary.Options{}, o)
}

func registryOn(t testing.TB, eo ostiary.Options, o domain.Options) (*domain.Registry, *ostiary.Engine) {
	t.Helper()
	e, err := ostiary.Open(context.Background(), eo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	r, err := domain.NewRegistry(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return r, e
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func defaultDomain(t testing.TB, r *domain.Registry) *domain.Domain {
	t.Helper()
	return must(r.Default(context.Background(), nil))(t)
}

// decide decides a request without attributes, or with the attributes "subject",
// "resource" and "action" if they are given.
func decide(t testing.TB, d *domain.Domain, names ...string) policy.Result {
	t.Helper()
	results, err := d.Decide(context.Background(), request(names...))
	if err != nil || len(results) != 1 {
		t.Fatal(results, err)
	}
	return results[0]
}

func request(names ...string) *policy.Request {
	r := &policy.Request{}
	for i, name := range names {
		c := [...]policy.Category{{Name: policy.CategorySubject}, {Name: policy.CategoryResource}, {Name: policy.CategoryAction}}[i]
		id := [...]string{policy.AttributeSubjectID, policy.AttributeResourceID, policy.AttributeActionID}[i]
		c.Attributes = []policy.Attribute{{ID: id, Values: []value.Value{value.NewString(name)}}}
		r.Categories = append(r.Categories, c)
	}
	return r
}

func change(t testing.TB, d *domain.Domain, c domain.Change) domain.Changed {
	t.Helper()
	return must(d.Change(context.Background(), c))(t)
}

type texts = map[string]domain.Source

// TestChange checks which changes are accepted, and that each decides when the
// call returns.
func TestChange(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, _ := newRegistry(t, domain.Options{})
	d := defaultDomain(t, r)
	want := func(w policy.Decision) {
		t.Helper()
		if got := decide(t, d); got.Decision != w {
			t.Fatalf("decision %d, want %d: %v", got.Decision, w, got.Status)
		}
	}
	reject := func(c domain.Change, kind error, text string) {
		t.Helper()
		before := must(d.Info(ctx))(t)
		if _, err := d.Change(ctx, c); !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %v with %q", err, kind, text)
		}
		if err := d.Validate(ctx, c); !errors.Is(err, kind) {
			t.Errorf("Validate: %v, want %v", err, kind)
		}
		if after := must(d.Info(ctx))(t); after.Token != before.Token {
			t.Error("a rejected change made a revision")
		}
	}
	want(policy.NotApplicable)
	if s := decide(t, d).Status; s == nil || s.Code != status.OK || s.Message != "the policy domain has no root policy, so no policy applies" {
		t.Errorf("without a root: %+v", s)
	}
	root, bad := set("root", "a", "b"), domain.Source{Language: domain.XML, Text: []byte("<Policy>")}
	change(t, d, domain.Change{Put: texts{"one": set("s", "missing")}})
	reject(domain.Change{Root: &root}, domain.ErrInvalid, `"a"`)
	want(policy.NotApplicable)
	first := change(t, d, domain.Change{Put: texts{"a": permitAll("a"), "b.xml": denyAll("b")}})
	if !first.Created {
		t.Error("new policies are not reported as created")
	}
	change(t, d, domain.Change{Root: &root})
	want(policy.Permitted)
	again := change(t, d, domain.Change{Root: &root, Put: texts{"a": permitAll("a")}})
	if again.Created || again.Revision != must(d.Info(ctx))(t).Revision {
		t.Errorf("the same texts made a revision: %+v", again)
	}
	changed := change(t, d, domain.Change{Put: texts{"a": denyAll("a")}})
	if changed.Created {
		t.Error("a replaced policy is reported as created")
	}
	want(policy.Denied)
	reject(domain.Change{Put: texts{"a": bad}}, domain.ErrInvalid, "a:1:")
	reject(domain.Change{Remove: []string{"a"}}, domain.ErrInvalid, `"a"`)
	reject(domain.Change{Remove: []string{"none"}}, domain.ErrNoPolicy, "none")
	reject(domain.Change{Put: texts{"twice": permitAll("a")}}, domain.ErrInvalid, "twice")
	reject(domain.Change{Put: texts{"a": set("a", "b")}}, domain.ErrInvalid, "root:1:")
	reject(domain.Change{Expect: first.Token, Put: texts{"a": permitAll("a")}}, authz.ErrPrecondition, "token")
	reject(domain.Change{Put: texts{"x/y": permitAll("x")}}, domain.ErrName, `"x/y"`)
	reject(domain.Change{Put: texts{"": permitAll("x")}}, domain.ErrName, "empty")
	reject(domain.Change{Put: texts{strings.Repeat("x", domain.NameBytesMax+1): permitAll("x")}}, authz.ErrBound, "NameBytesMax")
	reject(domain.Change{Put: texts{"x": {Language: "prolog", Text: []byte("x")}}}, domain.ErrInvalid, "prolog")
	// The root cannot reach this policy, so what it refers to may be missing.
	change(t, d, domain.Change{Put: texts{"later": set("later", "not there yet"), strings.Repeat("x", domain.NameBytesMax): permitAll("x")}})
	want(policy.Denied)
	change(t, d, domain.Change{Expect: must(d.Info(ctx))(t).Token, Put: texts{"a": permitAll("a")}})
	want(policy.Permitted)
	change(t, d, domain.Change{Clear: true})
	want(policy.NotApplicable)
	if empty := change(t, d, domain.Change{Clear: true}); empty.Revision != must(d.Info(ctx))(t).Revision || empty.Removed != 0 {
		t.Error("clearing an empty domain made a revision")
	}
}

// TestBounds checks the bounds of a domain at their value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	one := permitAll("p0")
	r, _ := newRegistry(t, domain.Options{PoliciesMax: 3, BytesMax: 3 * len(one.Text)})
	d := defaultDomain(t, r)
	for i := range 3 {
		change(t, d, domain.Change{Put: texts{fmt.Sprint(i): permitAll(fmt.Sprint("p", i))}})
	}
	for _, c := range []struct {
		change domain.Change
		bound  string
	}{
		{domain.Change{Put: texts{"3": permitAll("p3")}}, "PoliciesMax"},
		{domain.Change{Put: texts{"2": permitAll("p22")}}, "BytesMax"},
		{domain.Change{Root: &one}, "BytesMax"},
	} {
		var bound *authz.BoundError
		if _, err := d.Change(ctx, c.change); !errors.As(err, &bound) || bound.Name != c.bound {
			t.Errorf("%v, want the bound %s", err, c.bound)
		}
	}
	change(t, d, domain.Change{Remove: []string{"0"}})
	change(t, d, domain.Change{Put: texts{"3": permitAll("p3")}})
}

// TestHistory checks versions, past decisions, and that a domain which is opened
// again is the same.
func TestHistory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	driver := memory.New()
	r, e := registryOn(t, ostiary.Options{Driver: driver, Bounds: authz.Bounds{FutureWait: time.Millisecond}}, domain.Options{})
	d := defaultDomain(t, r)
	root := set("root", "a")
	type step struct {
		change domain.Change
		want   policy.Decision
	}
	steps := []step{
		{domain.Change{Put: texts{"a": permitAll("a"), "b": permitAll("b")}}, policy.NotApplicable},
		{domain.Change{Root: &root}, policy.Permitted},
		{domain.Change{Put: texts{"a": denyAll("a")}}, policy.Denied},
		{domain.Change{Clear: true}, policy.NotApplicable},
		{domain.Change{Clear: true, Root: &root, Put: texts{"a": permitAll("a")}}, policy.Permitted},
		{domain.Change{Put: texts{"b": denyAll("b")}}, policy.Permitted},
	}
	var at []domain.Changed
	for _, s := range steps {
		at = append(at, change(t, d, s.change))
	}
	check := func(d *domain.Domain) {
		t.Helper()
		for i, s := range steps {
			p := must(d.Pin(ctx, domain.PinOptions{Revision: at[i].Revision}))(t)
			if got := must(p.Decide(ctx, request(), nil))(t); got[0].Decision != s.want || p.Revision() != at[i].Revision || p.Token() != at[i].Token {
				t.Errorf("step %d: decision %d at %d, want %d at %d", i, got[0].Decision, p.Revision(), s.want, at[i].Revision)
			}
		}
		if got := decide(t, d); got.Decision != policy.Permitted {
			t.Errorf("decision %d after opening again", got.Decision)
		}
	}
	check(d)
	versions := must(d.Versions(ctx, "a", 0))(t)
	var got []string
	for _, v := range versions {
		got = append(got, fmt.Sprint(v.Revision, v.Removed, string(v.Source.Text) == string(permitAll("a").Text)))
	}
	want := []string{fmt.Sprint(at[4].Revision, false, true), fmt.Sprint(at[3].Revision, true, false), fmt.Sprint(at[2].Revision, false, false), fmt.Sprint(at[0].Revision, false, true)}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("versions %v, want %v", got, want)
	}
	if few := must(d.Versions(ctx, "a", 1))(t); len(few) != 1 || few[0].Revision != at[4].Revision {
		t.Errorf("the newest version is %v", few)
	}
	if v := must(d.Version(ctx, "a", at[1].Revision))(t); v.Revision != at[0].Revision {
		t.Errorf("version %d at revision %d", v.Revision, at[1].Revision)
	}
	if _, err := d.Version(ctx, "a", at[3].Revision); !errors.Is(err, domain.ErrNoPolicy) {
		t.Error(err)
	}
	if _, err := d.Versions(ctx, "none", 0); !errors.Is(err, domain.ErrNoPolicy) {
		t.Error(err)
	}
	if _, err := d.Pin(ctx, domain.PinOptions{Revision: at[5].Revision + 1}); !errors.Is(err, authz.ErrFuture) {
		t.Errorf("a revision of the future: %v", err)
	}
	e.Close()
	r, _ = registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
	again := defaultDomain(t, r)
	check(again)
	info := must(again.Info(ctx))(t)
	if info.Policies != 2 || info.Token != at[5].Token || info.Root.ID != "root" || info.Bytes != len(root.Text)+len(permitAll("a").Text)+len(denyAll("b").Text) {
		t.Errorf("%+v", info)
	}
	if p, src, err := again.Policy(ctx, "a"); err != nil || p.Revision != at[4].Revision || string(src.Text) != string(permitAll("a").Text) {
		t.Error(p, err)
	}
}

// TestTwoProcesses checks that two engines on one driver see each other's changes,
// and that of two changes on the same revision both take effect.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	driver := memory.New()
	var domains [2]*domain.Domain
	for i := range domains {
		r, _ := registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
		domains[i] = defaultDomain(t, r)
	}
	root := set("root", "a")
	change(t, domains[0], domain.Change{Root: &root, Put: texts{"a": permitAll("a")}})
	var wg sync.WaitGroup
	for i, d := range domains {
		wg.Go(func() {
			for n := range 20 {
				name := fmt.Sprint(i, "-", n)
				if _, err := d.Change(ctx, domain.Change{Put: texts{name: permitAll(name)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	change(t, domains[1], domain.Change{Put: texts{"a": denyAll("a")}})
	for i, d := range domains {
		if _, err := d.Store().Resolve(ctx, authz.FullyConsistent()); err != nil {
			t.Fatal(err)
		}
		if info := must(d.Info(ctx))(t); info.Policies != 41 {
			t.Errorf("process %d has %d policies", i, info.Policies)
		}
		if got := decide(t, d); got.Decision != policy.Denied {
			t.Errorf("process %d decides %d", i, got.Decision)
		}
	}
}
