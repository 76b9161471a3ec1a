package domain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/rel"
)

// RelatedID is the id of the function of [Related].
const RelatedID = "urn:ostiary:xacml:function:related"

// ObjectAttribute is the id of the attribute of a category that names its object
// in the relation store, for example "document:1". Without it, the subject-id or
// the resource-id is the object, if it has this form.
const ObjectAttribute = "urn:ostiary:xacml:object"

// TypeAttribute is the id of the attribute that has the type of a subject or a
// resource of an AuthZEN request.
const TypeAttribute = "urn:ostiary:xacml:type"

// StoredAttribute precedes the name of an attribute of the relation store in the
// id of an attribute: "urn:ostiary:xacml:attribute:level" of the resource is the
// attribute "level" of the object that the resource names. A request must not
// have such attributes.
const StoredAttribute = "urn:ostiary:xacml:attribute:"

// Related returns the function that asks the relation store of the domain:
// related(object, relation, subject), three strings such as "document:1",
// "viewer" and "user:anne", is true if the subject has the relation to the
// object. It is a processing-error if the domain has no relation store, if the
// schema lacks the type or the relation, if a condition lacks a parameter, and if
// the question reaches a bound.
func Related() *function.Function {
	text := function.Shape{Type: value.String}
	return &function.Function{
		ID:        RelatedID,
		Signature: function.Signature{Params: []function.Shape{text, text, text}, Result: function.Shape{Type: value.Boolean}},
		Call: func(env *function.Env, args []function.Operand) (function.Operand, error) {
			if env.Related == nil {
				return function.Operand{}, &status.Error{Code: status.ProcessingError,
					Message: RelatedID + ": the policy domain has no relation store"}
			}
			yes, err := env.Related(args[0].Value.Text(), args[1].Value.Text(), args[2].Value.Text())
			if err != nil {
				return function.Operand{}, err
			}
			return function.Operand{Shape: function.Shape{Type: value.Boolean}, Value: value.NewBoolean(yes)}, nil
		},
	}
}

// BoundQuestions is the name of the bound on the questions of one request.
const BoundQuestions = "relation questions"

// asker asks the relation store of a domain for one request. The first question
// pins the revision and the time of all.
type asker struct {
	domain *Domain
	// ctx is that of the decision in progress.
	ctx    context.Context
	chosen authz.Consistency
	held   authz.Consistency
	pinned bool
	left   int // questions that may still be asked
}

// begin pins the revision and counts a question. Its error is a *status.Error.
func (a *asker) begin() error {
	if a.domain.relations == nil {
		return failed(a.domain.unbound)
	}
	if a.left == 0 {
		return &status.Error{Code: status.ProcessingError, Bound: BoundQuestions,
			Message: fmt.Sprintf("the request reached the bound on %s: %d", BoundQuestions, a.domain.options.Questions)}
	}
	a.left--
	return a.pin()
}

// pin pins the revision of the relation store, unless it is pinned.
func (a *asker) pin() error {
	if a.pinned {
		return nil
	}
	held, err := a.domain.relations.Hold(a.ctx, a.chosen)
	if err != nil {
		return failed(err)
	}
	a.held, a.pinned = held, true
	return nil
}

// related is the Related of policy.Options.
func (a *asker) related(object, relation, subject string) (bool, error) {
	o, err := rel.ParseObject(object)
	if err != nil {
		return false, failed(err)
	}
	s, err := rel.ParseSubject(subject)
	if err != nil {
		return false, failed(err)
	}
	if err := a.begin(); err != nil {
		return false, err
	}
	result, err := a.domain.relations.Check(a.ctx, authz.CheckRequest{Object: o, Relation: relation, Subject: s,
		QueryOptions: authz.QueryOptions{Consistency: a.held}})
	switch {
	case err != nil:
		return false, failed(err)
	case result.Decision == expr.True:
		return true, nil
	case result.Decision == expr.False:
		return false, nil
	}
	unknown := &status.Error{Code: status.ProcessingError, Message: fmt.Sprintf("%s#%s@%s is undecided", object, relation, subject)}
	if result.Reasons != nil {
		unknown.Message += ": " + result.Reasons.String()
		unknown.Bound = result.Reasons.Bound
	}
	return false, unknown
}

