package pdp

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// Request is a decision request of ONAP.
type Request struct {
	Action string // action, which chooses the application
	// Brief asks for policies without their properties. Only the application
	// monitoring does so.
	Brief    bool
	context  *tosca.Value // nil if there is none
	resource *tosca.Value // nil if there is none
	// environment are the times that the request gives.
	environment []policy.Attribute
}

// ReadRequest reads a decision request. A request for a guard must have what
// guards read, in the form in which they read it. The errors are *[tosca.Error].
// The value must not change while the request is used.
func ReadRequest(v *tosca.Value) (*Request, error) {
	if v.Kind != tosca.Map {
		return nil, &tosca.Error{Position: v.Position, Text: "expected a decision request, which is a map, got " + v.Kind.String()}
	}
	r := &Request{}
	for i := range v.Members {
		m := &v.Members[i]
		if m.Value.Kind == tosca.Null {
			continue
		}
		switch m.Name {
		case "action":
			r.Action = m.Value.Scalar()
		case "context", "resource":
			if m.Value.Kind != tosca.Map {
				return nil, expected(m, "a map")
			}
			if m.Name == "context" {
				r.context = &m.Value
			} else {
				r.resource = &m.Value
			}
		case "ONAPName", "ONAPComponent", "ONAPInstance", "requestId", "timeZone":
			if m.Value.Kind != tosca.String {
				return nil, expected(m, "a string")
			}
		case "currentDateTime", "currentDate", "currentTime":
			if err := r.readTime(m); err != nil {
				return nil, err
			}
		}
	}
	if r.Action == actionGuard {
		if err := checkGuard(v, r.resource); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkGuard fails unless the resource of a request has a guard with at least one
// attribute of guards, and all of these are scalars. An attribute that is dropped
// would make a guard permit what it denies.
func checkGuard(request, resource *tosca.Value) error {
	g := resource.Get("guard")
	if g == nil {
		return &tosca.Error{Position: request.Position, Text: "the member resource.guard is missing: expected a map with the actor, the operation and the target"}
	}
	if g.Kind != tosca.Map {
		return expected(&tosca.Member{Name: "guard", Value: *g}, "a map")
	}
	found := false
	for i := range g.Members {
		m := &g.Members[i]
		if guardAttribute(m.Name) == "" {
			continue
		}
		if found = true; m.Value.Kind < tosca.Bool || m.Value.Kind > tosca.String {
			return expected(m, "a string or a number")
		}
	}
	if !found {
		return &tosca.Error{Position: g.Position, Text: "guard: expected the actor, the operation and the target, got none of them"}
	}
	return nil
}

// expected returns an error for a member of the wrong kind.
func expected(m *tosca.Member, what string) error {
	return &tosca.Error{Position: m.Value.Position, Text: fmt.Sprintf("%s: expected %s, got %s", m.Name, what, m.Value.Kind)}
}

// readTime reads a time of the request. It counts instead of the clock.
func (r *Request) readTime(m *tosca.Member) error {
	at := map[string]struct {
		id      string
		typ     value.Type
		example string
	}{
		"currentDateTime": {policy.AttributeCurrentDateTime, value.DateTime, "2026-01-02T15:04:05Z"},
		"currentDate":     {policy.AttributeCurrentDate, value.Date, "2026-01-02"},
		"currentTime":     {policy.AttributeCurrentTime, value.Time, "15:04:05Z"},
	}[m.Name]
	v, err := value.Parse(at.typ, m.Value.Text)
	if err != nil || m.Value.Kind != tosca.String || at.typ != value.Date && !v.HasZone() {
		return &tosca.Error{Position: m.Value.Position, Text: fmt.Sprintf("invalid %s %.80q: expected a value with an offset, for example %s", m.Name, m.Value.Text, at.example)}
	}
	r.environment = append(r.environment, policy.Attribute{ID: at.id, Values: []value.Value{v}})
	return nil
}

// with returns the XACML request with attributes of the resource.
func (r *Request) with(attributes []policy.Attribute) *policy.Request {
	out := &policy.Request{Categories: make([]policy.Category, 0, 3)}
	out.Categories = append(out.Categories, policy.Category{Name: policy.CategoryResource, Attributes: attributes})
	if len(r.environment) > 0 {
		out.Categories = append(out.Categories, policy.Category{Name: policy.CategoryEnvironment, Attributes: r.environment})
	}
	return out
}

// texts returns an attribute with the strings of a value or of the items of a
// list.
func texts(id string, v *tosca.Value) policy.Attribute {
	a := policy.Attribute{ID: id}
	if v.Kind != tosca.List {
		a.Values = []value.Value{value.NewString(v.Text)}
		return a
	}
	a.Values = make([]value.Value, 0, len(v.Items))
	for i := range v.Items {
		a.Values = append(a.Values, value.NewString(v.Items[i].Text))
	}
	return a
}

// combined returns the request of the applications monitoring and naming.
func (r *Request) combined() *policy.Request {
	attributes := make([]policy.Attribute, 0, 2)
	if v := r.resource.Get("policy-id"); v != nil {
		attributes = append(attributes, texts(policy.AttributeResourceID, v))
	}
	if v := r.resource.Get("policy-type"); v != nil {
		attributes = append(attributes, texts(attributePolicyType, v))
	}
	return r.with(attributes)
}

// matching returns the request of the applications optimization and match. types
// are the types that policies compare attributes with: each value of the request
// gets all that it can be parsed as.
func (r *Request) matching(types map[string][]value.Type) *policy.Request {
	if r.resource == nil {
		return r.with(nil)
	}
	attributes := make([]policy.Attribute, 0, len(r.resource.Members))
	for i := range r.resource.Members {
		m := &r.resource.Members[i]
		switch {
		case m.Name == "policy-type":
			attributes = append(attributes, texts(attributePolicyType, &m.Value))
		case m.Value.Kind == tosca.Map:
			for j := range m.Value.Members {
				name := m.Name + ":" + m.Value.Members[j].Name
				attributes = appendTyped(attributes, name, &m.Value.Members[j].Value, types[name])
			}
		default:
			attributes = appendTyped(attributes, m.Name, &m.Value, types[m.Name])
		}
	}
	return r.with(attributes)
}

// appendTyped appends a matchable attribute, if policies compare it.
func appendTyped(attributes []policy.Attribute, name string, v *tosca.Value, types []value.Type) []policy.Attribute {
	list := v.Items
	if v.Kind != tosca.List {
		list = []tosca.Value{*v}
	}
	var values []value.Value
	for _, t := range types {
		for i := range list {
			if parsed, err := value.Parse(t, list[i].Text); err == nil && list[i].Kind != tosca.Null {
				values = append(values, parsed)
			}
		}
	}
	if len(values) == 0 {
		return attributes
	}
	return append(attributes, policy.Attribute{ID: attributeMatchable + name, Values: values})
}

// guardMembers are the attributes of a guard request, by their names in it.
var guardMembers = map[string]string{"actor": attributeActor, "operation": attributeOperation, "target": attributeGuardTarget,
	"clname": attributeLoop, "vfCount": attributeCount}

// guardAttribute returns the attribute that a member of a guard request is, or ""
// for a member that no guard reads.
func guardAttribute(member string) string {
	if slices.Contains(filterFields, member) {
		return attributeTargetPrefix + member
	}
	return guardMembers[member]
}

// guard returns the request of the application guard. It fails if vfCount is not
// a whole number.
func (r *Request) guard() (*policy.Request, error) {
	g := r.resource.Get("guard") // a map, as ReadRequest checked
	attributes := make([]policy.Attribute, 0, len(g.Members))
	for i := range g.Members {
		m := &g.Members[i]
		switch id := guardAttribute(m.Name); id {
		case "":
		case attributeCount:
			n, err := strconv.ParseInt(m.Value.Text, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("failed to decode vfCount %.80q: expected a whole number", m.Value.Text)
			}
			attributes = append(attributes, policy.Attribute{ID: id, Values: []value.Value{value.NewInteger(n)}})
		default:
			attributes = append(attributes, texts(id, &m.Value))
		}
	}
	return r.with(attributes), nil
}

// subscribers returns the names of the request's subscribers.
func (r *Request) subscribers() []tosca.Value {
	names := r.context.Get("subscriberName")
	if names == nil || names.Kind != tosca.List {
		return nil
	}
	return names.Items
}
