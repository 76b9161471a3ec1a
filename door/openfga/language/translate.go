package language

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// translate checks a model and translates it. Relations come out in order of
// name: the JSON form keeps no other order.
func (b Bounds) translate(m *model) (*schema.Model, error) {
	t := translation{in: m, out: &schema.Model{Options: schema.Options{
		Dialect: Dialect, MissingContextFails: true, StrictTuplesets: true, RequireEntrypoints: true,
	}}}
	for _, step := range []func(){func() { t.bounds(b) }, t.form, t.types, t.conditions, t.cycles} {
		if step(); len(t.errs) > 0 {
			return nil, errors.Join(t.errs...)
		}
	}
	return t.out, nil
}

type translation struct {
	in   *model
	out  *schema.Model
	errs []error
	// typ and relation name the current part of the model, for errors.
	typ, relation string
}

func (t *translation) fail(kind error, format string, args ...any) {
	if len(t.errs) < schema.ErrorsMax {
		t.errs = append(t.errs, &Error{Kind: kind, Type: t.typ, Relation: t.relation, Text: clip(fmt.Sprintf(format, args...))})
	}
}

// bounds refuses models that are too large or too deep. It runs before any step
// that recurses.
func (t *translation) bounds(b Bounds) {
	if n := len(t.in.types); n > b.TypesMax() {
		t.errs = append(t.errs, boundError("types", n, b.TypesMax()))
		return
	}
	for _, d := range t.in.types {
		for name, u := range d.relations {
			if !u.depthWithin(schema.RewriteDepthMax) {
				t.typ, t.relation = d.name, name
				t.fail(ErrBound, "rewrite deeper than %d operators", schema.RewriteDepthMax)
				return
			}
		}
	}
	if n := t.in.size(); n > b.ModelBytesMax() {
		t.errs = append(t.errs, boundError("bytes of model", n, b.ModelBytesMax()))
	}
}

// depthWithin reports whether the rewrite has at most depthMax operators inside
// each other. It recurses at most one deeper.
func (u *userset) depthWithin(depthMax int) bool {
	if depthMax <= 0 {
		return false
	}
	for _, child := range u.children {
		if child != nil && !child.depthWithin(depthMax-1) {
			return false
		}
	}
	return true
}

// form applies the protocol's own rules on versions, names, lengths and numbers.
func (t *translation) form() {
	switch t.in.version {
	case "1.1", "1.2", "": // the server reads a missing version as 1.1
	default:
		t.fail(ErrVersion, "%q; 1.1 and 1.2 are supported", t.in.version)
		return
	}
	if v := t.in.rules(); v.reason != "" {
		t.fail(ErrForm, "%s: %s", v.field, v.reason)
	}
}

func (t *translation) types() {
	seen := map[string]bool{}
	for _, d := range t.in.types {
		t.typ, t.relation = d.name, ""
		if seen[t.typ] {
			t.fail(ErrDuplicate, "")
		}
		seen[t.typ] = true
		if reserved(t.typ) {
			t.fail(ErrReserved, "")
		}
		meta := d.metadata
		if meta == nil {
			meta = &metadata{}
		}
		def := schema.TypeDef{Name: d.name, Module: meta.module, File: meta.source.name()}
		for _, name := range slices.Sorted(maps.Keys(d.relations)) {
			t.relation = name
			if reserved(name) {
				t.fail(ErrReserved, "")
			}
			relation := meta.relations[name]
			if relation == nil {
				relation = &relationMetadata{}
			}
			def.Relations = append(def.Relations, schema.RelationDef{
				Name:     name,
				Rewrite:  t.rewrite(d.relations[name]),
				Subjects: t.subjects(relation.subjects),
				Module:   relation.module, File: relation.source.name(),
			})
		}
		t.out.Types = append(t.out.Types, def)
	}
	t.typ, t.relation = "", ""
}

// name returns the file's name, "" for nil.
func (s *sourceInfo) name() string {
	if s == nil {
		return ""
	}
	return s.file
}

