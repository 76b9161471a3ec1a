package permify

import (
	exprpb "google.golang.org/genproto/googleapis/api/expr/v1alpha1"

	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/door/permify/language"
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
func Definition(s *language.Schema, compiled *schema.Schema) (*basev1.SchemaDefinition, error) {
	d := &basev1.SchemaDefinition{
		EntityDefinitions: map[string]*basev1.EntityDefinition{},
		RuleDefinitions:   map[string]*basev1.RuleDefinition{},
		References:        map[string]basev1.SchemaDefinition_Reference{},
	}
	for _, e := range s.Entities {
		d.EntityDefinitions[e.Name] = entityDefinition(s, e)
		d.References[e.Name] = basev1.SchemaDefinition_REFERENCE_ENTITY
	}
	for _, r := range s.Rules {
		rule := &basev1.RuleDefinition{Name: r.Name, Arguments: map[string]basev1.AttributeType{}}
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
		d.References[r.Name] = basev1.SchemaDefinition_REFERENCE_RULE
	}
	return d, nil
}

// entityDefinition translates one entity.
func entityDefinition(s *language.Schema, e *language.Entity) *basev1.EntityDefinition {
	d := &basev1.EntityDefinition{Name: e.Name,
		Relations:   map[string]*basev1.RelationDefinition{},
		Permissions: map[string]*basev1.PermissionDefinition{},
		Attributes:  map[string]*basev1.AttributeDefinition{},
		References:  map[string]basev1.EntityDefinition_Reference{},
	}
	for i := range e.Statements {
		st := &e.Statements[i]
		switch st.Kind {
		case language.Relation:
			r := &basev1.RelationDefinition{Name: st.Name}
			for _, t := range st.Types {
				r.RelationReferences = append(r.RelationReferences, &basev1.RelationReference{Type: t.Entity, Relation: t.Relation})
			}
			d.Relations[st.Name] = r
			d.References[st.Name] = basev1.EntityDefinition_REFERENCE_RELATION
		case language.Attribute:
			d.Attributes[st.Name] = &basev1.AttributeDefinition{Name: st.Name, Type: wireType(st.Type)}
			d.References[st.Name] = basev1.EntityDefinition_REFERENCE_ATTRIBUTE
		case language.Permission:
			d.Permissions[st.Name] = &basev1.PermissionDefinition{Name: st.Name, Child: child(e, st.Expr)}
			d.References[st.Name] = basev1.EntityDefinition_REFERENCE_PERMISSION
		}
	}
	return d
}

// child translates an expression. Each operator has two operands, as in the
// parsed form.
func child(e *language.Entity, x *language.Expr) *basev1.Child {
	if x.Op == language.Leaf {
		return &basev1.Child{Type: &basev1.Child_Leaf{Leaf: leaf(e, x)}}
	}
	op := map[language.Op]basev1.Rewrite_Operation{
		language.And: basev1.Rewrite_OPERATION_INTERSECTION,
		language.Or:  basev1.Rewrite_OPERATION_UNION,
		language.Not: basev1.Rewrite_OPERATION_EXCLUSION,
	}[x.Op]
	return &basev1.Child{Type: &basev1.Child_Rewrite{Rewrite: &basev1.Rewrite{RewriteOperation: op,
		Children: []*basev1.Child{child(e, x.Left), child(e, x.Right)}}}}
}

// leaf translates an expression without an operator.
func leaf(e *language.Entity, x *language.Expr) *basev1.Leaf {
	switch {
	case x.Args != nil:
		call := &basev1.Call{RuleName: x.Path[0]}
		for _, a := range x.Args {
			call.Arguments = append(call.Arguments, argument(a))
		}
		return &basev1.Leaf{Type: &basev1.Leaf_Call{Call: call}}
	case len(x.Path) == 2:
		return &basev1.Leaf{Type: &basev1.Leaf_TupleToUserSet{TupleToUserSet: &basev1.TupleToUserSet{
			TupleSet: &basev1.TupleSet{Relation: x.Path[0]}, Computed: &basev1.ComputedUserSet{Relation: x.Path[1]}}}}
	}
	if st := e.Statement(x.Path[0]); st != nil && st.Kind == language.Attribute {
		return &basev1.Leaf{Type: &basev1.Leaf_ComputedAttribute{ComputedAttribute: &basev1.ComputedAttribute{Name: x.Path[0]}}}
	}
	return &basev1.Leaf{Type: &basev1.Leaf_ComputedUserSet{ComputedUserSet: &basev1.ComputedUserSet{Relation: x.Path[0]}}}
}

// argument returns the argument of a rule that reads an attribute.
func argument(name string) *basev1.Argument {
	return &basev1.Argument{Type: &basev1.Argument_ComputedAttribute{ComputedAttribute: &basev1.ComputedAttribute{Name: name}}}
}
