package permify

import (
	exprpb "google.golang.org/genproto/googleapis/api/expr/v1alpha1"

	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/schema"
)

// checkedExpr is an optional method of a compiled condition. It returns the
// checked expression, which the protocol includes in a schema's definition.
type checkedExpr interface {
	CheckedExpr() (*exprpb.CheckedExpr, error)
}

// Definition translates a schema into the protocol's message. If compiled is
// not nil, rules include their checked expressions. It fails if one of these
// cannot be encoded.
func Definition(s *language.Schema, compiled *schema.Schema) (*permifypb.SchemaDefinition, error) {
	d := &permifypb.SchemaDefinition{
		EntityDefinitions: map[string]*permifypb.EntityDefinition{},
		RuleDefinitions:   map[string]*permifypb.RuleDefinition{},
		References:        map[string]permifypb.SchemaDefinition_Reference{},
	}
	for _, e := range s.Entities {
		d.EntityDefinitions[e.Name] = entityDefinition(s, e)
		d.References[e.Name] = permifypb.SchemaDefinition_REFERENCE_ENTITY
	}
	for _, r := range s.Rules {
		rule := &permifypb.RuleDefinition{Name: r.Name, Arguments: map[string]permifypb.AttributeType{}}
		for _, p := range r.Params {
			rule.Arguments[p.Name] = wireType(p.Type)
		}
		if compiled != nil && compiled.Conditions[r.Name] != nil {
			if p, ok := compiled.Conditions[r.Name].Program.(checkedExpr); ok {
				var err error
				if rule.Expression, err = p.CheckedExpr(); err != nil {
					return nil, err
				}
			}
		}
		d.RuleDefinitions[r.Name] = rule
		d.References[r.Name] = permifypb.SchemaDefinition_REFERENCE_RULE
	}
	return d, nil
}

// entityDefinition translates one entity.
func entityDefinition(s *language.Schema, e *language.Entity) *permifypb.EntityDefinition {
	d := &permifypb.EntityDefinition{Name: e.Name,
		Relations:   map[string]*permifypb.RelationDefinition{},
		Permissions: map[string]*permifypb.PermissionDefinition{},
		Attributes:  map[string]*permifypb.AttributeDefinition{},
		References:  map[string]permifypb.EntityDefinition_Reference{},
	}
	for i := range e.Statements {
		st := &e.Statements[i]
		switch st.Kind {
		case language.Relation:
			r := &permifypb.RelationDefinition{Name: st.Name}
			for _, t := range st.Types {
				r.RelationReferences = append(r.RelationReferences, &permifypb.RelationReference{Type: t.Entity, Relation: t.Relation})
			}
			d.Relations[st.Name] = r
			d.References[st.Name] = permifypb.EntityDefinition_REFERENCE_RELATION
		case language.Attribute:
			d.Attributes[st.Name] = &permifypb.AttributeDefinition{Name: st.Name, Type: wireType(st.Type)}
			d.References[st.Name] = permifypb.EntityDefinition_REFERENCE_ATTRIBUTE
		case language.Permission:
			d.Permissions[st.Name] = &permifypb.PermissionDefinition{Name: st.Name, Child: child(e, st.Expr)}
			d.References[st.Name] = permifypb.EntityDefinition_REFERENCE_PERMISSION
		}
	}
	return d
}

// child translates an expression. Each operator has two operands, as in the
// parsed form.
func child(e *language.Entity, x *language.Expr) *permifypb.Child {
	if x.Op == language.Leaf {
		return &permifypb.Child{Type: &permifypb.Child_Leaf{Leaf: leaf(e, x)}}
	}
	op := map[language.Op]permifypb.Rewrite_Operation{
		language.And: permifypb.Rewrite_OPERATION_INTERSECTION,
		language.Or:  permifypb.Rewrite_OPERATION_UNION,
		language.Not: permifypb.Rewrite_OPERATION_EXCLUSION,
	}[x.Op]
	return &permifypb.Child{Type: &permifypb.Child_Rewrite{Rewrite: &permifypb.Rewrite{RewriteOperation: op,
		Children: []*permifypb.Child{child(e, x.Left), child(e, x.Right)}}}}
}

// leaf translates an expression without an operator.
func leaf(e *language.Entity, x *language.Expr) *permifypb.Leaf {
	switch {
	case x.Args != nil:
		call := &permifypb.Call{RuleName: x.Path[0]}
		for _, a := range x.Args {
			call.Arguments = append(call.Arguments, argument(a))
		}
		return &permifypb.Leaf{Type: &permifypb.Leaf_Call{Call: call}}
	case len(x.Path) == 2:
		return &permifypb.Leaf{Type: &permifypb.Leaf_TupleToUserSet{TupleToUserSet: &permifypb.TupleToUserSet{
			TupleSet: &permifypb.TupleSet{Relation: x.Path[0]}, Computed: &permifypb.ComputedUserSet{Relation: x.Path[1]}}}}
	}
	if st := e.Statement(x.Path[0]); st != nil && st.Kind == language.Attribute {
		return &permifypb.Leaf{Type: &permifypb.Leaf_ComputedAttribute{ComputedAttribute: &permifypb.ComputedAttribute{Name: x.Path[0]}}}
	}
	return &permifypb.Leaf{Type: &permifypb.Leaf_ComputedUserSet{ComputedUserSet: &permifypb.ComputedUserSet{Relation: x.Path[0]}}}
}

// argument returns the argument of a rule that reads an attribute.
func argument(name string) *permifypb.Argument {
	return &permifypb.Argument{Type: &permifypb.Argument_ComputedAttribute{ComputedAttribute: &permifypb.ComputedAttribute{Name: name}}}
}
