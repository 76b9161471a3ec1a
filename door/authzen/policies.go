package authzen

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/rel"
)

// This file answers requests with the policies of a policy domain.

// domainOf returns the policy domain that a store is; nil if it is none.
func (s *service) domainOf(c *call) (*domain.Domain, error) {
	if s.options.Domains == nil {
		return nil, nil
	}
	d, err := s.options.Domains.Of(c.Context(), c.store)
	if errors.Is(err, domain.ErrNoDomain) {
		return nil, nil
	}
	return d, err
}

// reservedPrefix precedes the ids of attributes that a property or a member of the
// context must not have.
const reservedPrefix = "urn:ostiary:xacml:"

// policyRequest translates an evaluation into a request to policies.
func (e *evaluation) policyRequest() (*policy.Request, error) {
	out := &policy.Request{}
	for _, part := range [...]func() (policy.Category, error){e.subjectCategory, e.resourceCategory, e.actionCategory, e.environmentCategory} {
		c, err := part()
		if err != nil {
			return nil, err
		}
		if len(c.Attributes) > 0 {
			out.Categories = append(out.Categories, c)
		}
	}
	return out, nil
}

func (e *evaluation) subjectCategory() (policy.Category, error) {
	return entityCategory(policy.CategorySubject, policy.AttributeSubjectID, "subject.properties", &e.subject)
}

func (e *evaluation) resourceCategory() (policy.Category, error) {
	return entityCategory(policy.CategoryResource, policy.AttributeResourceID, "resource.properties", &e.resource)
}

func (e *evaluation) actionCategory() (c policy.Category, err error) {
	c.Name = policy.CategoryAction
	if e.action.hasName {
		c.Attributes = []policy.Attribute{textAttribute(policy.AttributeActionID, e.action.name)}
	}
	c.Attributes, err = appendProperties(c.Attributes, "action.properties", e.action.properties)
	return c, err
}

func (e *evaluation) environmentCategory() (c policy.Category, err error) {
	c.Name = policy.CategoryEnvironment
	c.Attributes, err = appendProperties(nil, "context", e.context)
	return c, err
}

// entityCategory returns the category of a subject or a resource. id is the id of
// the attribute that names it, and what names the properties in errors.
func entityCategory(category, id, what string, e *entity) (c policy.Category, err error) {
	c.Name = category
	if e.hasID {
		c.Attributes = entityAttributes(id, e.Type, e.ID)
	} else if e.hasType {
		c.Attributes = []policy.Attribute{textAttribute(domain.TypeAttribute, e.Type)}
	}
	c.Attributes, err = appendProperties(c.Attributes, what, e.properties)
	return c, err
}

// entityAttributes returns the attributes of a subject or a resource without
// properties. It has an object if the relation store can have an object with this
// type and id.
func entityAttributes(id, typ, name string) []policy.Attribute {
	out := []policy.Attribute{textAttribute(id, name), textAttribute(domain.TypeAttribute, typ)}
	if o := (rel.Object{Type: typ, ID: name}); o.Validate() == nil {
		out = append(out, textAttribute(domain.ObjectAttribute, o.String()))
	}
	return out
}

func textAttribute(id, text string) policy.Attribute {
	return policy.Attribute{ID: id, Values: []value.Value{value.NewString(text)}}
}

// appendProperties appends an attribute for each property, by its name: a string,
// a boolean, an integer or a double, and for a list the bag of its elements.
// Objects and null are left out. Names of attributes that name the subject, the
// resource or the action are refused, so that a property cannot replace them.
func appendProperties(dst []policy.Attribute, what string, properties map[string]any) ([]policy.Attribute, error) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		switch name {
		case policy.AttributeSubjectID, policy.AttributeResourceID, policy.AttributeActionID:
			return nil, reservedName(what, name)
		}
		if strings.HasPrefix(name, reservedPrefix) {
			return nil, reservedName(what, name)
		}
		items, isList := properties[name].([]any)
		if !isList {
			items = []any{properties[name]}
		}
		a := policy.Attribute{ID: name}
		for _, item := range items {
			v, ok, err := propertyValue(item)
			if err != nil {
				return nil, &requestError{http.StatusBadRequest, what + "." + door.ShortText(name) + ": " + err.Error()}
			}
			if ok {
				a.Values = append(a.Values, v)
			}
		}
		if len(a.Values) > 0 {
			dst = append(dst, a)
		}
	}
	return dst, nil
}

