package domain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// shaky is a domain over a driver whose operations fail. The domain has four
// revisions: its settings, two policies and a root, another text of the policy a,
// and the removal of the policy b, which another engine writes.
type shaky struct {
	driver *failing.Driver
	// domain was loaded before the last revision.
	domain *domain.Domain
	// engine and registry were opened afterwards, so that they have nothing in memory.
	engine    *ostiary.Engine
	registry  *domain.Registry
	relations storage.StoreID // the relation store of the domain
	plain     storage.StoreID // a relation store with a domain of its own
}

func newShaky(t *testing.T, driver *failing.Driver) *shaky {
	t.Helper()
	ctx := context.Background()
	x := &shaky{driver: driver, relations: storage.StoreID{15: 7}, plain: storage.StoreID{15: 8}}
	r, e := registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
	s := must(e.CreateStore(ctx, ostiary.CreateStoreRequest{ID: x.relations, Name: "relations"}))(t)
	must(e.CreateStore(ctx, ostiary.CreateStoreRequest{ID: x.plain, Name: "plain"}))(t)
	if _, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: relationModel()}); err != nil {
		t.Fatal(err)
	}
	write(t, s, "document:1#viewer@group:eng#member", "group:eng#member@user:bob", "document:2#viewer@user:bob")
	must(s.Write(ctx, authz.WriteRequest{SetAttributes: []rel.Attribute{
		{Object: rel.Object{Type: "document", ID: "1"}, Name: "level", Value: "3"},
		{Object: rel.Object{Type: "user", ID: "bob"}, Name: "clearance", Value: "3"}}}))(t)
	must(r.FindOrMake(ctx, x.plain.String()))(t)
	d := must(r.Make(ctx, "policies", "staging", s))(t)
	root := set("root", "a")
	change(t, d, domain.Change{Root: &root, Put: texts{"a": effect("a", "Permit", stored()), "b": permitAll("b")}})
	change(t, d, domain.Change{Put: texts{"a": effect("a", "Permit", related("viewer"))}})
	r, _ = registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
	x.domain = must(r.Find(ctx, "staging"))(t)
	must(x.domain.Info(ctx))(t)
	change(t, d, domain.Change{Remove: []string{"b"}, Put: texts{"c": permitAll("c")}})
	must(x.domain.Store().Resolve(ctx, authz.FullyConsistent()))(t)
	x.registry, x.engine = registryOn(t, ostiary.Options{Driver: driver}, domain.Options{})
	return x
}

// state returns the stores with the names of their documents, which a new engine
// reads.
func (x *shaky) state() (string, error) {
	ctx := context.Background()
	e, err := ostiary.Open(ctx, ostiary.Options{Driver: x.driver})
	if err != nil {
		return "", err
	}
	defer e.Close()
	var lines []string
	for info, err := range e.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return "", err
		}
		s, err := e.Store(ctx, info.ID)
		if err != nil {
			return "", err
		}
		page, err := s.Changes(ctx, authz.ChangesRequest{})
		if err != nil {
			return "", err
		}
		line := fmt.Sprint(info.Name, info.Aliases)
		for _, entry := range page.Entries {
			for _, c := range entry.Changes {
				line += fmt.Sprintf(" %d:%v:%s%s", entry.Revision, c.Kind, c.Document.Kind, c.Filter.DocumentKind)
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines) // the ids of new stores are random
	return strings.Join(lines, "\n"), nil
}

