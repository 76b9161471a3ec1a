package function

import (
	"context"

	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// xpath adds the functions on XPath expressions (appendix A.3.15). Expressions
// that are literals are compiled once.
func (b *builder) xpath() {
	expression := one(value.XPathExpression)
	b.add(&Function{
		ID:        v3 + "xpath-node-count",
		Signature: Signature{Params: []Shape{expression}, Result: one(value.Integer)},
		Call: func(env *Env, args []Operand) (Operand, error) {
			nodes, err := selectNodes(env, args[0].Value, nil)
			return Single(value.NewInteger(int64(len(nodes)))), err
		},
		CheckLiterals: checkPaths,
		Prepare: func(literals []*value.Value) (Call, Test) {
			paths := compilePaths(literals)
			return func(env *Env, args []Operand) (Operand, error) {
				nodes, err := selectNodes(env, args[0].Value, paths[0])
				return Single(value.NewInteger(int64(len(nodes)))), err
			}, nil
		},
	})
	b.nodeTest(v3+"xpath-node-equal", sameNode)
	b.nodeTest(v3+"xpath-node-match", nodeBelow)
}

// nodeTest adds a function of two expressions that compares their nodes.
func (b *builder) nodeTest(id string, compare func(x, y []*content.Node) bool) {
	test := func(paths []*content.Path) Test {
		return func(env *Env, x, y value.Value) (bool, error) {
			first, err := selectNodes(env, x, paths[0])
			if err != nil {
				return false, err
			}
			second, err := selectNodes(env, y, paths[1])
			return err == nil && compare(first, second), err
		}
	}
	b.test(id, value.XPathExpression, value.XPathExpression, test(make([]*content.Path, 2)))
	f := b.set[id]
	f.CheckLiterals = checkPaths
	f.Prepare = func(literals []*value.Value) (Call, Test) {
		prepared := test(compilePaths(literals))
		return callTest(prepared), prepared
	}
}

// checkPaths rejects a literal that is no XPath expression.
func checkPaths(literals []*value.Value) error {
	for _, v := range literals {
		if v == nil {
			continue
		}
		if _, err := compilePath(*v); err != nil {
			return err
		}
	}
	return nil
}

// compilePaths returns the paths of the literals, with nil for other arguments.
func compilePaths(literals []*value.Value) []*content.Path {
	paths := make([]*content.Path, len(literals))
	for i, v := range literals {
		if v != nil {
			paths[i], _ = compilePath(*v) // nil is compiled again, and fails, at each call
		}
	}
	return paths
}

func compilePath(v value.Value) (*content.Path, error) {
	x, _ := v.XPath()
	return content.Compile(x.Path, x.Namespaces)
}

// selectNodes evaluates an xpathExpression on the Content of its category. path
// is its compiled form, or nil.
func selectNodes(env *Env, v value.Value, path *content.Path) ([]*content.Node, error) {
	if path == nil {
		var err error
		if path, err = compilePath(v); err != nil {
			return nil, err
		}
	}
	x, _ := v.XPath()
	root, err := env.content(x.Category)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, status.Errorf(status.SyntaxError, "the category %s has no Content: expected one for the XPath expression %s", value.Quote(x.Category), cut(v))
	}
	return path.Nodes(env.context(), root)
}

// content returns the root of the Content of a category, or nil.
func (e *Env) content(category string) (*content.Node, error) {
	if e == nil || e.Content == nil {
		return nil, nil
	}
	return e.Content(category)
}

func (e *Env) context() context.Context {
	if e == nil || e.Context == nil {
		return context.Background()
	}
	return e.Context
}

// sameNode reports whether x and y have a node in common.
func sameNode(x, y []*content.Node) bool {
	in := nodeSet(x)
	for _, n := range y {
		if in[n] {
			return true
		}
	}
	return false
}

// nodeBelow reports whether a node of y is one of x, or below one, attributes
// included.
func nodeBelow(x, y []*content.Node) bool {
	in := nodeSet(x)
	for _, n := range y {
		for ; n != nil; n = n.Parent() {
			if in[n] {
				return true
			}
		}
	}
	return false
}

func nodeSet(nodes []*content.Node) map[*content.Node]bool {
	in := make(map[*content.Node]bool, len(nodes))
	for _, n := range nodes {
		in[n] = true
	}
	return in
}
