package permify

import (
	"context"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Bounds of an expansion.
const (
	// expandLevels bounds the hops from the root. Deeper nodes are left out.
	expandLevels = 50
	// expandNodesMax bounds the nodes of the tree. Exceeding it is an error.
	expandNodesMax = 100_000
)

// Expand implements Permission.Expand. A node that occurs several times in the
// tree is expanded once, so a cycle ends where it returns to a node.
func (s *service) Expand(ctx context.Context, r *permifypb.PermissionExpandRequest) (*permifypb.PermissionExpandResponse, error) {
	if err := checkTenant("PermissionExpandRequest", r.TenantId); err != nil {
		return nil, err
	}
	if r.Metadata == nil {
		return nil, requiredError("PermissionExpandRequest.Metadata")
	}
	if err := checkEntity("PermissionExpandRequest.Entity", r.Entity); err != nil {
		return nil, err
	}
	if r.Permission != "" && !validName(r.Permission) {
		return nil, patternError("PermissionExpandRequest.Permission", namePattern)
	}
	if err := checkContext(r.Context); err != nil {
		return nil, err
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	compiled, options, err := s.pinnedOptions(ctx, store, r.Metadata.SchemaVersion, r.Metadata.SnapToken, authz.QuestionBounds{Nodes: expandNodesMax})
	if err != nil {
		return nil, err
	}
	if err := s.addFullContext(ctx, store, compiled, &options, r.Context); err != nil {
		return nil, err
	}
	return s.expand(ctx, store, compiled, options, r)
}

// expand evaluates a valid request and translates the tree.
func (s *service) expand(ctx context.Context, store *ostiary.Store, compiled *schema.Schema, options authz.QueryOptions, r *permifypb.PermissionExpandRequest) (*permifypb.PermissionExpandResponse, error) {
	name, err := resolvePermission(compiled, r.Entity.Type, r.Permission, r.Arguments)
	if err != nil {
		return nil, err
	}
	tree, err := store.Expand(ctx, authz.ExpandRequest{Object: object(r.Entity), Relation: name, Levels: expandLevels, QueryOptions: options})
	if err != nil {
		return nil, translateError(err)
	}
	if tree.Bound != "" {
		return nil, unknownError(&authz.Reasons{Bound: tree.Bound})
	}
	x := &expansion{ctx: ctx, store: store, consistency: authz.AtRevision(tree.Revision), schema: compiled, contextual: options.Attributes}
	out := x.node(tree.Tree, r.Permission)
	if x.err != nil {
		return nil, x.err
	}
	return &permifypb.PermissionExpandResponse{Tree: out}, nil
}

// expansion translates one tree of the engine.
type expansion struct {
	ctx   context.Context
	store *ostiary.Store
	// consistency is the revision of the tree; attributes are read at it too.
	consistency authz.Consistency
	schema      *schema.Schema
	// contextual are the attributes of the request's context.
	contextual []rel.Attribute
	// err is the first error of the translation.
	err error
}

// node translates a tree. permission is the permission that led to it.
func (x *expansion) node(t *authz.Tree, permission string) *permifypb.Expand {
	out := &permifypb.Expand{Entity: entityMessage(t.Object), Permission: permission}
	operation := func(op permifypb.ExpandTreeNode_Operation, children []*permifypb.Expand) *permifypb.Expand {
		out.Node = &permifypb.Expand_Expand{Expand: &permifypb.ExpandTreeNode{Operation: op, Children: children}}
		return out
	}
	leaf := func(l *permifypb.ExpandLeaf) *permifypb.Expand {
		out.Node = &permifypb.Expand_Leaf{Leaf: l}
		return out
	}
	switch t.Kind {
	case authz.TreeRelation:
		if len(t.Children) == 1 {
			return x.node(t.Children[0], strings.TrimSuffix(t.Relation, language.RuleRelation("")))
		}
		return leaf(subjectsLeaf(nil)) // already expanded elsewhere in the tree
	case authz.TreeDirect:
		return x.direct(t, out)
	case authz.TreeArrow:
		return operation(permifypb.ExpandTreeNode_OPERATION_UNION, x.related(t.Leaves))
	case authz.TreeUnion:
		return operation(permifypb.ExpandTreeNode_OPERATION_UNION, x.children(t, permission))
	case authz.TreeIntersection:
		return operation(permifypb.ExpandTreeNode_OPERATION_INTERSECTION, x.children(t, permission))
	case authz.TreeExclusion:
		return operation(permifypb.ExpandTreeNode_OPERATION_EXCLUSION, x.children(t, permission))
	case authz.TreeAttribute:
		v, err := anypb.New(&permifypb.BooleanValue{Data: t.Decision == expr.True})
		x.keepError(err)
		return leaf(&permifypb.ExpandLeaf{Type: &permifypb.ExpandLeaf_Value{Value: v}})
	case authz.TreeRule:
		return leaf(x.rule(t, out))
	}
	return out
}

// children translates the operands of an operator.
func (x *expansion) children(t *authz.Tree, permission string) []*permifypb.Expand {
	var out []*permifypb.Expand
	for _, c := range t.Children {
		out = append(out, x.node(c, permission))
	}
	return out
}

// related translates the trees below a relation's tuples.
func (x *expansion) related(leaves []authz.Leaf) []*permifypb.Expand {
	var out []*permifypb.Expand
	for i := range leaves {
		if tree := leaves[i].Tree; tree != nil {
			out = append(out, x.node(tree, tree.Relation))
		}
	}
	return out
}

// direct translates a relation: its subjects, in a union with the trees of
// those that are usersets.
func (x *expansion) direct(t *authz.Tree, out *permifypb.Expand) *permifypb.Expand {
	subjects := subjectsLeaf(t.Leaves)
	usersets := x.related(t.Leaves)
	if len(usersets) == 0 {
		out.Node = &permifypb.Expand_Leaf{Leaf: subjects}
		return out
	}
	first := &permifypb.Expand{Entity: out.Entity, Permission: out.Permission, Node: &permifypb.Expand_Leaf{Leaf: subjects}}
	out.Node = &permifypb.Expand_Expand{Expand: &permifypb.ExpandTreeNode{Operation: permifypb.ExpandTreeNode_OPERATION_UNION,
		Children: append([]*permifypb.Expand{first}, usersets...)}}
	return out
}

// subjectsLeaf returns a leaf with the subjects of tuples.
func subjectsLeaf(leaves []authz.Leaf) *permifypb.ExpandLeaf {
	s := &permifypb.Subjects{}
	for i := range leaves {
		sub := leaves[i].Tuple.Subject
		s.Subjects = append(s.Subjects, &permifypb.Subject{Type: sub.Type, Id: sub.ID, Relation: sub.Relation})
	}
	return &permifypb.ExpandLeaf{Type: &permifypb.ExpandLeaf_Subjects{Subjects: s}}
}

// rule translates a rule's call into a leaf with the values of its arguments.
func (x *expansion) rule(t *authz.Tree, out *permifypb.Expand) *permifypb.ExpandLeaf {
	_, args, _ := strings.Cut(strings.TrimSuffix(t.Rewrite, ")"), "(")
	values := &permifypb.Values{Values: map[string]*anypb.Any{}}
	for _, name := range strings.Split(args, ", ") {
		if strings.HasPrefix(name, language.ContextParam+".") {
			continue
		}
		out.Arguments = append(out.Arguments, argument(name))
		values.Values[name] = x.attributeValue(t.Object, name)
	}
	return &permifypb.ExpandLeaf{Type: &permifypb.ExpandLeaf_Values{Values: values}}
}

// attributeValue returns the value of an attribute: from the request's context,
// else the stored one, else the zero value of its type.
func (x *expansion) attributeValue(o rel.Object, name string) *anypb.Any {
	typ, err := attributeType(x.schema, o.Type, name)
	x.keepError(err)
	text := zeroText(typ)
	page, err := x.store.ReadAttributes(x.ctx, authz.ReadAttributesRequest{ObjectType: o.Type, ObjectID: o.ID, Name: name, Limit: 1, Consistency: x.consistency})
	x.keepError(err)
	if len(page.Attributes) == 1 {
		text = page.Attributes[0].Value
	}
	for _, a := range x.contextual {
		if a.Object == o && a.Name == name {
			text = a.Value
		}
	}
	if x.err != nil {
		return nil
	}
	v, err := valueMessage(text, typ)
	x.keepError(err)
	return v
}

// zeroText returns a type's zero value as JSON.
func zeroText(t expr.Type) string {
	switch t.Kind {
	case expr.Bool:
		return "false"
	case expr.String:
		return `""`
	case expr.List:
		return "[]"
	}
	return "0"
}

// keepError records the first error.
func (x *expansion) keepError(err error) {
	if x.err == nil {
		x.err = translateError(err)
	}
}
