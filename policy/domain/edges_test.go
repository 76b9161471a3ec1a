package domain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/domain"
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
		must(d.Store().Resolve(ctx, ostiary.FullyConsistent()))(t)
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
	must(used.Write(ctx, ostiary.WriteRequest{Documents: []ostiary.Document{{Kind: "note", Key: "n", Body: []byte("text")}}}))(t)
	for range 2 {
		if _, err := r.FindOrMake(ctx, relations.ID().String()); !errors.Is(err, domain.ErrNoDomain) {
			t.Errorf("a store with data: %v", err)
		}
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
	if !errors.Is(err, ostiary.ErrCanceled) || !errors.Is(err, context.Canceled) {
		t.Errorf("the context ends: %v", err)
	}
	ctx = context.Background()
	for _, o := range []rel.Object{{Type: "user", ID: "bob"}, {Type: "document", ID: "3"}} {
		name := map[string]string{"user": "clearance", "document": "level"}[o.Type]
		must(s.Write(ctx, ostiary.WriteRequest{SetAttributes: []rel.Attribute{{Object: o, Name: name, Value: "1"}}}))(t)
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
	if e, err := permitAll("a").Parse("name"); err != nil || fmt.Sprintf("%T", e) != "*policy.Policy" {
		t.Errorf("%T, %v", e, err)
	}
	var invalid *domain.InvalidError
	for _, language := range []domain.Language{domain.XML, domain.JSON, domain.Text} {
		if _, err := (domain.Source{Language: language, Text: []byte("?")}).Parse("name"); !errors.As(err, &invalid) || invalid.Name != "name" || !strings.Contains(err.Error(), "name:1:1") {
			t.Errorf("%s: %v", language, err)
		}
	}
}
