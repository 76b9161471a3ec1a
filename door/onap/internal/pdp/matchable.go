package pdp

import (
	"context"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// matchable is a property that a request can be matched with.
type matchable struct {
	typ value.Type // type of the value or of the entries
	set bool       // a list or a map of values
}

// primitives are TOSCA's primitive types, with the functions that compare them.
var primitives = map[string]struct {
	typ   value.Type
	equal string
}{
	"string":    {value.String, functionStringEqual},
	"integer":   {value.Integer, functionIntegerEqual},
	"float":     {value.Double, functions1 + "double-equal"},
	"boolean":   {value.Boolean, functions1 + "boolean-equal"},
	"timestamp": {value.DateTime, functions1 + "dateTime-equal"},
}

// equalFunction returns the function that compares values of a primitive type.
func equalFunction(t value.Type) string {
	for _, p := range primitives {
		if p.typ == t {
			return p.equal
		}
	}
	return ""
}

// matchableProperties returns the matchable properties of a type, its ancestors
// and their data types, by name.
func matchableProperties(typ *tosca.Entity, t Types) map[string]matchable {
	found, seen := map[string]matchable{}, map[*tosca.Entity]bool{}
	var scan func(e *tosca.Entity)
	scan = func(e *tosca.Entity) {
		for _, a := range t.Ancestors(e) {
			if seen[a] || a.Properties() == nil {
				continue
			}
			seen[a] = true
			for i := range a.Properties().Members {
				p := &a.Properties().Members[i]
				if _, known := found[p.Name]; known {
					continue
				}
				typ := p.Value.Get("type").Scalar()
				set := typ == "list" || typ == "map"
				if set {
					typ = entryType(&p.Value)
				}
				if primitive, ok := primitives[typ]; ok {
					if p.Value.Get(tosca.Metadata).Get("matchable").Scalar() == "true" {
						found[p.Name] = matchable{primitive.typ, set}
					}
				} else if data := t.Find(tosca.DataTypeSection, typ, ""); data != nil {
					scan(data)
				}
			}
		}
	}
	scan(typ)
	return found
}

// entryType returns the type of the entries of a list or a map.
func entryType(property *tosca.Value) string {
	schema := property.Get("entry_schema")
	if schema.Scalar() != "" {
		return schema.Scalar()
	}
	return schema.Get("type").Scalar()
}

// translateMatchable makes a policy that permits requests whose attributes fit
// the matchable properties.
func translateMatchable(_ context.Context, p *tosca.Entity, t Types) (translated, error) {
	name, version := p.Type()
	typ := t.Find(tosca.PolicyTypeSection, name, version)
	if typ == nil {
		return translated{}, fmt.Errorf("the policy type %s:%s does not exist", name, version)
	}
	b := matchBuilder{known: matchableProperties(typ, t), types: map[string][]value.Type{}}
	if properties := p.Properties(); properties != nil {
		if err := b.addAll(properties); err != nil {
			return translated{}, err
		}
	}
	bag := resource(attributePolicyType, value.String)
	condition := apply(functionOr,
		apply(functionIntegerEqual, apply(functions1+"string-bag-size", bag), literal(value.NewInteger(0))),
		apply(functions1+"string-is-in", literal(value.NewString(name)), bag))
	return translated{weight: b.weight, types: b.types, element: &policy.Policy{
		Header: policy.Header{ID: p.Name, Version: p.Version, Algorithm: policy.AlgorithmRulesFirstApplicable, Target: b.target, Obligations: answerWith(p)},
		Rules:  []policy.Rule{{ID: p.Name + ":rule", Effect: policy.Permit, Condition: condition}}}}, nil
}

// matchBuilder makes the target of a policy from its properties.
type matchBuilder struct {
	known  map[string]matchable
	target policy.Target
	weight int
	types  map[string][]value.Type
}

// addAll adds the matchable properties of a map, and of the maps in it.
func (b *matchBuilder) addAll(properties *tosca.Value) error {
	for i := range properties.Members {
		m := &properties.Members[i]
		if known, ok := b.known[m.Name]; ok {
			if err := b.add(m.Name, known, &m.Value); err != nil {
				return fmt.Errorf("property %s: %w", m.Name, err)
			}
			continue
		}
		inner := []tosca.Value{m.Value}
		if m.Value.Kind == tosca.List {
			inner = m.Value.Items
		}
		for j := range inner {
			if inner[j].Kind != tosca.Map {
				continue
			}
			if err := b.addAll(&inner[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds one matchable property: an alternative for each of its values. An
// empty list or map constrains nothing.
func (b *matchBuilder) add(name string, m matchable, v *tosca.Value) error {
	var any policy.AnyOf
	alternative := func(id string, v *tosca.Value) error {
		if v.Kind == tosca.List || v.Kind == tosca.Map || v.Kind == tosca.Null {
			return fmt.Errorf("expected a value of the type %s, got %s", m.typ, v.Kind)
		}
		parsed, err := value.Parse(m.typ, v.Text)
		if err != nil {
			return err
		}
		any = append(any, policy.AllOf{match(equalFunction(m.typ), parsed, attributeMatchable+id)})
		b.weight++
		if !slices.Contains(b.types[id], m.typ) {
			b.types[id] = append(b.types[id], m.typ)
		}
		return nil
	}
	var err error
	switch {
	case m.set && v.Kind == tosca.List:
		for i := range v.Items {
			if err = alternative(name, &v.Items[i]); err != nil {
				return err
			}
		}
	case m.set && v.Kind == tosca.Map:
		for i := range v.Members {
			if err = alternative(name+":"+v.Members[i].Name, &v.Members[i].Value); err != nil {
				return err
			}
		}
	default:
		err = alternative(name, v)
	}
	if len(any) > 0 {
		b.target = append(b.target, any)
	}
	return err
}