func reserved(name string) bool { return name == "self" || name == "this" }

func (t *translation) rewrite(u *userset) schema.Rewrite {
	if u == nil { // a part of an exclusion that the JSON form lacks
		u = &userset{}
	}
	switch u.op {
	case thisUserset:
		return schema.Direct()
	case computedUserset:
		if u.computed.relation == t.relation {
			t.fail(ErrRewrite, "the relation is defined as itself")
		}
		return schema.Computed(u.computed.relation)
	case tupleToUserset:
		return schema.Arrow(u.tupleset.relation, u.computed.relation)
	case union:
		return schema.Union(t.operands(u)...)
	case intersection:
		return schema.Intersection(t.operands(u)...)
	case difference:
		return schema.Rewrite{Op: schema.OpExclusion, Children: t.operands(u)}
	}
	t.fail(ErrRewrite, "a part of the definition is empty")
	return schema.Rewrite{}
}

func (t *translation) operands(u *userset) []schema.Rewrite {
	var out []schema.Rewrite
	if len(u.children) < 2 {
		// OpenFGA refuses these only where it searches for an entrypoint.
		t.fail(ErrRewrite, "a union or intersection has fewer than 2 operands")
	}
	for _, child := range u.children {
		out = append(out, t.rewrite(child))
	}
	return out
}

// subjects keeps the first of equal restrictions: OpenFGA admits repetitions,
// which mean nothing.
func (t *translation) subjects(refs []*relationReference) []schema.SubjectType {
	var out []schema.SubjectType
	for _, ref := range refs {
		st := schema.SubjectType{Type: ref.typ, Relation: ref.relation, Wildcard: ref.kind == wildcardReference, Condition: ref.condition}
		if ref.kind == usersetReference && ref.relation == "" {
			t.fail(ErrRestriction, "a restriction to %q names neither a relation nor a wildcard", st.Type)
		}
		if !slices.Contains(out, st) {
			out = append(out, st)
		}
	}
	return out
}

func (t *translation) conditions() {
	for _, name := range slices.Sorted(maps.Keys(t.in.conditions)) {
		c := t.in.conditions[name]
		if c.name != name {
			t.errs = append(t.errs, &Error{Kind: ErrCondition, Condition: name, Text: fmt.Sprintf("its name is %q", c.name)})
			continue
		}
		def := expr.Definition{Name: name, Strict: true, Source: strings.TrimSpace(c.expression)}
		if c.metadata != nil {
			def.Module, def.File = c.metadata.module, c.metadata.source.name()
		}
		for _, parameter := range slices.Sorted(maps.Keys(c.parameters)) {
			typ, err := c.parameters[parameter].translate(TypeDepthMax)
			if err != nil {
				t.errs = append(t.errs, &Error{Kind: ErrCondition, Condition: name, Text: fmt.Sprintf("parameter %q: %v", parameter, err)})
			}
			def.Params = append(def.Params, expr.Param{Name: parameter, Type: typ})
		}
		t.out.Conditions = append(t.out.Conditions, def)
	}
}

// translate recurses at most depthMax deep.
func (p *parameterType) translate(depthMax int) (expr.Type, error) {
	if depthMax == 0 {
		return expr.Type{}, fmt.Errorf("more than %d nested types", TypeDepthMax)
	}
	kind, ok := parameterKind(p.kind)
	if !ok {
		return expr.Type{}, fmt.Errorf("unknown type %s", cmp.Or(parameterKindName(p.kind), strconv.Itoa(int(p.kind))))
	}
	expected := 0
	if kind == expr.List || kind == expr.Map {
		expected = 1
	}
	if got := len(p.generics); got != expected {
		return expr.Type{}, fmt.Errorf("%s has %d element types, expected %d", kind, got, expected)
	}
	if expected == 0 {
		return expr.Type{Kind: kind}, nil
	}
	elem, err := p.generics[0].translate(depthMax - 1)
	return expr.Type{Kind: kind, Elem: &elem}, err
}
