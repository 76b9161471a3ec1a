package openfga

import (
	"fmt"
	"slices"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/openfga/language/pkg/go/transformer"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// Message translates a model back into the protocol's message. A model that
// uses what OpenFGA has no words for (attributes, rules, a namespace, more
// than one relation under an arrow) is ErrInexpressible. The schema version is
// 1.2 if the model has modules, else 1.1.
func Message(m *schema.Model) (*openfgav1.AuthorizationModel, error) {
	if m.Namespace != "" {
		return nil, inexpressible("", "", "a namespace")
	}
	out := &openfgav1.AuthorizationModel{SchemaVersion: "1.1", Conditions: map[string]*openfgav1.Condition{}}
	if modular(m) {
		out.SchemaVersion = "1.2"
	}
	for i := range m.Types {
		def, err := typeMessage(&m.Types[i])
		if err != nil {
			return nil, err
		}
		out.TypeDefinitions = append(out.TypeDefinitions, def)
	}
	for _, c := range m.Conditions {
		if c.Name != inlineName { // the protocol knows it without a definition
			out.Conditions[c.Name] = conditionMessage(c)
		}
	}
	return out, nil
}

// FormatJSON prints a model as canonical JSON.
func FormatJSON(m *schema.Model) ([]byte, error) {
	msg, err := Message(m)
	if err != nil {
		return nil, err
	}
	return canonicalJSON(msg)
}

// FormatDSL prints a model in the DSL, which reads back as the same model but
// for its modules and files, for which the DSL of a whole model has no place.
// A model for which no such text exists is ErrInexpressible.
func FormatDSL(m *schema.Model) (text string, err error) {
	defer func() {
		if recover() != nil { // the library indexes what a broken model lacks
			text, err = "", inexpressible("", "", "a part that is broken")
		}
	}()
	msg, err := Message(m)
	if err != nil {
		return "", err
	}
	for _, d := range msg.TypeDefinitions {
		d.Metadata.Module, d.Metadata.SourceInfo = "", nil // or the types are sorted by it
	}
	text, err = transformer.TransformJSONProtoToDSL(msg)
	if err != nil {
		return "", &Error{Kind: ErrInexpressible, Text: clip(err.Error()), cause: err}
	}
	back, _, err := Bounds{Types: len(m.Types), ModelBytes: SourceBytesMax}.ParseDSL([]byte(text))
	if err != nil {
		return "", inexpressible("", "", "what the DSL cannot say: "+clip(err.Error()))
	}
	if !sameMeaning(m, back) {
		return "", inexpressible("", "", "what the DSL would say otherwise")
	}
	return text, nil
}

func inexpressible(typ, relation, what string) *Error {
	return &Error{Kind: ErrInexpressible, Type: typ, Relation: relation, Text: "it has " + what}
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

func typeMessage(t *schema.TypeDef) (*openfgav1.TypeDefinition, error) {
	if len(t.Attributes) > 0 {
		return nil, inexpressible(t.Name, "", "attributes")
	}
	def := &openfgav1.TypeDefinition{Type: t.Name, Relations: map[string]*openfgav1.Userset{}, Metadata: &openfgav1.Metadata{
		Relations: map[string]*openfgav1.RelationMetadata{}, Module: t.Module, SourceInfo: sourceInfo(t.File),
	}}
	for i := range t.Relations {
		r := &t.Relations[i]
		u, err := rewriteMessage(t.Name, r.Name, &r.Rewrite)
		if err != nil {
			return nil, err
		}
		def.Relations[r.Name] = u
		meta := &openfgav1.RelationMetadata{Module: r.Module, SourceInfo: sourceInfo(r.File)}
		for _, st := range r.Subjects {
			meta.DirectlyRelatedUserTypes = append(meta.DirectlyRelatedUserTypes, subjectMessage(st))
		}
		def.Metadata.Relations[r.Name] = meta
	}
	return def, nil
}

func sourceInfo(file string) *openfgav1.SourceInfo {
	if file == "" {
		return nil
	}
	return &openfgav1.SourceInfo{File: file}
}

func subjectMessage(st schema.SubjectType) *openfgav1.RelationReference {
	ref := &openfgav1.RelationReference{Type: st.Type, Condition: st.Condition}
	switch {
	case st.Wildcard:
		ref.RelationOrWildcard = &openfgav1.RelationReference_Wildcard{Wildcard: &openfgav1.Wildcard{}}
	case st.Relation != "":
		ref.RelationOrWildcard = &openfgav1.RelationReference_Relation{Relation: st.Relation}
	}
	return ref
}

// rewriteMessage recurses as deep as the model, which schema.Compile bounds;
// of a model that was not compiled the caller must know it.
func rewriteMessage(typ, relation string, r *schema.Rewrite) (*openfgav1.Userset, error) {
	switch r.Op {
	case schema.OpDirect:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_This{This: &openfgav1.DirectUserset{}}}, nil
	case schema.OpComputed:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_ComputedUserset{ComputedUserset: &openfgav1.ObjectRelation{Relation: r.Relation}}}, nil
	case schema.OpArrow:
		if len(r.Children) != 1 || r.Children[0].Op != schema.OpComputed {
			return nil, inexpressible(typ, relation, "more than one relation under an arrow")
		}
		return &openfgav1.Userset{Userset: &openfgav1.Userset_TupleToUserset{TupleToUserset: &openfgav1.TupleToUserset{
			Tupleset:        &openfgav1.ObjectRelation{Relation: r.Relation},
			ComputedUserset: &openfgav1.ObjectRelation{Relation: r.Children[0].Relation},
		}}}, nil
	}
	operands := make([]*openfgav1.Userset, len(r.Children))
	for i := range r.Children {
		var err error
		if operands[i], err = rewriteMessage(typ, relation, &r.Children[i]); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Op == schema.OpUnion:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_Union{Union: &openfgav1.Usersets{Child: operands}}}, nil
	case r.Op == schema.OpIntersection:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_Intersection{Intersection: &openfgav1.Usersets{Child: operands}}}, nil
	case r.Op == schema.OpExclusion && len(operands) == 2:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_Difference{Difference: &openfgav1.Difference{Base: operands[0], Subtract: operands[1]}}}, nil
	}
	return nil, inexpressible(typ, relation, "an attribute, a rule or a broken definition")
}

