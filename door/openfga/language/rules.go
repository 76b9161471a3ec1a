package language

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The protocol states a rule for each field of its messages: patterns of names,
// lengths and numbers of items. The functions here apply these rules in the
// protocol's order and report the first violation in its words: the path of the
// field and the reason.

// Bounds of the protocol's rules.
const (
	typeNameRunesMax     = 254
	nameRunesMax         = 50 // of relations, conditions, parameters and modules
	expressionBytesMax   = 512
	relationNameBytesMax = 50
	objectBytesMax       = 256
	parametersMax        = 25
	genericTypesMax      = 5
	fileNameRunesMax     = 100
	fileNameSuffix       = ".fga"
	requiredRule         = "value is required"
)

// violation is a rule that a field breaks. The zero value is none.
type violation struct{ field, reason string }

// in puts a violation of a part below the field that holds the part.
func (v violation) in(field string) violation {
	if v.reason != "" {
		v.field = strings.TrimSuffix(field+"."+v.field, ".")
	}
	return v
}

// first returns the first violation that one of the functions reports.
func first(rules ...func() violation) violation {
	for _, rule := range rules {
		if v := rule(); v.reason != "" {
			return v
		}
	}
	return violation{}
}

// nameRule checks a name of the protocol: no blanks, no ':', '#' and '@'.
func nameRule(field, name string, runesMax int) violation {
	n := utf8.RuneCountInString(name)
	if n >= 1 && n <= runesMax && !strings.ContainsAny(name, ":#@\t\n\f\r ") {
		return violation{}
	}
	return violation{field, fmt.Sprintf(`value does not match regex pattern "^[^:#@\\s]{1,%d}$"`, runesMax)}
}

// optionalName is nameRule for a name that may be empty.
func optionalName(field, name string) violation {
	if name == "" {
		return violation{}
	}
	return nameRule(field, name, nameRunesMax)
}

// eachEntry checks the names and values of a map in the order of its names.
func eachEntry[V any](field string, values map[string]*V, named bool, value func(*V) violation) violation {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := fmt.Sprintf("%s[%v]", field, name)
		if named {
			if v := nameRule(at, name, nameRunesMax); v.reason != "" {
				return v
			}
		}
		if v := value(values[name]).in(at); v.reason != "" {
			return v
		}
	}
	return violation{}
}

func eachItem[V any](field string, items []*V, item func(*V) violation) violation {
	for i, x := range items {
		if v := item(x).in(fmt.Sprintf("%s[%d]", field, i)); v.reason != "" {
			return v
		}
	}
	return violation{}
}

// rules checks the whole model but its version.
func (m *model) rules() violation {
	if len(m.types) < 1 {
		return violation{"TypeDefinitions", "value must contain at least 1 item(s)"}
	}
	if v := eachItem("TypeDefinitions", m.types, (*typeDefinition).rules); v.reason != "" {
		return v
	}
	if len(m.conditions) > conditionsMax {
		return violation{"Conditions", fmt.Sprintf("value must contain no more than %d pair(s)", conditionsMax)}
	}
	return eachEntry("Conditions", m.conditions, true, (*condition).rules)
}

func (t *typeDefinition) rules() violation {
	return first(
		func() violation { return nameRule("Type", t.name, typeNameRunesMax) },
		func() violation { return eachEntry("Relations", t.relations, true, (*userset).rules) },
		func() violation { return t.metadata.rules().in("Metadata") },
	)
}

func (m *metadata) rules() violation {
	if m == nil {
		return violation{}
	}
	return first(
		func() violation { return eachEntry("Relations", m.relations, false, (*relationMetadata).rules) },
		func() violation { return optionalName("Module", m.module) },
		m.source.rules,
	)
}

func (r *relationMetadata) rules() violation {
	return first(
		func() violation { return eachItem("DirectlyRelatedUserTypes", r.subjects, (*relationReference).rules) },
		func() violation { return optionalName("Module", r.module) },
		r.source.rules,
	)
}

func (s *sourceInfo) rules() violation {
	if s == nil || s.file == "" {
		return violation{}
	}
	name, ok := strings.CutSuffix(s.file, fileNameSuffix)
	for _, c := range name {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '/')
	}
	if ok && len(name) >= 1 && len(name) <= fileNameRunesMax {
		return violation{}
	}
	return violation{"SourceInfo.File", `value does not match regex pattern "^[a-zA-Z0-9_\\-\\/]{1,100}\\.fga$"`}
}

func (r *relationReference) rules() violation {
	return first(
		func() violation { return nameRule("Type", r.typ, typeNameRunesMax) },
		func() violation { return optionalName("Condition", r.condition) },
		func() violation { return optionalName("Relation", r.relation) },
	)
}

// rules recurses as deep as the rewrite: the caller bounds that first.
func (u *userset) rules() violation {
	switch u.op {
	case computedUserset:
		return u.computed.rules().in("ComputedUserset")
	case tupleToUserset:
		return first(
			func() violation { return u.tupleset.required("Tupleset") },
			func() violation { return u.computed.required("ComputedUserset") },
		).in("TupleToUserset")
	case union:
		return eachItem("Child", u.children, (*userset).rules).in("Union")
	case intersection:
		return eachItem("Child", u.children, (*userset).rules).in("Intersection")
	case difference:
		return first(
			func() violation { return u.children[0].required("Base") },
			func() violation { return u.children[1].required("Subtract") },
		).in("Difference")
	}
	return violation{}
}

func (u *userset) required(field string) violation {
	if u == nil {
		return violation{field, requiredRule}
	}
	return u.rules().in(field)
}

func (o *objectRelation) required(field string) violation {
	if o == nil {
		return violation{field, requiredRule}
	}
	return o.rules().in(field)
}

func (o *objectRelation) rules() violation {
	return first(
		func() violation { return bytesRule("Object", o.object, objectBytesMax) },
		func() violation { return bytesRule("Relation", o.relation, relationNameBytesMax) },
	)
}

func bytesRule(field, s string, most int) violation {
	if len(s) <= most {
		return violation{}
	}
	return violation{field, fmt.Sprintf("value length must be at most %d bytes", most)}
}

func (c *condition) rules() violation {
	return first(
		func() violation { return nameRule("Name", c.name, nameRunesMax) },
		func() violation { return bytesRule("Expression", c.expression, expressionBytesMax) },
		func() violation {
			if len(c.parameters) > parametersMax {
				return violation{"Parameters", fmt.Sprintf("value must contain no more than %d pair(s)", parametersMax)}
			}
			return eachEntry("Parameters", c.parameters, true, (*parameterType).rules)
		},
		func() violation {
			if c.metadata == nil {
				return violation{}
			}
			return first(
				func() violation { return optionalName("Module", c.metadata.module) },
				c.metadata.source.rules,
			).in("Metadata")
		},
	)
}

// rules recurses as deep as the type: a text's nesting bounds that.
func (p *parameterType) rules() violation {
	if parameterKindName(p.kind) == "" {
		return violation{"TypeName", "value must be one of the defined enum values"}
	}
	if len(p.generics) > genericTypesMax {
		return violation{"GenericTypes", fmt.Sprintf("value must contain no more than %d item(s)", genericTypesMax)}
	}
	return eachItem("GenericTypes", p.generics, (*parameterType).rules)
}