// Attribute implements policy.AttributeSource. It returns the values of an
// attribute of the relation store, and none for ids outside of [StoredAttribute].
func (a *asker) Attribute(ctx context.Context, d *policy.Designator, r *policy.Request) ([]value.Value, error) {
	name, ok := strings.CutPrefix(d.ID, StoredAttribute)
	if !ok || name == "" || d.Issuer != "" {
		return nil, nil
	}
	object, err := objectOf(r, d.Category)
	if err != nil || object.Type == "" {
		return nil, err
	}
	if err := a.begin(); err != nil {
		return nil, err
	}
	page, err := a.domain.relations.ReadAttributes(ctx, authz.ReadAttributesRequest{ObjectType: object.Type, ObjectID: object.ID, Name: name, Consistency: a.held})
	if err != nil {
		return nil, failed(err)
	}
	if len(page.Attributes) == 0 {
		return nil, nil
	}
	return storedValues(&page.Attributes[0], d.Type)
}

// objectOf returns the object that a category of a request names. It returns the
// zero Object if the category names none, and a *status.Error if it names several
// or has a malformed [ObjectAttribute].
func objectOf(r *policy.Request, category string) (rel.Object, error) {
	id := policy.AttributeResourceID
	if category != policy.CategoryResource {
		id = policy.AttributeSubjectID
	}
	if named, err := oneText(r, category, ObjectAttribute); named != "" || err != nil {
		if err != nil {
			return rel.Object{}, err
		}
		o, err := rel.ParseObject(named)
		if err != nil {
			return rel.Object{}, failed(fmt.Errorf("attribute %s: %w", ObjectAttribute, err))
		}
		return o, nil
	}
	named, err := oneText(r, category, id)
	if err != nil {
		return rel.Object{}, err
	}
	if o, err := rel.ParseObject(named); err == nil {
		return o, nil
	}
	return rel.Object{}, nil
}

// oneText returns the only value of an attribute of a category, as text; "" if
// there is none. Several different ones are an error.
func oneText(r *policy.Request, category, id string) (string, error) {
	found := ""
	for i := range r.Categories {
		c := &r.Categories[i]
		if c.Name != category {
			continue
		}
		for j := range c.Attributes {
			if c.Attributes[j].ID != id {
				continue
			}
			for _, v := range c.Attributes[j].Values {
				text := v.Text()
				if found != "" && text != found {
					return "", &status.Error{Code: status.ProcessingError,
						Message: fmt.Sprintf("attribute %s of category %s has several values: expected one that names an object", id, category)}
				}
				found = text
			}
		}
	}
	return found, nil
}

// storedValues returns the values of a stored attribute that have a type: a
// boolean is a boolean, a number without a fraction an integer or a double, any
// other number a double, and a string is a value of any other type whose form it
// has. A list is a bag. A stored value of another type gives no value.
func storedValues(a *rel.Attribute, t value.Type) ([]value.Value, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(a.Value)))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		return nil, failed(fmt.Errorf("attribute %s of %s: %w", a.Name, a.Object, err))
	}
	items, isList := raw.([]any)
	if !isList {
		items = []any{raw}
	}
	var out []value.Value
	for _, item := range items {
		text, ok := storedText(item, t)
		if !ok {
			continue
		}
		v, err := value.Parse(t, text)
		if err != nil {
			return nil, failed(fmt.Errorf("attribute %s of %s: %w", a.Name, a.Object, err))
		}
		out = append(out, v)
	}
	return out, nil
}

// storedText returns the text of a stored value as a value of a type. It returns
// false if the value has another type.
func storedText(item any, t value.Type) (string, bool) {
	switch x := item.(type) {
	case bool:
		return fmt.Sprint(x), t == value.Boolean
	case string:
		return x, t != value.Boolean && t != value.Integer && t != value.Double
	case json.Number:
		text := x.String()
		if t != value.Integer {
			return text, t == value.Double
		}
		return integerText(text)
	}
	return "", false
}

// integerText returns a JSON number as an integer. It returns false if the number
// has a fraction, or an exponent and more digits than a double has.
func integerText(text string) (string, bool) {
	if !strings.ContainsAny(text, ".eE") {
		return text, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}