func reservedName(what, name string) error {
	return &requestError{http.StatusBadRequest, what + " has the member " + strconv.Quote(door.ShortText(name)) + ", which is reserved"}
}

// propertyValue returns a JSON value as a value of a policy. ok is false for an
// object, a list or null.
func propertyValue(item any) (v value.Value, ok bool, err error) {
	switch x := item.(type) {
	case string:
		return value.NewString(x), true, nil
	case bool:
		return value.NewBoolean(x), true, nil
	case json.Number:
		t := value.Integer
		if strings.ContainsAny(x.String(), ".eE") {
			t = value.Double
		}
		v, err = value.Parse(t, x.String())
		return v, err == nil, err
	}
	return v, false, nil
}

// decideByPolicy appends the decision of one evaluation by pinned policies.
func (c *call) decideByPolicy(p *domain.Pinned, e *evaluation) ([]byte, bool, error) {
	if err := e.checkParts(evaluationParts); err != nil {
		return c.out, false, err
	}
	request, err := e.policyRequest()
	if err != nil {
		return c.out, false, err
	}
	results, err := p.Decide(c.Context(), request, nil)
	if err != nil {
		return c.out, false, err
	}
	return appendPolicyDecision(c.out, &results[0])
}

// appendPolicyDecision appends a decision. Everything but Permit is a denial. The
// context has the obligations and the advice, or the reason why no policy
// decided. A bound that is reached is an error.
func appendPolicyDecision(out []byte, r *policy.Result) ([]byte, bool, error) {
	allowed := r.Decision == policy.Permitted
	switch {
	case r.Decision == policy.NotApplicable:
		return append(out, `{"decision":false,"context":{"reason":"no policy applies"}}`...), false, nil
	case r.Decision >= policy.Indeterminate:
		if r.Status != nil && r.Status.Bound != "" {
			return out, false, &requestError{http.StatusInternalServerError, "undecided: the evaluation reached the bound on " + r.Status.Bound}
		}
		out = append(out, `{"decision":false,"context":`...)
		return append(appendStatus(out, r), '}'), false, nil
	}
	out = append(out, `{"decision":`...)
	out = strconv.AppendBool(out, allowed)
	if len(r.Obligations)+len(r.Advice) > 0 {
		out = append(out, `,"context":{`...)
		out = appendDuties(out, "obligations", r.Obligations)
		if len(r.Obligations) > 0 && len(r.Advice) > 0 {
			out = append(out, ',')
		}
		out = append(appendDuties(out, "advice", r.Advice), '}')
	}
	return append(out, '}'), allowed, nil
}

