package language

import (
	"bytes"
	"errors"
	"math"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// decoder reads a model's JSON form with the rules of the protocol's own
// library: unknown members are ignored, a member with the value null counts as
// absent, and a known member must not occur twice.
type decoder struct{ in *jsonread.Reader }

// decode reads a model. Its error is an [*Error].
func decode(src []byte) (*model, error) {
	in := jsonread.New(src)
	in.SetDepthMax(jsonNestingMax)
	d := decoder{in}
	m := &model{conditions: map[string]*condition{}}
	d.model(m)
	if err := in.End(); err != nil {
		return nil, jsonError(src, err)
	}
	return m, nil
}

func jsonError(src []byte, err error) *Error {
	e := &Error{Kind: ErrSyntax, Text: clip(err.Error())}
	var at *jsonread.Error
	if errors.As(err, &at) {
		before := src[:min(at.Offset, len(src))]
		e.Line = bytes.Count(before, []byte("\n")) + 1
		e.Column = utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	}
	return e
}

// object reads an object. member returns the function that reads the value of
// the member with the given name, or nil if the protocol has no such member.
func (d decoder) object(member func(name string) func()) {
	seen := map[string]bool{}
	d.in.Object()
	for name, ok := d.in.Entry(); ok; name, ok = d.in.Entry() {
		switch name { // the protocol has two names for these
		case "computed_userset":
			name = "computedUserset"
		case "tuple_to_userset":
			name = "tupleToUserset"
		}
		read := member(name)
		if read == nil {
			d.in.Discard()
			continue
		}
		if seen[name] {
			d.in.Fail("duplicate member " + name)
			return
		}
		seen[name] = true
		if !d.in.Null() {
			read()
		}
	}
}

// entries reads an object whose names are data. value reads one value.
func entries[V any](d decoder, to map[string]*V, value func(*V)) {
	d.in.Object()
	for name, ok := d.in.Entry(); ok; name, ok = d.in.Entry() {
		if to[name] != nil {
			d.in.Fail("duplicate name " + name)
			return
		}
		to[name] = new(V)
		value(to[name])
	}
}

// list reads an array.
func list[V any](d decoder, to *[]*V, value func(*V)) {
	for d.in.Array(); d.in.Item(); {
		v := new(V)
		value(v)
		*to = append(*to, v)
	}
}

func (d decoder) string(to *string) func() { return func() { *to = d.in.String() } }

func (d decoder) model(m *model) {
	d.object(func(name string) func() {
		switch name {
		case "id":
			return d.string(new(string)) // a model's id is no part of it
		case "schema_version":
			return d.string(&m.version)
		case "type_definitions":
			return func() { list(d, &m.types, d.typeDefinition) }
		case "conditions":
			return func() { entries(d, m.conditions, d.condition) }
		}
		return nil
	})
}

func (d decoder) typeDefinition(t *typeDefinition) {
	t.relations = map[string]*userset{}
	d.object(func(name string) func() {
		switch name {
		case "type":
			return d.string(&t.name)
		case "relations":
			return func() { entries(d, t.relations, d.userset) }
		case "metadata":
			return func() { t.metadata = &metadata{relations: map[string]*relationMetadata{}}; d.metadata(t.metadata) }
		}
		return nil
	})
}

func (d decoder) metadata(m *metadata) {
	d.object(func(name string) func() {
		switch name {
		case "relations":
			return func() { entries(d, m.relations, d.relationMetadata) }
		case "module":
			return d.string(&m.module)
		case "source_info":
			return d.source(&m.source)
		}
		return nil
	})
}

func (d decoder) relationMetadata(r *relationMetadata) {
	d.object(func(name string) func() {
		switch name {
		case "directly_related_user_types":
			return func() { list(d, &r.subjects, d.reference) }
		case "module":
			return d.string(&r.module)
		case "source_info":
			return d.source(&r.source)
		}
		return nil
	})
}

func (d decoder) source(to **sourceInfo) func() {
	return func() {
		s := &sourceInfo{}
		*to = s
		d.object(func(name string) func() {
			if name == "file" {
				return d.string(&s.file)
			}
			return nil
		})
	}
}

func (d decoder) reference(r *relationReference) {
	kind := func(k referenceKind) {
		if r.kind != plainReference {
			d.in.Fail("both relation and wildcard")
		}
		r.kind = k
	}
	d.object(func(name string) func() {
		switch name {
		case "type":
			return d.string(&r.typ)
		case "relation":
			return func() { kind(usersetReference); r.relation = d.in.String() }
		case "wildcard":
			return func() { kind(wildcardReference); d.empty() }
		case "condition":
			return d.string(&r.condition)
		}
		return nil
	})
}

// empty reads an object without known members.
func (d decoder) empty() { d.object(func(string) func() { return nil }) }

// userset recurses as deep as the text nests, which jsonNestingMax bounds.
func (d decoder) userset(u *userset) {
	d.object(func(name string) func() {
		var op usersetOp
		read := d.empty
		switch name {
		case "this":
			op = thisUserset
		case "computedUserset":
			op, read = computedUserset, d.objectRelation(&u.computed)
		case "tupleToUserset":
			op, read = tupleToUserset, func() { d.tupleToUserset(u) }
		case "union":
			op, read = union, func() { d.operands(u) }
		case "intersection":
			op, read = intersection, func() { d.operands(u) }
		case "difference":
			op, read = difference, func() { d.difference(u) }
		default:
			return nil
		}
		return func() {
			if u.op != noUserset {
				d.in.Fail("a second rewrite in one object")
				return
			}
			u.op = op
			read()
		}
	})
}

func (d decoder) objectRelation(to **objectRelation) func() {
	return func() {
		o := &objectRelation{}
		*to = o
		d.object(func(name string) func() {
			switch name {
			case "object":
				return d.string(&o.object)
			case "relation":
				return d.string(&o.relation)
			}
			return nil
		})
	}
}

func (d decoder) tupleToUserset(u *userset) {
	d.object(func(name string) func() {
		switch name {
		case "tupleset":
			return d.objectRelation(&u.tupleset)
		case "computedUserset":
			return d.objectRelation(&u.computed)
		}
		return nil
	})
}

func (d decoder) operands(u *userset) {
	d.object(func(name string) func() {
		if name == "child" {
			return func() { list(d, &u.children, d.userset) }
		}
		return nil
	})
}

func (d decoder) difference(u *userset) {
	u.children = make([]*userset, 2)
	d.object(func(name string) func() {
		i := 0
		switch name {
		case "base":
		case "subtract":
			i = 1
		default:
			return nil
		}
		return func() { u.children[i] = &userset{}; d.userset(u.children[i]) }
	})
}

func (d decoder) condition(c *condition) {
	c.parameters = map[string]*parameterType{}
	d.object(func(name string) func() {
		switch name {
		case "name":
			return d.string(&c.name)
		case "expression":
			return d.string(&c.expression)
		case "parameters":
			return func() { entries(d, c.parameters, d.parameterType) }
		case "metadata":
			return func() { c.metadata = &conditionMetadata{}; d.conditionMetadata(c.metadata) }
		}
		return nil
	})
}

func (d decoder) conditionMetadata(m *conditionMetadata) {
	d.object(func(name string) func() {
		switch name {
		case "module":
			return d.string(&m.module)
		case "source_info":
			return d.source(&m.source)
		}
		return nil
	})
}

func (d decoder) parameterType(p *parameterType) {
	d.object(func(name string) func() {
		switch name {
		case "type_name":
			return func() { p.kind = d.kind() }
		case "generic_types":
			return func() { list(d, &p.generics, d.parameterType) }
		}
		return nil
	})
}

// kind reads a value of the enum: a name, of which an unknown one is 0, or a
// number.
func (d decoder) kind() int32 {
	if d.in.Kind() != '"' {
		return int32(d.in.Int(math.MinInt32, math.MaxInt32))
	}
	return max(parameterKindNamed(d.in.String()), 0)
}