// decided returns a decision as text, and the status of an undecided one as an error.
func decided(results []policy.Result, err error) (string, error) {
	if err == nil && results[0].Decision >= policy.Indeterminate {
		err = results[0].Status
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprint(results[0].Decision == policy.Permitted), nil
}

// TestStorageFails makes each operation of the driver fail in turn, in every call of
// a registry and of a domain. See failing.Each for what must hold.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	described := func(d *domain.Domain, err error) (string, error) {
		if err != nil {
			return "", err
		}
		return fmt.Sprint(d.Store().Info().Name, " with relations: ", d.Relations() != nil), nil
	}
	staging := func(call func(d *domain.Domain) (string, error)) func(x *shaky) (string, error) {
		return func(x *shaky) (string, error) { return call(x.domain) }
	}
	pinned := func(o domain.PinOptions, call func(p *domain.Pinned) (string, error)) func(x *shaky) (string, error) {
		return staging(func(d *domain.Domain) (string, error) {
			p, err := d.Pin(ctx, o)
			if err != nil {
				return "", err
			}
			return call(p)
		})
	}
	changes := func(c domain.Change) func(x *shaky) (string, error) {
		return staging(func(d *domain.Domain) (string, error) {
			done, err := d.Change(ctx, c)
			return fmt.Sprint(done.Revision, done.Created, done.Removed), err
		})
	}
	root := set("root", "a", "c")
	// Whether a store that is no domain can become one is only remembered, so it may
	// be unknown. A past view is complete before its state is closed.
	loads := []failing.Operation{failing.Store, failing.Load, failing.TuplesNext, failing.AttributesNext, failing.DocumentsNext, failing.CloseState}
	optional := map[string][]failing.Operation{"of a store of relations": loads, "make": loads, "find or make": loads, "find own": loads, "decide in the past": {failing.CloseState}}
	for name, call := range map[string]func(x *shaky) (string, error){
		"of": func(x *shaky) (string, error) {
			s, err := x.engine.StoreByAlias(ctx, domain.Alias, "staging")
			if err != nil {
				return "", err
			}
			return described(x.registry.Of(ctx, s))
		},
		"of a store of relations": func(x *shaky) (string, error) {
			s, err := x.engine.Store(ctx, x.relations)
			if err != nil {
				return "", err
			}
			if _, err = x.registry.Of(ctx, s); errors.Is(err, domain.ErrNoDomain) {
				return "no domain", nil
			}
			return "", err
		},
		"find":         func(x *shaky) (string, error) { return described(x.registry.Find(ctx, "staging")) },
		"find or make": func(x *shaky) (string, error) { return described(x.registry.FindOrMake(ctx, x.relations.String())) },
		"find own":     func(x *shaky) (string, error) { return described(x.registry.Find(ctx, x.plain.String())) },
		"default":      func(x *shaky) (string, error) { return described(x.registry.Default(ctx, nil)) },
		"default again": func(x *shaky) (string, error) {
			if _, err := x.registry.Default(ctx, nil); err != nil {
				return "", err
			}
			return described(x.registry.Default(ctx, nil))
		},
		"make": func(x *shaky) (string, error) {
			s, err := x.engine.Store(ctx, x.relations)
			if err != nil {
				return "", err
			}
			return described(x.registry.Make(ctx, "more", "more", s))
		},
		"put":            changes(domain.Change{Put: texts{"a": denyAll("a"), "c": denyAll("c")}, Root: &root}),
		"put the same":   changes(domain.Change{Put: texts{"a": effect("a", "Permit", related("viewer"))}}),
		"remove":         changes(domain.Change{Remove: []string{"c"}, Put: texts{"d": denyAll("d")}}),
		"clear":          changes(domain.Change{Clear: true}),
		"clear and root": changes(domain.Change{Clear: true, Root: &root, Put: texts{"a": denyAll("a"), "c": denyAll("c")}}),
		"preview": staging(func(d *domain.Domain) (string, error) {
			p, err := d.Preview(ctx, domain.Change{Put: texts{"a": permitAll("a")}})
			if err != nil {
				return "", err
			}
			return decided(p.Decide(ctx, request("user:eve", "document:1"), nil))
		}),
		"info": staging(func(d *domain.Domain) (string, error) {
			info, err := d.Info(ctx)
			return fmt.Sprint(info.Name, info.Alias, info.Revision, info.Policies, info.Bytes, info.Root != nil, info.Unbound, info.Broken), err
		}),
		"policy": staging(func(d *domain.Domain) (string, error) {
			p, source, err := d.Policy(ctx, "a")
			return fmt.Sprint(p.ID, p.Revision, string(source.Text)), err
		}),
		"versions": staging(func(d *domain.Domain) (string, error) {
			versions, err := d.Versions(ctx, "b", 0)
			text := ""
			for _, v := range versions {
				text += fmt.Sprint(v.Revision, v.Removed, " ")
			}
			return text, err
		}),
		"version": staging(func(d *domain.Domain) (string, error) {
			v, err := d.Version(ctx, "a", 4)
			return fmt.Sprint(v.Revision, string(v.Source.Text)), err
		}),
		"decide": staging(func(d *domain.Domain) (string, error) {
			return decided(d.Decide(ctx, request("user:bob", "document:1")))
		}),
		"decide at the head": pinned(domain.PinOptions{Relations: authz.FullyConsistent()}, func(p *domain.Pinned) (string, error) {
			return decided(p.Decide(ctx, request("user:bob", "document:1"), nil))
		}),
		"decide in the past": pinned(domain.PinOptions{Revision: 2}, func(p *domain.Pinned) (string, error) {
			return decided(p.Decide(ctx, request("user:bob", "document:1"), nil))
		}),
		"token of the relations": pinned(domain.PinOptions{}, func(p *domain.Pinned) (string, error) {
			if _, err := decided(p.Decide(ctx, request("user:bob", "document:1"), nil)); err != nil {
				return "", err
			}
			token, err := p.RelationsToken(ctx)
			return fmt.Sprint(token != ""), err
		}),
		"narrow": pinned(domain.PinOptions{}, func(p *domain.Pinned) (string, error) {
			decide, err := p.Narrow(ctx, request("user:bob"), policy.CategoryResource)
			if err != nil {
				return "", err
			}
			result, err := decide(ctx, []policy.Attribute{{ID: policy.AttributeResourceID, Values: []value.Value{value.NewString("document:1")}}})
			return decided([]policy.Result{result}, err)
		}),
		"search": staging(func(d *domain.Domain) (string, error) {
			q := domain.SearchRequest{Category: policy.CategoryResource, Type: "document", Known: request("user:bob"), Limit: 1}
			text := ""
			for {
				page, err := d.Search(ctx, &q)
				if err == nil && page.Undecided > 0 {
					err = page.Status
				}
				if err != nil {
					return "", err
				}
				for _, c := range page.Permitted {
					text += c.Name + " "
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					return text, nil
				}
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing.Each(t, func(t *testing.T, driver *failing.Driver) failing.Scenario {
				x := newShaky(t, driver)
				// To make a domain takes two changes of the storage: its store, and its settings.
				return failing.Scenario{Call: func() (string, error) { return call(x) }, State: x.state, InSteps: true, Optional: optional[name]}
			})
		})
	}
}
