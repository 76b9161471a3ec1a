package openfga

import (
	"context"
	"slices"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
)

// expand handles Expand. It returns one level of who has a relation. It does not
// evaluate conditions: a tuple is shown whatever its condition.
func (s *service) expand(ctx context.Context, c *headers, in *wire.ExpandRequest) (*openfgav1.UsersetTree, error) {
	if err := validateMessage(expandMessage(in)); err != nil {
		return nil, err
	}
	p, err := s.open(ctx, c, in.StoreID, in.ModelID, in.Consistency)
	if err != nil {
		return nil, err
	}
	if in.Object == "" || in.Relation == "" {
		return nil, failf(codeExpandInput, "Invalid input. Make sure you provide an object and a relation")
	}
	options, err := p.queryOptions(nil, in.Tuples)
	if err != nil {
		return nil, listNameError(err)
	}
	o, err := parseKnownObject(p.schema, in.Object)
	if err == nil {
		err = hasRelation(p.schema, o.Type, in.Relation)
	}
	if err != nil {
		return nil, failf(codeValidation, "%v", err)
	}
	options.Bounds = authz.QuestionBounds{} // the bound on depth is for checks, not for one level
	e, err := p.store.Expand(ctx, authz.ExpandRequest{Object: o, Relation: in.Relation, Levels: 1, QueryOptions: options})
	if err != nil {
		return nil, revisionError(err)
	}
	if e.Bound != "" {
		return nil, failf(codeTooComplex, tooComplexMessage, e.Bound)
	}
	root := &openfgav1.UsersetTree_Node{Name: in.Object + "#" + in.Relation}
	if len(e.Children) == 1 {
		treeNode(root, e.Children[0])
	}
	return &openfgav1.UsersetTree{Root: root}, c.setRevision(ctx, p.store, e.Revision)
}

// treeNode translates a part of a rewrite into n, whose name is set. It recurses as
// deep as the rewrite, which the schema bounds.
func treeNode(n *openfgav1.UsersetTree_Node, t *authz.Tree) {
	leaf := func(l *openfgav1.UsersetTree_Leaf) {
		n.Value = &openfgav1.UsersetTree_Node_Leaf{Leaf: l}
	}
	switch t.Kind {
	case authz.TreeDirect:
		leaf(&openfgav1.UsersetTree_Leaf{Value: &openfgav1.UsersetTree_Leaf_Users{
			Users: &openfgav1.UsersetTree_Users{Users: leafUsers(t)}}})
	case authz.TreeRelation:
		leaf(&openfgav1.UsersetTree_Leaf{Value: &openfgav1.UsersetTree_Leaf_Computed{
			Computed: &openfgav1.UsersetTree_Computed{Userset: t.Object.String() + "#" + t.Relation}}})
	case authz.TreeArrow:
		arrow := &openfgav1.UsersetTree_TupleToUserset{Tupleset: t.Object.String() + "#" + t.Relation}
		for _, user := range leafUsers(t) {
			arrow.Computed = append(arrow.Computed, &openfgav1.UsersetTree_Computed{Userset: user + "#" + t.Target})
		}
		leaf(&openfgav1.UsersetTree_Leaf{Value: &openfgav1.UsersetTree_Leaf_TupleToUserset{TupleToUserset: arrow}})
	case authz.TreeUnion:
		n.Value = &openfgav1.UsersetTree_Node_Union{Union: treeNodes(n.GetName(), t.Children)}
	case authz.TreeIntersection:
		n.Value = &openfgav1.UsersetTree_Node_Intersection{Intersection: treeNodes(n.GetName(), t.Children)}
	case authz.TreeExclusion:
		if operands := treeNodes(n.GetName(), t.Children).GetNodes(); len(operands) == 2 {
			n.Value = &openfgav1.UsersetTree_Node_Difference{
				Difference: &openfgav1.UsersetTree_Difference{Base: operands[0], Subtract: operands[1]}}
		}
	}
}

func treeNodes(name string, children []*authz.Tree) *openfgav1.UsersetTree_Nodes {
	out := &openfgav1.UsersetTree_Nodes{}
	for _, t := range children {
		n := &openfgav1.UsersetTree_Node{Name: name}
		treeNode(n, t)
		out.Nodes = append(out.Nodes, n)
	}
	return out
}

// leafUsers returns the subjects of a node's tuples, sorted.
func leafUsers(t *authz.Tree) []string {
	users := make([]string, len(t.Leaves))
	for i := range t.Leaves {
		users[i] = t.Leaves[i].Tuple.Subject.String()
	}
	slices.Sort(users)
	return slices.Compact(users)
}