// appendStatus appends why a decision is Indeterminate.
func appendStatus(out []byte, r *policy.Result) []byte {
	out = append(out, `{"reason":`...)
	if r.Status == nil {
		return append(out, `"undecided"}`...)
	}
	out = jsonread.AppendString(out, door.ShortText(r.Status.Message))
	if len(r.Status.Missing) > 0 {
		out = append(out, `,"missing":[`...)
		for i, m := range r.Status.Missing {
			if i > 0 {
				out = append(out, ',')
			}
			out = jsonread.AppendString(out, m.ID)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// appendDuties appends a member with obligations or advice; nothing if there are
// none. An argument with several values is a list.
func appendDuties(out []byte, name string, duties []policy.Duty) []byte {
	if len(duties) == 0 {
		return out
	}
	out = append(jsonread.AppendString(out, name), `:[`...)
	for i, d := range duties {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"id":`...)
		out = append(jsonread.AppendString(out, d.ID), `,"arguments":[`...)
		for j, a := range d.Arguments {
			if j > 0 {
				out = append(out, ',')
			}
			out = append(out, `{"id":`...)
			out = append(jsonread.AppendString(out, a.ID), `,"value":`...)
			out = append(appendValue(out, a.Value), '}')
		}
		out = append(out, "]}"...)
	}
	return append(out, ']')
}

// appendValue appends a value as JSON: a boolean or an integer as such, any other
// value as a string.
func appendValue(out []byte, v value.Value) []byte {
	if t := v.Type(); t == value.Boolean || t == value.Integer {
		return append(out, strings.TrimPrefix(v.Canonical(), "+")...)
	}
	return jsonread.AppendString(out, v.Text())
}

// decideAllByPolicy writes the decisions of all items, at one revision.
func (c *call) decideAllByPolicy(items []evaluation, semantic string) error {
	p, err := c.domain.Pin(c.Context(), domain.PinOptions{})
	if err != nil {
		return err
	}
	c.out = append(c.out, `{"evaluations":[`...)
	for i := range items {
		if err := c.Context().Err(); err != nil {
			return err
		}
		if i > 0 {
			c.out = append(c.out, ',')
		}
		start, allowed := len(c.out), false
		if c.out, allowed, err = c.decideByPolicy(p, &items[i]); err != nil {
			status, text := describe(err)
			c.out = appendError(c.out[:start], status, text)
		}
		if semantic == denyOnFirstDeny && !allowed || semantic == permitOnFirstAllow && allowed {
			break
		}
	}
	c.out = append(c.out, "]}"...)
	return nil
}

// searchByPolicy writes a page of a search. category is what is searched.
func (c *call) searchByPolicy(q *search, category string) error {
	known, shared, err := q.knownRequest(category)
	if err != nil {
		return err
	}
	r := &domain.SearchRequest{Known: known, Category: category, Scope: Name, Limit: q.limit, Cursor: q.cursor}
	var attributes func(string) []policy.Attribute
	switch category {
	case policy.CategorySubject:
		r.Type, attributes = q.subject.Type, candidateAttributes(policy.AttributeSubjectID)
	case policy.CategoryResource:
		r.Type, attributes = q.resource.Type, candidateAttributes(policy.AttributeResourceID)
	default:
		attributes = func(name string) []policy.Attribute {
			return []policy.Attribute{textAttribute(policy.AttributeActionID, name)}
		}
	}
	r.Attributes = func(name string) []policy.Attribute { return append(attributes(name), shared...) }
	page, err := c.domain.Search(c.Context(), r)
	if err != nil {
		return err
	}
	if page.Status != nil && page.Status.Bound != "" {
		return boundError(page.Status.Bound)
	}
	names := make([]string, len(page.Permitted))
	for i := range page.Permitted {
		names[i] = page.Permitted[i].Name
	}
	c.writeStart(q, page.Next, len(names))
	if category == policy.CategoryAction {
		c.writeActions(names)
	} else {
		for i := range names {
			names[i] = strings.TrimPrefix(names[i], r.Type+":")
		}
		c.writeEntities(r.Type, names)
	}
	c.writePolicyEnd(&page)
	return nil
}

// candidateAttributes returns the attributes of objects such as "document:1".
func candidateAttributes(id string) func(string) []policy.Attribute {
	return func(object string) []policy.Attribute {
		typ, name, _ := strings.Cut(object, ":")
		return entityAttributes(id, typ, name)
	}
}

// knownRequest returns the request without the searched category, and the
// properties that all candidates have.
func (e *evaluation) knownRequest(category string) (*policy.Request, []policy.Attribute, error) {
	all, err := e.policyRequest()
	if err != nil {
		return nil, nil, err
	}
	known := &policy.Request{}
	var shared []policy.Attribute
	for _, c := range all.Categories {
		if c.Name != category {
			known.Categories = append(known.Categories, c)
			continue
		}
		for _, a := range c.Attributes {
			switch a.ID {
			case policy.AttributeSubjectID, policy.AttributeResourceID, policy.AttributeActionID, domain.TypeAttribute, domain.ObjectAttribute:
			default:
				shared = append(shared, a)
			}
		}
	}
	return known, shared, nil
}

// writeActions writes the results of a search for actions.
func (c *call) writeActions(names []string) {
	for i, name := range names {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, `{"name":`...)
		c.out = append(jsonread.AppendString(c.out, name), '}')
	}
	c.out = append(c.out, ']')
}

// writePolicyEnd writes how many candidates are undecided, if any, and ends the
// response.
func (c *call) writePolicyEnd(page *domain.SearchResult) {
	if page.Undecided > 0 {
		c.out = append(c.out, `,"context":{"undecided":`...)
		c.out = strconv.AppendInt(c.out, int64(page.Undecided), 10)
		c.out = append(c.out, `,"why":`...)
		c.out = append(appendStatus(c.out, &policy.Result{Status: page.Status}), '}')
	}
	c.out = append(c.out, '}')
}
