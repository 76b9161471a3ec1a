package policies

import (
	"fmt"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// request returns a request. Some ask for several decisions, or for one that
// combines them.
func (g *generator) request() *policy.Request {
	r := &policy.Request{ReturnPolicyIDs: g.one(2), Combined: g.one(12)}
	for _, name := range categories {
		if g.one(8) {
			continue
		}
		r.Categories = append(r.Categories, g.named(name, len(r.Categories)))
		for g.one(40) {
			r.Categories = append(r.Categories, g.named(name, len(r.Categories)))
		}
	}
	if len(r.Categories) == 0 {
		r.Categories = append(r.Categories, g.named(policy.CategorySubject, 0))
	}
	if g.one(12) {
		for range 1 + g.IntN(3) {
			r.References = append(r.References, g.ids(len(r.Categories)))
		}
	}
	return r
}

// ids returns ids of distinct categories of a request, of which one may be
// unknown.
func (g *generator) ids(count int) (out []string) {
	for _, i := range g.Perm(count)[:1+g.IntN(count)] {
		out = append(out, fmt.Sprintf("c%d", i))
	}
	if g.one(10) {
		out = append(out, "c-unknown")
	}
	return out
}

// named returns a category with attributes.
func (g *generator) named(name string, number int) policy.Category {
	c := policy.Category{ID: fmt.Sprintf("c%d", number), Name: name, Attributes: g.attributes(), Content: g.content()}
	if c.Content != nil && !g.one(6) {
		c.Attributes = append(c.Attributes, g.node(name))
	}
	if name == policy.CategoryEnvironment && g.one(4) {
		clock := policy.Attribute{ID: policy.AttributeCurrentTime, Values: []value.Value{g.literal(value.Time)}}
		if g.one(2) {
			clock.Issuer = "us"
		}
		c.Attributes = append(c.Attributes, clock)
	}
	return c
}

// attributes returns attributes, some of them with several values and types, and
// some of them repeated.
func (g *generator) attributes() (out []policy.Attribute) {
	for _, id := range attributes {
		for range 1 + g.IntN(2) - g.IntN(2) {
			a := policy.Attribute{ID: id, IncludeInResult: g.one(8)}
			if g.one(6) {
				a.Issuer = g.pick("us", "them")
			}
			for range 1 + g.IntN(2)*g.IntN(3) {
				a.Values = append(a.Values, g.literal(g.typeFor(id)))
			}
			out = append(out, a)
		}
	}
	return out
}
