package domain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/rel"
)

// journal collects results as text, for a file. Ids that are random have names.
type journal struct {
	text  strings.Builder
	names []string // id, name, id, name...
}

// result writes the outcome of a call: its error, or its result.
func (j *journal) result(what string, value any, err error) {
	text := fmt.Sprint(value)
	if err != nil {
		text = "error: " + err.Error()
	}
	text = strings.NewReplacer(j.names...).Replace(text)
	fmt.Fprintf(&j.text, "%s: %s\n", what, strings.ReplaceAll(text, "\n", "\n    "))
}

// name replaces the id of a store by a name in all later results.
func (j *journal) name(s *ostiary.Store, name string) *ostiary.Store {
	j.names = append(j.names, s.ID().String(), name)
	return s
}

// line is a title.
func (j *journal) line(format string, args ...any) { fmt.Fprintf(&j.text, format+"\n", args...) }

// outcome returns a result with its duties and the whole status.
func outcome(r policy.Result) string {
	text := fmt.Sprint(r.Decision)
	for _, d := range r.Obligations {
		for _, a := range d.Arguments {
			text += fmt.Sprintf(" %s=%q", a.ID, a.Value.Text())
		}
	}
	if r.Status == nil {
		return text
	}
	text += " " + strings.TrimPrefix(string(r.Status.Code), "urn:oasis:names:tc:xacml:1.0:status:")
	if len(r.Status.Missing) == 0 {
		text += ": " + r.Status.Message
	}
	for _, m := range r.Status.Missing {
		text += " " + m.ID
	}
	if r.Status.Bound != "" {
		text += " (bound " + r.Status.Bound + ")"
	}
	return text
}

// showing permits everything, with the values of an attribute in an obligation.
func showing(designator string) domain.Source {
	return domain.Source{Language: domain.XML, Text: fmt.Appendf(nil, `<Policy %s PolicyId="root" Version="1.0" RuleCombiningAlgId=%q><Target/><Rule RuleId="r" Effect="Permit"/>`+
		`<ObligationExpressions><ObligationExpression ObligationId="o" FulfillOn="Permit"><AttributeAssignmentExpression AttributeId="v">%s</AttributeAssignmentExpression></ObligationExpression></ObligationExpressions></Policy>`,
		namespace, firstRule, designator)}
}

