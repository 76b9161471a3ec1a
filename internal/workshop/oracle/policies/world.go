package policies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// World is everything that decisions depend on, with requests that ask for them.
type World struct {
	Policies
	Requests []*policy.Request // requests with at least one category
	// Changes are replacements, made one after another: each is a policy of the
	// tree or the library, and another one with the same id and version.
	Changes []Change
	// Unknown is the category without which plans are narrowed.
	Unknown string

	plan    *policy.Plan // the compiled policies, once they were asked for
	problem string       // why they are rejected
}

// Change replaces a policy.
type Change struct {
	Old, New *policy.Policy
}

// instant is the time of all requests.
var instant = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// zones are the time zones of worlds. In the last one it is the next day at
// [instant].
var zones = [...]*time.Location{time.UTC, time.FixedZone("east", 3600), time.FixedZone("west", -8*3600), time.FixedZone("far", 14*3600)}

// requestsPerWorld is the number of requests of a random world.
const requestsPerWorld = 4

// Random returns the world of a seed.
func Random(seed uint64) *World {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 15))}
	g.wide = g.IntN(12) == 0
	g.errors = g.IntN(3) == 0
	w := &World{Unknown: g.pick(categories...)}
	w.Root, w.Now, w.Zone = g.set(2, g.wide), instant, zones[g.IntN(len(zones))]
	w.Library = g.library
	if g.IntN(3) == 0 {
		w.Source = someAttributes{}
	}
	for range requestsPerWorld {
		w.Requests = append(w.Requests, g.request())
	}
	for range g.IntN(3) {
		if all := w.ofPolicies(); len(all) > 0 {
			w.Changes = append(w.Changes, g.change(all[g.IntN(len(all))]))
		}
	}
	return w
}

// change returns a replacement of a policy.
func (g *generator) change(old *policy.Policy) Change {
	changed := g.policy(false)
	changed.ID, changed.Version = old.ID, old.Version
	return Change{old, changed}
}

// ofPolicies returns all policies of the tree and the library.
func (w *World) ofPolicies() (out []*policy.Policy) {
	var visit func(e policy.Element)
	visit = func(e policy.Element) {
		switch e := e.(type) {
		case *policy.Policy:
			out = append(out, e)
		case *policy.PolicySet:
			for _, child := range e.Children {
				visit(child)
			}
		}
	}
	visit(w.Root)
	for _, e := range w.Library {
		visit(e)
	}
	return out
}

// after returns the policies after a change. It shares what did not change.
func (p *Policies) after(c Change) *Policies {
	out := *p
	out.Root = replaced(p.Root, c)
	out.Library = nil
	for _, e := range p.Library {
		out.Library = append(out.Library, replaced(e, c))
	}
	return &out
}

// replaced returns an element after a change: the same pointer if nothing in it
// changed.
func replaced(e policy.Element, c Change) policy.Element {
	if e == policy.Element(c.Old) {
		return c.New
	}
	s, ok := e.(*policy.PolicySet)
	if !ok {
		return e
	}
	changed := *s
	changed.Children = nil
	differs := false
	for _, child := range s.Children {
		now := replaced(child, c)
		changed.Children = append(changed.Children, now)
		differs = differs || now != child
	}
	if !differs {
		return s
	}
	return &changed
}

// someAttributes is a source that has the attribute b in two types and fails for
// c of the environment.
type someAttributes struct{}

// Attribute implements [Source].
func (someAttributes) Attribute(_ context.Context, d *policy.Designator, _ *policy.Request) ([]value.Value, error) {
	switch {
	case d.ID == "b" && d.Type == value.String:
		return []value.Value{value.NewString("u"), value.NewString("w")}, nil
	case d.ID == "b" && d.Type == value.Integer:
		return []value.Value{value.NewInteger(2)}, nil
	case d.ID == "c" && d.Category == policy.CategoryEnvironment:
		return nil, errors.New("the source of c is closed")
	}
	return nil, nil
}

// generator makes random policies and requests.
type generator struct {
	*rand.Rand
	count     int // policies and sets so far, for unique ids
	library   []policy.Element
	wide      bool // sets have many members with equality targets
	errors    bool // errors are frequent
	variables []variable
}

// pick returns one of some texts.
func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// one reports true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// effect returns a random effect.
func (g *generator) effect() policy.Effect {
	return []policy.Effect{policy.Permit, policy.Deny}[g.IntN(2)]
}

// id returns a new id for a policy or a set.
func (g *generator) id(prefix string) string {
	g.count++
	return fmt.Sprintf("%s%d", prefix, g.count)
}
