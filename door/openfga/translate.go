package openfga

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// typeDepthMax bounds generic types in each other.
const typeDepthMax = 5

// Translate is the function of that name within these bounds. Relations come
// out in order of name: the protocol keeps no other.
func (b Bounds) Translate(m *openfgav1.AuthorizationModel) (*schema.Model, error) {
	t := translation{in: m, out: &schema.Model{Options: schema.Options{
		Dialect: Dialect, MissingContextFails: true, StrictTuplesets: true, RequireEntrypoints: true,
	}}}
	for _, step := range []func(){func() { t.bounds(b) }, t.form, t.types, t.conditions, t.check} {
		if step(); len(t.errs) > 0 {
			return nil, errors.Join(t.errs...)
		}
	}
	return t.out, nil
}

type translation struct {
	in   *openfgav1.AuthorizationModel
	out  *schema.Model
	errs []error
	// typ and relation are being translated.
	typ, relation string
}

func (t *translation) fail(kind error, format string, args ...any) {
	if len(t.errs) < schema.ErrorsMax {
		t.errs = append(t.errs, &Error{Kind: kind, Type: t.typ, Relation: t.relation, Text: clip(fmt.Sprintf(format, args...))})
	}
}

// bounds comes before everything that recurses or is worth an attack.
func (t *translation) bounds(b Bounds) {
	if n := len(t.in.GetTypeDefinitions()); n > b.types() {
		t.errs = append(t.errs, boundError("types", n, b.types()))
		return
	}
	for _, d := range t.in.GetTypeDefinitions() {
		for name, r := range d.GetRelations() {
			if !depthWithin(r, schema.RewriteDepthMax) {
				t.typ, t.relation = d.GetType(), name
				t.fail(ErrBound, "rewrite deeper than %d operators", schema.RewriteDepthMax)
				return
			}
		}
	}
	if n := proto.Size(t.in); n > b.modelBytes() {
		t.errs = append(t.errs, boundError("bytes of model", n, b.modelBytes()))
	}
}

// depthWithin recurses at most most+1 times.
func depthWithin(r *openfgav1.Userset, most int) bool {
	if most <= 0 {
		return false
	}
	for _, ch := range children(r) {
		if !depthWithin(ch, most-1) {
			return false
		}
	}
	return true
}

func children(r *openfgav1.Userset) []*openfgav1.Userset {
	switch u := r.GetUserset().(type) {
	case *openfgav1.Userset_Union:
		return u.Union.GetChild()
	case *openfgav1.Userset_Intersection:
		return u.Intersection.GetChild()
	case *openfgav1.Userset_Difference:
		return []*openfgav1.Userset{u.Difference.GetBase(), u.Difference.GetSubtract()}
	}
	return nil
}

// form asks the protocol's own rules on names, lengths and numbers.
func (t *translation) form() {
	switch v := t.in.GetSchemaVersion(); v {
	case "1.1", "1.2", "": // the server reads a missing version as 1.1
	default:
		t.fail(ErrVersion, "%q; 1.1 and 1.2 are supported", v)
		return
	}
	version := t.in.GetSchemaVersion()
	if version == "" {
		version = "1.1"
	}
	request := &openfgav1.WriteAuthorizationModelRequest{
		StoreId:         "00000000000000000000000000", // any: required, but not part of the model
		SchemaVersion:   version,
		TypeDefinitions: t.in.GetTypeDefinitions(),
		Conditions:      t.in.GetConditions(),
	}
	if err := request.Validate(); err != nil {
		where, reason := fieldOf(err)
		t.fail(ErrForm, "%s: %s", where, reason)
	}
}

// fieldOf follows a rule's error down to the field it is about.
func fieldOf(err error) (where, reason string) {
	for {
		e, ok := err.(interface {
			Field() string
			Reason() string
			Cause() error
		})
		if !ok {
			return where, err.Error()
		}
		where = strings.TrimPrefix(where+"."+e.Field(), ".")
		if e.Cause() == nil {
			return where, e.Reason()
		}
		err = e.Cause()
	}
}

func (t *translation) types() {
	seen := map[string]bool{}
	for _, d := range t.in.GetTypeDefinitions() {
		t.typ, t.relation = d.GetType(), ""
		if seen[t.typ] {
			t.fail(ErrDuplicate, "")
		}
		seen[t.typ] = true
		if reserved(t.typ) {
			t.fail(ErrReserved, "")
		}
		def := schema.TypeDef{Name: d.GetType(), Module: d.GetMetadata().GetModule(), File: d.GetMetadata().GetSourceInfo().GetFile()}
		for _, name := range slices.Sorted(maps.Keys(d.GetRelations())) {
			t.relation = name
			if reserved(name) {
				t.fail(ErrReserved, "")
			}
			meta := d.GetMetadata().GetRelations()[name]
			def.Relations = append(def.Relations, schema.RelationDef{
				Name:     name,
				Rewrite:  t.rewrite(d.GetRelations()[name]),
				Subjects: t.subjects(meta.GetDirectlyRelatedUserTypes()),
				Module:   meta.GetModule(), File: meta.GetSourceInfo().GetFile(),
			})
		}
		t.out.Types = append(t.out.Types, def)
	}
	t.typ, t.relation = "", ""
}

