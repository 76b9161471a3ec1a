package policy

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// nodeAttributes are the ends of the ids of attributes that ask for one decision for each
// of several nodes: those that an XPath expression selects in Content, or those below a
// resource of a hierarchy (multiple decision profile, sections 2.1 and 2.2). Their
// beginnings differ by the version of XACML.
var nodeAttributes = [...]string{":multiple:content-selector", ":resource:scope"}

// immediate is the scope that asks for the resource alone.
const immediate = "Immediate"

// asksForNodes returns an error if a request has an attribute that asks for several
// decisions in a way that is not supported. One decision for all of them would be another
// one than the request asks for.
func asksForNodes(r *Request) *status.Error {
	for i := range r.Categories {
		for j := range r.Categories[i].Attributes {
			a := &r.Categories[i].Attributes[j]
			if !strings.HasPrefix(a.ID, "urn:oasis:names:tc:xacml:") {
				continue
			}
			for _, end := range nodeAttributes {
				if strings.HasSuffix(a.ID, end) && (len(a.Values) != 1 || a.Values[0].Text() != immediate) {
					return status.Errorf(status.ProcessingError, "the attribute %s asks for several decisions and is not supported: expected repeated categories, or references to them (MultiRequests)", value.Quote(a.ID))
				}
			}
		}
	}
	return nil
}

// repeatedScan is the largest number of categories that are compared pairwise.
const repeatedScan = 8

// repeated reports whether a name comes twice.
func repeated(categories []Category) bool {
	if len(categories) > repeatedScan {
		return len(groups(pointers(categories))) < len(categories)
	}
	for i := range categories {
		for j := range i {
			if categories[i].Name == categories[j].Name {
				return true
			}
		}
	}
	return false
}

// pointers returns pointers to the categories.
func pointers(categories []Category) []*Category {
	out := make([]*Category, len(categories))
	for i := range categories {
		out[i] = &categories[i]
	}
	return out
}

// groups returns the categories by name, in the order of their first use.
func groups(categories []*Category) [][]*Category {
	var out [][]*Category
	number := map[string]int{}
	for _, c := range categories {
		n, ok := number[c.Name]
		if !ok {
			n = len(out)
			number[c.Name] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], c)
	}
	return out
}

// decideProduct appends a decision for each choice of one category of each name
// (multiple decision profile, section 2.3). If there are more than most, it
// appends one result that names the bound.
func (r *run) decideProduct(dst []Result, categories []*Category, most int) []Result {
	all := groups(categories)
	count := 1
	for _, g := range all {
		if count *= len(g); count > most {
			return append(dst, tooMany(r.options.Bounds.Decisions))
		}
	}
	choice := make([]int, len(all))
	for range count {
		r.forget()
		for i, g := range all {
			r.categories = append(r.categories, g[choice[i]])
		}
		dst = append(dst, r.decide())
		for i := len(all) - 1; i >= 0; i-- {
			if choice[i]++; choice[i] < len(all[i]) {
				break
			}
			choice[i] = 0
		}
	}
	return dst
}

// decideReferences appends the decisions of the references (multiple decision
// profile, section 2.4). A reference that names an unknown category gives an
// Indeterminate result.
func (r *run) decideReferences(dst []Result) []Result {
	byID := map[string]*Category{}
	twice := map[string]bool{}
	for i := range r.request.Categories {
		if c := &r.request.Categories[i]; c.ID != "" {
			twice[c.ID] = byID[c.ID] != nil
			byID[c.ID] = c
		}
	}
	before, most := len(dst), r.options.Bounds.Decisions
	for _, ids := range r.request.References {
		left := most - (len(dst) - before)
		if left <= 0 {
			return append(dst[:before], tooMany(most))
		}
		categories, err := referenced(ids, byID, twice)
		if err != nil {
			dst = append(dst, Result{Decision: IndeterminateDP, Status: err})
			continue
		}
		if dst = r.decideProduct(dst, categories, left); isTooMany(dst[len(dst)-1]) {
			return append(dst[:before], dst[len(dst)-1])
		}
	}
	return dst
}

// referenced returns the categories with the ids.
func referenced(ids []string, byID map[string]*Category, twice map[string]bool) ([]*Category, *status.Error) {
	var out []*Category
	for _, id := range ids {
		problem := ""
		switch {
		case byID[id] == nil:
			problem = "no Attributes element has"
		case twice[id]:
			problem = "two Attributes elements have"
		}
		if problem != "" {
			return nil, &status.Error{Code: status.SyntaxError,
				Message: fmt.Sprintf("%s the id %s of a request reference: expected one", problem, value.Quote(id))}
		}
		out = append(out, byID[id])
	}
	return out, nil
}

// tooMany returns the result of a request for more decisions than the bound.
func tooMany(most int) Result {
	return Result{Decision: IndeterminateDP, Status: reached(BoundDecisions,
		fmt.Sprintf("the request asks for more than %d decisions", most))}
}

// isTooMany reports whether a result is from tooMany.
func isTooMany(r Result) bool { return r.Status != nil && r.Status.Bound == BoundDecisions }

// combineResults returns one result for all (multiple decision profile, section
// 2.5): their decision if they agree and none has obligations or advice. It has
// no attributes.
func combineResults(results []Result) Result {
	first := results[0]
	out := Result{Decision: first.Decision, Status: first.Status}
	seen := map[PolicyVersion]bool{}
	for _, r := range results {
		problem := ""
		switch {
		case len(r.Obligations)+len(r.Advice) > 0:
			problem = "a decision has obligations or advice"
		case plain(r.Decision) != plain(first.Decision):
			problem = "the decisions differ"
		}
		if problem != "" {
			return Result{Decision: IndeterminateDP, Status: &status.Error{Code: status.ProcessingError,
				Message: problem + ": expected equal decisions without them for a combined decision"}}
		}
		for _, p := range r.Policies {
			if !seen[p] {
				seen[p] = true
				out.Policies = append(out.Policies, p)
			}
		}
	}
	return out
}

// plain returns the decision as a response shows it.
func plain(d Decision) Decision { return min(d, Indeterminate) }
