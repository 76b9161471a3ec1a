package keystone

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/access"
)

// target is what an operation reads or changes, for rules: attributes by their names, of
// which each is a text, and records by the beginning of the names of their attributes, for
// example "target.user", of which each is a function that returns the record as JSON.
type target map[string]any

// addTo adds a record to a target.
func (x *resource) addTo(t target, r *identity.Record) {
	x.target(t, r)
	if x.show != nil {
		t["target."+x.singular] = x.shown(r)
	}
}

// shown returns a function that returns a record as responses show it.
func (x *resource) shown(r *identity.Record) func() json.RawMessage {
	return func() json.RawMessage {
		var o object
		x.show(&o, r)
		return o.bytes()
	}
}

// targetOf returns the target of an operation on a record, or an empty one without a record.
func (x *resource) targetOf(r *identity.Record) target {
	t := target{}
	if r != nil {
		x.addTo(t, r)
	}
	return t
}

// targetOfNew returns the target of the creation of a record, which has the members of the
// body. A domain that the body leaves open is no text that a rule can compare.
func (x *resource) targetOfNew(r *identity.Record, m identity.Members) target {
	t := target{}
	x.target(t, r)
	for name, value := range t {
		if value == "" {
			delete(t, name)
		}
	}
	prefix := "target." + x.singular
	t[prefix] = func() json.RawMessage {
		text, _ := m.MarshalJSON()
		return text
	}
	if r.Domain == "" && !r.IsDomain && (r.Kind == identity.User || r.Kind == identity.Group || r.Kind == identity.Project) {
		t[prefix+".domain_id"] = access.Other
	}
	return t
}

// attributes are the attributes that the rule of an operation can name: those of the target,
// the arguments in the path, the members of the body after "request_body.", and the parameters
// of the query after "filter_attr.".
type attributes struct {
	call   *call
	target target
}

// Attribute returns the attribute of that name.
func (a *attributes) Attribute(name string) (string, bool) {
	if value, ok := a.target[name].(string); ok {
		return value, true
	}
	if rest, ok := strings.CutPrefix(name, "request_body."); ok {
		m, err := a.call.bodyMembers()
		if err != nil { // there is none, or the operation refuses it
			return "", false
		}
		return memberText(m, rest)
	}
	if rest, ok := strings.CutPrefix(name, "filter_attr."); ok {
		return a.call.query.Get(rest), a.call.query.Has(rest)
	}
	for end := strings.LastIndexByte(name, '.'); end > 0; end = strings.LastIndexByte(name[:end], '.') {
		record, ok := a.target[name[:end]].(func() json.RawMessage)
		if !ok {
			continue
		}
		m, err := identity.ParseMembers(record())
		if err != nil {
			return access.Other, true
		}
		return memberText(m, name[end+1:])
	}
	for i, argument := range a.call.arguments {
		if argument == name {
			return a.call.Params.At(i), true
		}
	}
	return "", false
}

// memberText returns the member at a path, as rules compare it. A dot in the path goes into
// an object, or is a part of a name; if both lead to a member, none can be compared.
func memberText(m identity.Members, path string) (value string, found bool) {
	for _, x := range m {
		rest, below := strings.CutPrefix(path, x.Name+".")
		var text string
		var ok bool
		switch isObject := len(x.Value) > 0 && x.Value[0] == '{'; {
		case x.Name == path && !isObject:
			text, ok = ruleText(x.Value), true
		case below && isObject:
			inner, err := identity.ParseMembers(x.Value)
			if text, ok = memberText(inner, rest); err != nil {
				text, ok = access.Other, true
			}
		}
		if ok && found {
			return access.Other, true
		}
		if ok {
			value, found = text, true
		}
	}
	return value, found
}

// ruleText returns a value as rules compare it, see [access.Attributes].
func ruleText(value json.RawMessage) string {
	switch text := string(value); text {
	case "null":
		return access.Null
	case "true":
		return "True"
	case "false":
		return "False"
	default:
		var s string
		if json.Unmarshal(value, &s) == nil && !strings.Contains(s, "\x00") {
			return s
		}
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return text
		}
		return access.Other
	}
}

// argumentsOf returns the names that rules use for the parameters of a path, which are those
// of Keystone: "user_id" for what comes after "/users/", for example.
func argumentsOf(path string) (names []string) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		switch before := parts[i-1]; {
		case before == "roles" && i+1 < len(parts) && parts[i+1] == "implies":
			names = append(names, "prior_role_id")
		case before == "implies":
			names = append(names, "implied_role_id")
		case before == "tags":
			names = append(names, "value")
		case before == "config":
			names = append(names, "group")
		case strings.HasPrefix(before, "{"): // of a group of a domain's configuration
			names = append(names, "option")
		case before == "policies":
			names = append(names, "policy_id")
		case before == "identity_providers":
			names = append(names, "idp_id")
		case before == "OS-EC2":
			names = append(names, "credential_id")
		case before == "authorize":
			names = append(names, "request_token_id")
		default:
			names = append(names, strings.TrimSuffix(before, "s")+"_id")
		}
	}
	return names
}