func conditionMessage(c expr.Definition) *openfgav1.Condition {
	out := &openfgav1.Condition{Name: c.Name, Expression: c.Source, Parameters: map[string]*openfgav1.ConditionParamTypeRef{}}
	if c.Module != "" || c.File != "" {
		out.Metadata = &openfgav1.ConditionMetadata{Module: c.Module, SourceInfo: sourceInfo(c.File)}
	}
	for _, p := range c.Params {
		out.Parameters[p.Name] = paramMessage(p.Type)
	}
	return out
}

func paramMessage(t expr.Type) *openfgav1.ConditionParamTypeRef {
	ref := &openfgav1.ConditionParamTypeRef{}
	for name, kind := range paramKinds() {
		if kind == t.Kind {
			ref.TypeName = name
		}
	}
	if t.Elem != nil {
		ref.GenericTypes = []*openfgav1.ConditionParamTypeRef{paramMessage(*t.Elem)}
	}
	return ref
}

// sameMeaning compares models by everything but modules and files, and where
// the DSL's printer puts "this" first, by the set of a union's or
// intersection's operands.
func sameMeaning(a, b *schema.Model) bool { return describe(a) == describe(b) }

// describe prints a model unambiguously for sameMeaning alone.
func describe(m *schema.Model) string {
	var b strings.Builder
	for _, t := range m.Types {
		fmt.Fprintf(&b, "type %q\n", t.Name)
		relations := slices.Clone(t.Relations)
		slices.SortFunc(relations, func(x, y schema.RelationDef) int { return strings.Compare(x.Name, y.Name) })
		for _, r := range relations {
			fmt.Fprintf(&b, " %q %q ", r.Name, r.Subjects)
			describeRewrite(&b, &r.Rewrite)
			b.WriteByte('\n')
		}
	}
	conditions := slices.Clone(m.Conditions)
	slices.SortFunc(conditions, func(x, y expr.Definition) int { return strings.Compare(x.Name, y.Name) })
	for _, c := range conditions {
		params := slices.Clone(c.Params)
		slices.SortFunc(params, func(x, y expr.Param) int { return strings.Compare(x.Name, y.Name) })
		fmt.Fprintf(&b, "condition %q %q", c.Name, c.Source)
		for _, p := range params {
			fmt.Fprintf(&b, " %q %s", p.Name, p.Type)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func describeRewrite(b *strings.Builder, r *schema.Rewrite) {
	fmt.Fprintf(b, "(%s %q", r.Op, r.Relation)
	operands := slices.Clone(r.Children)
	if r.Op == schema.OpUnion || r.Op == schema.OpIntersection {
		slices.SortStableFunc(operands, func(x, y schema.Rewrite) int { return directFirst(x) - directFirst(y) })
	}
	for i := range operands {
		describeRewrite(b, &operands[i])
	}
	b.WriteByte(')')
}

func directFirst(r schema.Rewrite) int {
	if r.Op == schema.OpDirect {
		return 0
	}
	return 1
}
