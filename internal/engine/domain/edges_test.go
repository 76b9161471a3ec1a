package domain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestFollow compares what a domain knows after each change of another process with
// what it knows if it is opened then.
func TestFollow(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	driver := memory.New()
	writers, _ := registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
	writer := defaultDomain(t, writers)
	readers, _ := registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
	reader := defaultDomain(t, readers)
	known := func(d *domain.Domain) string {
		must(d.Store().Resolve(ctx, authz.FullyConsistent()))(t)
		text := describe(must(d.Info(ctx))(t)) + " " + outcome(decide(t, d))
		for p := range must(d.Pin(ctx, domain.PinOptions{}))(t).Policies("") {
			text += " " + policyText(p)
		}
		return text
	}
	root, other := set("root", "a"), denyAll("root")
	for i, c := range []domain.Change{
		{Put: texts{"a": permitAll("a"), "b": permitAll("b")}, Root: &root},
		{Put: texts{"b": denyAll("b")}},
		{Put: texts{"a": denyAll("a")}, Remove: []string{"b"}},
		{Root: &other},
		{Remove: []string{"a"}},
		{Put: texts{"c": permitAll("c")}},
		{Clear: true},
		{Put: texts{"a": permitAll("a")}},
		{Root: &root},
		{Clear: true, Put: texts{"b": permitAll("b")}},
		{Clear: true, Root: &other},
	} {
		done := change(t, writer, c)
		if err := writer.Validate(ctx, domain.Change{}); err != nil {
			t.Error(err)
		}
		fresh, _ := registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
		got, want := known(reader), known(defaultDomain(t, fresh))
		if got != want || known(writer) != want || must(reader.Info(ctx))(t).Token != done.Token {
			t.Errorf("change %d: the reader knows\n%s\nthe writer\n%s\nexpected\n%s", i, got, known(writer), want)
		}
	}
}

// TestStoreBecomesDomain checks that an empty store with the alias of a domain
// becomes one, and that a store with other data does not.
func TestStoreBecomesDomain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{})
	named := func(alias string) *ostiary.Store {
		return must(e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: alias, Aliases: map[string]string{domain.Alias: alias}}))(t)
	}
	s := named(domain.DefaultAlias)
	if _, err := r.Find(ctx, domain.DefaultAlias); !errors.Is(err, domain.ErrNoDomain) {
		t.Errorf("an empty store: %v", err)
	}
	if d := defaultDomain(t, r); d.Store() != s {
		t.Error("the default domain has another store")
	}
	relations := newRelations(t, e)
	used := named("relations-" + relations.ID().String())
	must(used.Write(ctx, authz.WriteRequest{Documents: []authz.Document{{Kind: "note", Key: "n", Body: []byte("text")}}}))(t)
	for range 2 {
		if _, err := r.FindOrMake(ctx, relations.ID().String()); !errors.Is(err, domain.ErrNoDomain) {
			t.Errorf("a store with data: %v", err)
		}
	}
	// A call that ended before it had written the settings is repeated.
	half := named("half")
	if _, err := r.Make(ctx, "other", "half", nil); !errors.Is(err, authz.ErrStoreExists) {
		t.Errorf("an empty store with another name: %v", err)
	}
	if d := must(r.Make(ctx, "half", "half", nil))(t); d.Store() != half {
		t.Error("the domain has another store than the one that was created for it")
	}
	if _, err := r.Make(ctx, "half", "half", nil); !errors.Is(err, authz.ErrStoreExists) {
		t.Errorf("an alias of a domain: %v", err)
	}
	if _, err := r.Make(ctx, "x", "a/b", nil); !errors.Is(err, domain.ErrName) {
		t.Errorf("a malformed alias: %v", err)
	}
}

