package language

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// encoder writes a model's canonical JSON: the protocol's order of members, map
// keys sorted, no blanks, and no member that has its default value.
type encoder struct{ out []byte }

// encode returns the canonical JSON of a model.
func encode(m *model) []byte {
	e := &encoder{}
	e.object(func() {
		e.string("schema_version", m.version)
		encodeList(e, "type_definitions", m.types, e.typeDefinition)
		encodeMap(e, "conditions", m.conditions, e.condition)
	})
	return e.out
}

// object writes an object with the members that the function writes.
func (e *encoder) object(members func()) {
	e.out = append(e.out, '{')
	members()
	e.out = append(e.out, '}')
}

// name writes a member's name, after a comma where one is needed.
func (e *encoder) name(name string) {
	if last := e.out[len(e.out)-1]; last != '{' {
		e.out = append(e.out, ',')
	}
	e.out = append(jsonread.AppendString(e.out, name), ':')
}

// string writes a member whose value is a string, unless it is empty.
func (e *encoder) string(name, value string) {
	if value != "" {
		e.name(name)
		e.out = jsonread.AppendString(e.out, value)
	}
}

// encodeList writes a member whose value is an array, unless it is empty.
func encodeList[V any](e *encoder, name string, items []*V, item func(*V)) {
	if len(items) == 0 {
		return
	}
	e.name(name)
	e.out = append(e.out, '[')
	for i, v := range items {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.object(func() { item(v) })
	}
	e.out = append(e.out, ']')
}

// encodeMap writes a member whose value is an object with names that are data,
// unless it is empty.
func encodeMap[V any](e *encoder, name string, values map[string]*V, value func(*V)) {
	if len(values) == 0 {
		return
	}
	e.name(name)
	e.object(func() {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			e.name(key)
			e.object(func() { value(values[key]) })
		}
	})
}

func (e *encoder) typeDefinition(t *typeDefinition) {
	e.string("type", t.name)
	encodeMap(e, "relations", t.relations, e.userset)
	if t.metadata == nil {
		return
	}
	e.name("metadata")
	e.object(func() {
		encodeMap(e, "relations", t.metadata.relations, func(r *relationMetadata) {
			encodeList(e, "directly_related_user_types", r.subjects, e.reference)
			e.string("module", r.module)
			e.source(r.source)
		})
		e.string("module", t.metadata.module)
		e.source(t.metadata.source)
	})
}

func (e *encoder) source(s *sourceInfo) {
	if s != nil {
		e.name("source_info")
		e.object(func() { e.string("file", s.file) })
	}
}

func (e *encoder) reference(r *relationReference) {
	e.string("type", r.typ)
	switch r.kind {
	case usersetReference:
		e.name("relation")
		e.out = jsonread.AppendString(e.out, r.relation)
	case wildcardReference:
		e.name("wildcard")
		e.out = append(e.out, "{}"...)
	}
	e.string("condition", r.condition)
}

func (e *encoder) userset(u *userset) {
	if u.op == noUserset {
		return
	}
	if u.op == computedUserset {
		e.objectRelation("computedUserset", u.computed)
		return
	}
	e.name([...]string{thisUserset: "this", tupleToUserset: "tupleToUserset", union: "union", intersection: "intersection", difference: "difference"}[u.op])
	e.object(func() {
		switch u.op {
		case tupleToUserset:
			e.objectRelation("tupleset", u.tupleset)
			e.objectRelation("computedUserset", u.computed)
		case union, intersection:
			encodeList(e, "child", u.children, e.userset)
		case difference:
			e.operand("base", u.children[0])
			e.operand("subtract", u.children[1])
		}
	})
}

func (e *encoder) operand(name string, u *userset) {
	if u != nil {
		e.name(name)
		e.object(func() { e.userset(u) })
	}
}

func (e *encoder) objectRelation(name string, o *objectRelation) {
	if o != nil {
		e.name(name)
		e.object(func() {
			e.string("object", o.object)
			e.string("relation", o.relation)
		})
	}
}

func (e *encoder) condition(c *condition) {
	e.string("name", c.name)
	e.string("expression", c.expression)
	encodeMap(e, "parameters", c.parameters, e.parameterType)
	if c.metadata != nil {
		e.name("metadata")
		e.object(func() {
			e.string("module", c.metadata.module)
			e.source(c.metadata.source)
		})
	}
}

func (e *encoder) parameterType(p *parameterType) {
	if p.kind != 0 {
		e.name("type_name")
		if name := parameterKindName(p.kind); name != "" {
			e.out = jsonread.AppendString(e.out, name)
		} else {
			e.out = strconv.AppendInt(e.out, int64(p.kind), 10)
		}
	}
	encodeList(e, "generic_types", p.generics, e.parameterType)
}
