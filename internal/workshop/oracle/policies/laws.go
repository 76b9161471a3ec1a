package policies

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
)

// Law is a statement that is true in every world.
type Law struct {
	Name string // what is true
	// Holds returns how the world breaks the law, or "" if it keeps it.
	Holds func(w *World, c *Coverage) string
}

// Laws returns all laws.
func Laws() []Law {
	return []Law{
		{"a plan decides like the naive evaluator", decidesNaively},
		{"a plan with a previous one decides like the naive evaluator", changes},
		{"a narrowed plan decides like the naive evaluator", narrows},
	}
}

// options returns the options of decisions in a world.
func (w *World) options() policy.Options {
	o := policy.Options{Now: func() time.Time { return w.Now }, Zone: w.Zone}
	if w.Source != nil {
		o.Attributes = w.Source
	}
	return o
}

// compile returns the plan of policies, and why it is invalid.
func compile(p *Policies, previous *policy.Plan) (*policy.Plan, string) {
	plan, err := policy.Compile(context.Background(), p.Root, p.Library, policy.CompileOptions{Previous: previous})
	if err != nil {
		return nil, fmt.Sprintf("the policies are rejected: %v", err)
	}
	return plan, ""
}

// compiled returns the plan of the world's policies, which is compiled once, and why
// it is invalid.
func (w *World) compiled() (*policy.Plan, string) {
	if w.plan == nil && w.problem == "" {
		w.plan, w.problem = compile(&w.Policies, nil)
	}
	return w.plan, w.problem
}

// decidesNaively compares all requests.
func decidesNaively(w *World, c *Coverage) string {
	plan, problem := w.compiled()
	if plan == nil {
		return problem
	}
	return w.compare(plan, &w.Policies, c)
}

// compare compares the decisions of a plan with those of policies.
func (w *World) compare(plan *policy.Plan, p *Policies, c *Coverage) string {
	for i, r := range w.Requests {
		want := Decide(p, r)
		c.add(want)
		got := plan.Decide(context.Background(), r, w.options())
		if problem := difference(got, want); problem != "" {
			return fmt.Sprintf("request %d: %s", i, problem)
		}
	}
	return ""
}

// changes compares all requests after each change, with a plan that uses the one
// before the change.
func changes(w *World, c *Coverage) string {
	if len(w.Changes) == 0 {
		return ""
	}
	plan, problem := w.compiled()
	now := &w.Policies
	for _, change := range w.Changes {
		if plan == nil {
			return problem
		}
		now = now.after(change)
		if plan, problem = compile(now, plan); plan == nil {
			return problem
		}
		if problem := w.compare(plan, now, c); problem != "" {
			return "after a change: " + problem
		}
	}
	return ""
}

// narrows compares all requests for one decision with a plan that was narrowed
// without one of their categories.
func narrows(w *World, c *Coverage) string {
	plan, problem := w.compiled()
	if plan == nil {
		return problem
	}
	for i, r := range w.Requests {
		known, attributes, ok := without(r, w.Unknown)
		if !ok {
			continue
		}
		narrowed, err := plan.Narrow(context.Background(), known, w.Unknown, w.options())
		if err != nil {
			return fmt.Sprintf("request %d cannot be narrowed: %v", i, err)
		}
		for _, a := range [][]policy.Attribute{attributes, nil} {
			full := *known
			full.Categories = append(slices.Clip(full.Categories), policy.Category{Name: w.Unknown, Attributes: a})
			want := Decide(&w.Policies, &full)
			c.Narrowed++
			got := narrowed.Decide(context.Background(), a)
			if problem := difference([]policy.Result{got}, want); problem != "" {
				return fmt.Sprintf("request %d with %d attributes of %s: %s", i, len(a), w.Unknown, problem)
			}
		}
	}
	return ""
}

// without returns a request without a category, and the attributes of it. It
// returns false if the request asks for several decisions.
func without(r *policy.Request, unknown string) (*policy.Request, []policy.Attribute, bool) {
	known := &policy.Request{ReturnPolicyIDs: r.ReturnPolicyIDs}
	var attributes []policy.Attribute
	seen := map[string]bool{}
	for _, c := range r.Categories {
		if seen[c.Name] || len(r.References) > 0 || r.Combined {
			return nil, nil, false
		}
		seen[c.Name] = true
		if c.Name == unknown {
			attributes = c.Attributes
			continue
		}
		known.Categories = append(known.Categories, c)
	}
	return known, attributes, true
}

// difference returns how two lists of results differ, or "". Messages of a status
// do not matter.
func difference(got, want []policy.Result) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d results, expected %d", len(got), len(want))
	}
	for i := range want {
		a, b := plain(&got[i]), plain(&want[i])
		for part := range a {
			if a[part] != b[part] {
				return fmt.Sprintf("result %d has %s, expected %s", i, a[part], b[part])
			}
		}
	}
	return ""
}

// plain returns the parts of a result as texts.
func plain(r *policy.Result) []string {
	code, missing := status.OK, ""
	if r.Status != nil {
		code, missing = r.Status.Code, fmt.Sprint(r.Status.Missing)
	}
	return []string{
		"decision " + Names[r.Decision],
		"status " + string(code) + missing,
		"obligations" + duties(r.Obligations),
		"advice" + duties(r.Advice),
		fmt.Sprintf("policies %v", r.Policies),
		"attributes" + included(r.Categories),
	}
}

// duties returns duties as a text.
func duties(list []policy.Duty) (text string) {
	for _, d := range list {
		text += " " + d.ID + "("
		for _, a := range d.Arguments {
			text += fmt.Sprintf("%q %q %q %s %q;", a.ID, a.Category, a.Issuer, a.Value.Type(), a.Value.Text())
		}
		text += ")"
	}
	return text
}

// included returns repeated attributes as a text.
func included(list []policy.Category) (text string) {
	for _, c := range list {
		text += fmt.Sprintf(" %q %q(", c.ID, c.Name)
		for _, a := range c.Attributes {
			text += fmt.Sprintf("%q %q %t", a.ID, a.Issuer, a.IncludeInResult)
			for _, v := range a.Values {
				text += fmt.Sprintf(" %s %q", v.Type(), v.Text())
			}
		}
		text += ")"
	}
	return text
}
