package language

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// FormatJSON prints a model as canonical JSON. It fails with [ErrInexpressible]
// if the model uses what OpenFGA's models do not have: attributes, rules, a
// namespace, or more than one relation under an arrow. The schema version is 1.2
// if the model has modules, else 1.1.
func FormatJSON(m *schema.Model) ([]byte, error) {
	out, err := untranslate(m)
	if err != nil {
		return nil, err
	}
	return encode(out), nil
}

// FormatDSL prints a model in the DSL. The text reads back as the same model
// without its modules and files: the DSL of a whole model cannot express these.
// It fails with [ErrInexpressible] if there is no such text.
func FormatDSL(m *schema.Model) (string, error) {
	out, err := untranslate(m)
	if err != nil {
		return "", err
	}
	text, err := printDSL(out)
	if err != nil {
		return "", err
	}
	back, _, err := Bounds{Types: len(m.Types), ModelBytes: SourceBytesMax}.ParseDSL([]byte(text))
	if err != nil {
		return "", inexpressible("", "", "a part that the DSL cannot express: "+clip(err.Error()))
	}
	if !sameMeaning(m, back) {
		return "", inexpressible("", "", "a part that the DSL expresses differently")
	}
	return text, nil
}

func inexpressible(typ, relation, what string) *Error {
	return &Error{Kind: ErrInexpressible, Type: typ, Relation: relation, Text: "it has " + what}
}

// untranslate is the reverse of [Bounds.translate].
func untranslate(m *schema.Model) (*model, error) {
	if m.Namespace != "" {
		return nil, inexpressible("", "", "a namespace")
	}
	out := &model{version: "1.1", conditions: map[string]*condition{}}
	if modular(m) {
		out.version = modularVersion
	}
	for i := range m.Types {
		def, err := untranslateType(&m.Types[i])
		if err != nil {
			return nil, err
		}
		out.types = append(out.types, def)
	}
	for _, c := range m.Conditions {
		if c.Name != InlineCondition { // it needs no definition in the protocol
			out.conditions[c.Name] = untranslateCondition(c)
		}
	}
	return out, nil
}

func modular(m *schema.Model) bool {
	for i := range m.Types {
		t := &m.Types[i]
		if t.Module != "" || slices.ContainsFunc(t.Relations, func(r schema.RelationDef) bool { return r.Module != "" }) {
			return true
		}
	}
	return slices.ContainsFunc(m.Conditions, func(c expr.Definition) bool { return c.Module != "" })
}

func untranslateType(t *schema.TypeDef) (*typeDefinition, error) {
	if len(t.Attributes) > 0 {
		return nil, inexpressible(t.Name, "", "attributes")
	}
	def := &typeDefinition{name: t.Name, relations: map[string]*userset{}, metadata: &metadata{
		relations: map[string]*relationMetadata{}, module: t.Module, source: sourceOf(t.File),
	}}
	for i := range t.Relations {
		r := &t.Relations[i]
		u, err := untranslateRewrite(t.Name, r.Name, &r.Rewrite)
		if err != nil {
			return nil, err
		}
		def.relations[r.Name] = u
		meta := &relationMetadata{module: r.Module, source: sourceOf(r.File)}
		for _, st := range r.Subjects {
			meta.subjects = append(meta.subjects, referenceOf(st))
		}
		def.metadata.relations[r.Name] = meta
	}
	return def, nil
}

func sourceOf(file string) *sourceInfo {
	if file == "" {
		return nil
	}
	return &sourceInfo{file}
}

func referenceOf(st schema.SubjectType) *relationReference {
	ref := &relationReference{typ: st.Type, condition: st.Condition}
	switch {
	case st.Wildcard:
		ref.kind = wildcardReference
	case st.Relation != "":
		ref.kind, ref.relation = usersetReference, st.Relation
	}
	return ref
}

// untranslateRewrite recurses as deep as the rewrite, which [schema.Compile]
// bounds. The caller bounds a model that was not compiled.
func untranslateRewrite(typ, relation string, r *schema.Rewrite) (*userset, error) {
	switch r.Op {
	case schema.OpDirect:
		return &userset{op: thisUserset}, nil
	case schema.OpComputed:
		return &userset{op: computedUserset, computed: &objectRelation{relation: r.Relation}}, nil
	case schema.OpArrow:
		if len(r.Children) != 1 || r.Children[0].Op != schema.OpComputed {
			return nil, inexpressible(typ, relation, "more than one relation under an arrow")
		}
		return &userset{op: tupleToUserset, tupleset: &objectRelation{relation: r.Relation}, computed: &objectRelation{relation: r.Children[0].Relation}}, nil
	}
	u := &userset{children: make([]*userset, len(r.Children))}
	for i := range r.Children {
		var err error
		if u.children[i], err = untranslateRewrite(typ, relation, &r.Children[i]); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Op == schema.OpUnion:
		u.op = union
	case r.Op == schema.OpIntersection:
		u.op = intersection
	case r.Op == schema.OpExclusion && len(u.children) == 2:
		u.op = difference
	default:
		return nil, inexpressible(typ, relation, "an attribute, a rule or a broken definition")
	}
	return u, nil
}

func untranslateCondition(c expr.Definition) *condition {
	out := &condition{name: c.Name, expression: c.Source, parameters: map[string]*parameterType{}}
	if c.Module != "" || c.File != "" {
		out.metadata = &conditionMetadata{module: c.Module, source: sourceOf(c.File)}
	}
	for _, p := range c.Params {
		out.parameters[p.Name] = parameterOf(p.Type)
	}
	return out
}

func parameterOf(t expr.Type) *parameterType {
	p := &parameterType{kind: parameterKindNumber(t.Kind)}
	if t.Elem != nil {
		p.generics = []*parameterType{parameterOf(*t.Elem)}
	}
	return p
}