// TestAttributeForms compares what policies read from the relation store with a
// file: each kind of stored value as each type, and each form of the names of the
// object.
func TestAttributeForms(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, e := newRegistry(t, domain.Options{})
	s := newRelations(t, e)
	d := must(r.FindOrMake(ctx, s.ID().String()))(t)
	var j journal
	j.name(s, "RELATIONS")
	object := rel.Object{Type: "form", ID: "1"}
	decided := func(what string, q *policy.Request) {
		results, err := d.Decide(ctx, q)
		if err != nil {
			results = make([]policy.Result, 1)
		}
		j.result(what, outcome(results[0]), err)
	}
	for _, typ := range []value.Type{value.String, value.Boolean, value.Integer, value.Double, value.Date, value.AnyURI} {
		j.line("\n%s", typ.URI())
		for _, stored := range []struct{ name, values string }{
			{"bool", "true false"}, {"bools", "[true,false,true] []"},
			{"string", `"text" "" "2026-01-02" "true" "1" "1.5"`}, {"strings", `["a","b"] ["2026-01-02","1"] []`},
			{"int", "3 0 -3 9007199254740993"}, {"ints", "[1,2] []"}, {"uint", "18446744073709551615"},
			{"double", "3.5 3.0 -3.0 3e2 1e21 9007199254740991.0 9007199254740992.0 -9007199254740992.0 1e300 0.1e-7"}, {"doubles", "[1.0,2.5,3e0] []"},
			{"duration", `"1h30m"`}, {"timestamp", `"2026-01-02T00:00:00Z"`}, {"ipaddress", `"10.0.0.1"`},
		} {
			root := showing(designator(policy.CategoryResource, domain.StoredAttribute+stored.name, typ.URI()))
			change(t, d, domain.Change{Root: &root})
			for _, text := range strings.Fields(stored.values) {
				if _, err := s.Write(ctx, authz.WriteRequest{SetAttributes: []rel.Attribute{{Object: object, Name: stored.name, Value: text}}}); err != nil {
					t.Fatal(err)
				}
				decided(stored.name+" "+text, request("user:anne", "form:1"))
			}
		}
	}
	j.line("\nwhich object")
	must(s.Write(ctx, authz.WriteRequest{SetAttributes: []rel.Attribute{
		{Object: object, Name: "string", Value: `"of form:1"`},
		{Object: rel.Object{Type: "form", ID: "2"}, Name: "string", Value: `"of form:2"`},
		{Object: rel.Object{Type: "form", ID: "3"}, Name: "string", Value: `"of form:3"`}},
		RemoveAttributes: []rel.Attribute{{Object: object, Name: "int"}}}))(t)
	named := func(name string, texts ...string) policy.Attribute {
		a := policy.Attribute{ID: name}
		for _, text := range texts {
			a.Values = append(a.Values, value.NewString(text))
		}
		return a
	}
	const environment = "urn:oasis:names:tc:xacml:3.0:attribute-category:environment"
	for _, category := range []string{policy.CategorySubject, policy.CategoryResource, policy.CategoryAction, environment} {
		root := showing(designator(category, domain.StoredAttribute+"string", xsString))
		change(t, d, domain.Change{Root: &root})
		j.line("in %s", category)
		for _, c := range []struct {
			what       string
			attributes []policy.Attribute
		}{
			{"nothing", nil},
			{"resource-id", []policy.Attribute{named(policy.AttributeResourceID, "form:1")}},
			{"subject-id", []policy.Attribute{named(policy.AttributeSubjectID, "form:3")}},
			{"both", []policy.Attribute{named(policy.AttributeResourceID, "form:1"), named(policy.AttributeSubjectID, "form:3")}},
			{"no object", []policy.Attribute{named(policy.AttributeResourceID, "form"), named(policy.AttributeSubjectID, "anne")}},
			{"the object", []policy.Attribute{named(policy.AttributeResourceID, "form:1"), named(domain.ObjectAttribute, "form:2"), named(policy.AttributeSubjectID, "form:1")}},
			{"a malformed object", []policy.Attribute{named(policy.AttributeResourceID, "form:1"), named(domain.ObjectAttribute, "form"), named(policy.AttributeSubjectID, "form:1")}},
			{"an empty object", []policy.Attribute{named(policy.AttributeResourceID, "form:1"), named(domain.ObjectAttribute, ""), named(policy.AttributeSubjectID, "form:1")}},
			{"two objects", []policy.Attribute{named(domain.ObjectAttribute, "form:1", "form:2")}},
			{"the same object twice", []policy.Attribute{named(domain.ObjectAttribute, "form:1"), named("other", "form:2"), named(domain.ObjectAttribute, "form:1")}},
			{"two ids", []policy.Attribute{named(policy.AttributeResourceID, "form:1"), named(policy.AttributeResourceID, "form:2"), named(policy.AttributeSubjectID, "form:1", "form:2")}},
			{"no such object", []policy.Attribute{named(domain.ObjectAttribute, "form:none")}},
			{"no such type", []policy.Attribute{named(domain.ObjectAttribute, "planet:1")}},
		} {
			q := &policy.Request{Categories: []policy.Category{{Name: "urn:other", Attributes: []policy.Attribute{named(domain.ObjectAttribute, "form:2")}}, {Name: category, Attributes: c.attributes}}}
			decided("  "+c.what, q)
		}
	}
	j.line("\nwhich attribute")
	for _, c := range []struct{ what, designator string }{
		{"without a value", designator(policy.CategoryResource, domain.StoredAttribute+"duration", xsString)},
		{"unknown", designator(policy.CategoryResource, domain.StoredAttribute+"none", xsString)},
		{"without a name", designator(policy.CategoryResource, domain.StoredAttribute, xsString)},
		{"another id", designator(policy.CategoryResource, "string", xsString)},
		{"of an issuer", strings.Replace(designator(policy.CategoryResource, domain.StoredAttribute+"string", xsString), "MustBePresent", `Issuer="other" MustBePresent`, 1)},
	} {
		root := showing(c.designator)
		change(t, d, domain.Change{Root: &root})
		decided(c.what, request("form:3", "form:2"))
	}
	golden.Equal(t, "testdata/attributes.txt", j.text.String())
}