func reserved(name string) bool { return name == "self" || name == "this" }

func (t *translation) rewrite(r *openfgav1.Userset) schema.Rewrite {
	switch u := r.GetUserset().(type) {
	case *openfgav1.Userset_This:
		return schema.Direct()
	case *openfgav1.Userset_ComputedUserset:
		if u.ComputedUserset.GetRelation() == t.relation {
			t.fail(ErrRewrite, "the relation is defined as itself")
		}
		return schema.Computed(u.ComputedUserset.GetRelation())
	case *openfgav1.Userset_TupleToUserset:
		return schema.Arrow(u.TupleToUserset.GetTupleset().GetRelation(), u.TupleToUserset.GetComputedUserset().GetRelation())
	case *openfgav1.Userset_Union:
		return schema.Union(t.operands(r)...)
	case *openfgav1.Userset_Intersection:
		return schema.Intersection(t.operands(r)...)
	case *openfgav1.Userset_Difference:
		return schema.Rewrite{Op: schema.OpExclusion, Children: t.operands(r)}
	}
	t.fail(ErrRewrite, "a part of the definition says nothing")
	return schema.Rewrite{}
}

func (t *translation) operands(r *openfgav1.Userset) []schema.Rewrite {
	var out []schema.Rewrite
	if len(children(r)) < 2 {
		// The original looks only where it searches for an entrypoint.
		t.fail(ErrRewrite, "a union or intersection of less than 2 operands")
	}
	for _, ch := range children(r) {
		out = append(out, t.rewrite(ch))
	}
	return out
}

// subjects keeps the first of equal restrictions: the original admits
// repetitions, which mean nothing.
func (t *translation) subjects(refs []*openfgav1.RelationReference) []schema.SubjectType {
	var out []schema.SubjectType
	for _, ref := range refs {
		st := schema.SubjectType{Type: ref.GetType(), Relation: ref.GetRelation(), Wildcard: ref.GetWildcard() != nil, Condition: ref.GetCondition()}
		if ref.GetRelationOrWildcard() != nil && !st.Wildcard && st.Relation == "" {
			t.fail(ErrRestriction, "a restriction to %q names neither a relation nor a wildcard", st.Type)
		}
		if !slices.Contains(out, st) {
			out = append(out, st)
		}
	}
	return out
}

func (t *translation) conditions() {
	for _, name := range slices.Sorted(maps.Keys(t.in.GetConditions())) {
		c := t.in.GetConditions()[name]
		if c.GetName() != name {
			t.errs = append(t.errs, &Error{Kind: ErrCondition, Condition: name, Text: fmt.Sprintf("its name says %q", c.GetName())})
			continue
		}
		def := expr.Definition{Name: name, Strict: true, Source: strings.TrimSpace(c.GetExpression()),
			Module: c.GetMetadata().GetModule(), File: c.GetMetadata().GetSourceInfo().GetFile()}
		for _, param := range slices.Sorted(maps.Keys(c.GetParameters())) {
			typ, err := paramType(c.GetParameters()[param], typeDepthMax)
			if err != nil {
				t.errs = append(t.errs, &Error{Kind: ErrCondition, Condition: name, Text: fmt.Sprintf("parameter %q: %v", param, err)})
			}
			def.Params = append(def.Params, expr.Param{Name: param, Type: typ})
		}
		t.out.Conditions = append(t.out.Conditions, def)
	}
}

func paramType(ref *openfgav1.ConditionParamTypeRef, depth int) (expr.Type, error) {
	if depth == 0 {
		return expr.Type{}, fmt.Errorf("more than %d types in each other", typeDepthMax)
	}
	kind, ok := paramKinds()[ref.GetTypeName()]
	if !ok {
		return expr.Type{}, fmt.Errorf("unknown type %s", ref.GetTypeName())
	}
	want := 0
	if kind == expr.List || kind == expr.Map {
		want = 1
	}
	if got := len(ref.GetGenericTypes()); got != want {
		return expr.Type{}, fmt.Errorf("%s has %d element types in place of %d", kind, got, want)
	}
	if want == 0 {
		return expr.Type{Kind: kind}, nil
	}
	elem, err := paramType(ref.GetGenericTypes()[0], depth-1)
	return expr.Type{Kind: kind, Elem: &elem}, err
}

func paramKinds() map[openfgav1.ConditionParamTypeRef_TypeName]expr.Kind {
	return map[openfgav1.ConditionParamTypeRef_TypeName]expr.Kind{
		openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY:       expr.Any,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_BOOL:      expr.Bool,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING:    expr.String,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_INT:       expr.Int,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_UINT:      expr.Uint,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_DOUBLE:    expr.Double,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_DURATION:  expr.Duration,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_TIMESTAMP: expr.Timestamp,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_MAP:       expr.Map,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_LIST:      expr.List,
		openfgav1.ConditionParamTypeRef_TYPE_NAME_IPADDRESS: expr.IPAddress,
	}
}