// TestSearchEnds checks that a search ends with its context, and that it counts only
// objects of its type.
func TestSearchEnds(t *testing.T) {
	t.Parallel()
	r, e := newRegistry(t, domain.Options{})
	s := newRelations(t, e, "document:1#viewer@user:anne", "document:2#viewer@group:eng#member")
	d := must(r.FindOrMake(context.Background(), s.ID().String()))(t)
	root := permitAll("root")
	change(t, d, domain.Change{Root: &root})
	ctx, cancel := context.WithCancel(context.Background())
	_, err := d.Search(ctx, &domain.SearchRequest{Known: request("user:anne"), Category: policy.CategoryResource, Candidates: []string{"a", "b", "c"},
		Attributes: func(name string) []policy.Attribute {
			cancel()
			return domain.CandidateAttributes(policy.CategoryResource, name)
		}})
	if !errors.Is(err, authz.ErrCanceled) || !errors.Is(err, context.Canceled) {
		t.Errorf("the context ends: %v", err)
	}
	ctx = context.Background()
	for _, o := range []rel.Object{{Type: "user", ID: "bob"}, {Type: "document", ID: "3"}} {
		name := map[string]string{"user": "clearance", "document": "level"}[o.Type]
		must(s.Write(ctx, authz.WriteRequest{SetAttributes: []rel.Attribute{{Object: o, Name: name, Value: "1"}}}))(t)
	}
	p := must(d.Pin(ctx, domain.PinOptions{}))(t)
	for typ, want := range map[string]string{"user": "user:anne user:bob", "document": "document:1 document:2 document:3", "group": "group:eng", "planet": ""} {
		for range 2 {
			if got := strings.Join(must(p.Objects(ctx, typ))(t), " "); got != want {
				t.Errorf("objects of type %s: %q, want %q", typ, got, want)
			}
		}
	}
}

// TestClock checks that policies see the clock and the zone of the options.
func TestClock(t *testing.T) {
	t.Parallel()
	r, _ := newRegistry(t, domain.Options{Clock: func() time.Time { return time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC) }, Zone: time.FixedZone("", 3600)})
	d := defaultDomain(t, r)
	root := showing(designator("urn:oasis:names:tc:xacml:3.0:attribute-category:environment", "urn:oasis:names:tc:xacml:1.0:environment:current-date", "http://www.w3.org/2001/XMLSchema#date"))
	change(t, d, domain.Change{Root: &root})
	if got := outcome(decide(t, d)); got != `Permit v="2026-01-03+01:00"` {
		t.Error(got)
	}
}

// TestParse checks the languages of a text and the error of a malformed one.
func TestParse(t *testing.T) {
	t.Parallel()
	if e, err := permitAll("a").Parse(t.Context(), "name"); err != nil || fmt.Sprintf("%T", e) != "*policy.Policy" {
		t.Errorf("%T, %v", e, err)
	}
	var invalid *domain.InvalidError
	for _, language := range []domain.Language{domain.XML, domain.JSON, domain.Text} {
		if _, err := (domain.Source{Language: language, Text: []byte("?")}).Parse(t.Context(), "name"); !errors.As(err, &invalid) || invalid.Name != "name" || !strings.Contains(err.Error(), "name:1:1") {
			t.Errorf("%s: %v", language, err)
		}
	}
}

// TestChangeEnds makes changes whose context ends while a text of 2,000 rules is parsed
// or checked. They end with the error of the context, which is no reason to reject the
// policy, and change nothing.
func TestChangeEnds(t *testing.T) {
	t.Parallel()
	r, _ := newRegistry(t, domain.Options{})
	d := defaultDomain(t, r)
	before := must(d.Info(t.Context()))(t).Token
	var text strings.Builder
	text.WriteString("policy p { apply denyUnlessPermit ")
	for i := range 2000 {
		fmt.Fprintf(&text, "rule r%d { permit condition 1 + 1 == 2 } ", i)
	}
	long := domain.Source{Language: domain.Text, Text: []byte(text.String() + "}")}
	all := &looks{Context: t.Context(), most: 1 << 30}
	if _, err := long.Parse(all, "long"); err != nil {
		t.Fatal(err)
	}
	c := domain.Change{Put: map[string]domain.Source{"long": long}, Root: &long}
	for name, call := range map[string]func(context.Context) error{
		"Parse":    func(ctx context.Context) error { _, err := long.Parse(ctx, "long"); return err },
		"Change":   func(ctx context.Context) error { _, err := d.Change(ctx, c); return err },
		"Validate": func(ctx context.Context) error { return d.Validate(ctx, c) },
	} {
		for _, most := range []int{1, all.taken - 1, all.taken + 1} { // the last while it is checked
			if name == "Parse" && most >= all.taken {
				continue
			}
			err := call(&looks{Context: t.Context(), most: most})
			if !errors.Is(err, authz.ErrCanceled) || !errors.Is(err, context.Canceled) || errors.Is(err, domain.ErrInvalid) {
				t.Errorf("%s after %d looks of %d: %v", name, most, all.taken, err)
			}
		}
	}
	if after := must(d.Info(t.Context()))(t).Token; after != before {
		t.Errorf("the domain has changed from %s to %s", before, after)
	}
}

// looks is a context that ends when it has been looked at so many times.
type looks struct {
	context.Context
	most, taken int
}

func (l *looks) Err() error {
	if l.taken++; l.taken > l.most {
		return context.Canceled
	}
	return nil
}
