package pdp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// This file checks the members of new policies. A member with an unknown name is not
// translated, so a rule with a misspelt condition would have none. What is stored was not
// checked, and is translated as before.

// shape is what a value may be. The zero shape is a scalar.
type shape struct {
	item    *shape            // of the items of a list; nil for another value
	members map[string]*shape // of a map; nil for another value
	one     bool              // at most one of the members is given
	other   *shape            // the value may also have this shape
}

// ruleShapes returns the shape of the properties of a ToscaXacml policy.
var ruleShapes = sync.OnceValue(func() *shape {
	scalar := &shape{}
	list := func(item *shape) *shape { return &shape{item: item} }
	expression, compare, key := &shape{one: true}, &shape{one: true}, &shape{one: true, other: scalar}
	call := &shape{members: map[string]*shape{"operator": scalar, "keys": list(key), "compareWith": compare, "description": scalar}}
	expression.members = map[string]*shape{"apply": call, "expr": scalar}
	compare.members = map[string]*shape{"apply": call, "value": scalar, "key": scalar}
	key.members = map[string]*shape{"apply": call, "expr": scalar, "list": list(scalar), "function": scalar}
	match := &shape{members: map[string]*shape{"key": scalar, "operator": scalar, "value": scalar}}
	target := &shape{members: map[string]*shape{"anyOne": list(&shape{members: map[string]*shape{"allOf": list(match)}})}}
	rule := &shape{members: map[string]*shape{"description": scalar, "target": target, "condition": expression, "decision": scalar,
		"advice": {members: map[string]*shape{"value": scalar}}}}
	policy := &shape{members: map[string]*shape{"type": scalar, "type_version": scalar, "name": scalar, "version": scalar, "metadata": nil,
		"properties": {members: map[string]*shape{"description": scalar, "combiningAlgo": scalar, "target": target, "rules": list(rule), "default": scalar}}}}
	reference := &shape{members: map[string]*shape{"id": scalar, "version": scalar}}
	return &shape{members: map[string]*shape{"description": scalar, "policies": list(policy), "policySetIdRefs": list(reference)}}
})

// check fails if a value does not have the shape. path leads to the value, for errors. A
// null is a value that is not given. A nil shape is any value.
func (s *shape) check(v *tosca.Value, path string) error {
	switch {
	case s == nil || v.Kind == tosca.Null:
		return nil
	case s.other != nil && v.Kind != tosca.Map:
		return s.other.check(v, path)
	case s.members != nil && v.Kind != tosca.Map:
		return fmt.Errorf("%s: expected a map, got %s", path, v.Kind)
	case s.members != nil:
		return s.checkMembers(v, path)
	case s.item != nil && v.Kind != tosca.List:
		return fmt.Errorf("%s: expected a list, got %s", path, v.Kind)
	case s.item != nil:
		for i := range v.Items {
			if err := s.item.check(&v.Items[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case v.Kind == tosca.List || v.Kind == tosca.Map:
		return fmt.Errorf("%s: expected a string, a number or a boolean, got %s", path, v.Kind)
	}
	return nil
}

func (s *shape) checkMembers(v *tosca.Value, path string) error {
	for i := range v.Members {
		m := &v.Members[i]
		inner, known := s.members[m.Name]
		if !known {
			return unknownMember(path, m.Name, s.members)
		}
		if err := inner.check(&m.Value, path+"."+m.Name); err != nil {
			return err
		}
	}
	if s.one && len(v.Members) > 1 {
		return fmt.Errorf("%s: %d members: expected one of %s", path, len(v.Members), namesOf(s.members))
	}
	return nil
}

// unknownMember returns the error of a member that is not among the known ones.
func unknownMember[V any](path, name string, known map[string]V) error {
	return fmt.Errorf("%s: unknown member %.80q: expected one of %s", path, name, namesOf(known))
}

func namesOf[V any](known map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// checkDeclared fails if a policy has a property that its type and the ancestors of that do
// not declare, or if a value of a data type has a member that the data type does not
// declare. Properties with the names in also are accepted.
func checkDeclared(p *tosca.Entity, t Types, also ...string) error {
	name, version := p.Type()
	typ := t.Find(tosca.PolicyTypeSection, name, version)
	if typ == nil || p.Properties() == nil {
		return nil
	}
	return checkFields(p.Properties(), typ, t, "properties", also...)
}

// checkFields fails if a map has a member that a type does not declare.
func checkFields(v *tosca.Value, typ *tosca.Entity, t Types, path string, also ...string) error {
	declared := map[string]*tosca.Value{}
	for _, name := range also {
		declared[name] = &tosca.Value{}
	}
	for _, a := range t.Ancestors(typ) {
		if a.Properties() == nil {
			continue
		}
		for i := range a.Properties().Members {
			p := &a.Properties().Members[i]
			if declared[p.Name] == nil {
				declared[p.Name] = &p.Value
			}
		}
	}
	for i := range v.Members {
		m := &v.Members[i]
		if declared[m.Name] == nil {
			return unknownMember(path, m.Name, declared)
		}
		if err := checkValue(&m.Value, declared[m.Name], t, path+"."+m.Name); err != nil {
			return err
		}
	}
	return nil
}

// checkValue checks the value of a property: a map of a data type, or a list or a map of
// those.
func checkValue(v, property *tosca.Value, t Types, path string) error {
	name := property.Get("type").Scalar()
	entries := name == "list" || name == "map"
	if entries {
		name = entryType(property)
	}
	data := t.Find(tosca.DataTypeSection, name, "")
	if name == "" || data == nil {
		return nil
	}
	values := []tosca.Value{*v}
	if entries {
		values = v.Items
		for i := range v.Members {
			values = append(values, v.Members[i].Value)
		}
	}
	for i := range values {
		at := path
		if entries {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		if values[i].Kind != tosca.Map {
			continue
		}
		if err := checkFields(&values[i], data, t, at); err != nil {
			return err
		}
	}
	return nil
}
