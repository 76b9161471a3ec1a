package content

import (
	"cmp"
	"math"
	"slices"
)

// constant is a literal or a number.
type constant struct{ value any }

func (c constant) evaluate(*focus) (any, error) { return c.value, nil }

// location is a path. It begins at the root, at the nodes of start, or at the
// focus.
type location struct {
	absolute bool
	start    expression // nil if the path begins at the root or at the focus
	steps    []*step
}

// step is a step of a path.
type step struct {
	axis       string
	test       nodeTest
	predicates []expression
}

func (l *location) evaluate(f *focus) (any, error) {
	nodes := []*Node{f.node}
	if l.absolute {
		nodes[0] = f.node.Root()
	}
	if l.start != nil {
		value, err := l.start.evaluate(f)
		if err != nil {
			return nil, err
		}
		var ok bool
		if nodes, ok = value.([]*Node); !ok {
			return nil, syntaxError("an XPath step follows what is no set of nodes")
		}
	}
	for _, s := range l.steps {
		var err error
		if nodes, err = s.from(nodes, f.run); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// from returns the nodes that a step selects from nodes.
func (s *step) from(nodes []*Node, r *run) ([]*Node, error) {
	var all []*Node
	for _, n := range nodes {
		var found []*Node
		err := axes[s.axis](n, func(n *Node) error {
			if s.test.accepts(n) {
				found = append(found, n)
			}
			return r.count(1)
		})
		if err != nil {
			return nil, err
		}
		if found, err = keep(found, s.predicates, r); err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return inOrder(all), nil
}

// keep returns the nodes for which all predicates are true. A predicate that is a
// number is true for the node at this position.
func keep(nodes []*Node, predicates []expression, r *run) ([]*Node, error) {
	for _, p := range predicates {
		var kept []*Node
		for i, n := range nodes {
			f := focus{node: n, position: i + 1, size: len(nodes), run: r}
			value, err := p.evaluate(&f)
			if err == nil {
				err = r.count(1)
			}
			if err != nil {
				return nil, err
			}
			number, isNumber := value.(float64)
			if isNumber && number == float64(i+1) || !isNumber && toBoolean(value) {
				kept = append(kept, n)
			}
		}
		nodes = kept
	}
	return nodes, nil
}

// inOrder sorts nodes in document order and removes duplicates.
func inOrder(nodes []*Node) []*Node {
	compare := func(a, b *Node) int { return cmp.Compare(a.order, b.order) }
	if !slices.IsSortedFunc(nodes, compare) {
		slices.SortFunc(nodes, compare)
	}
	return slices.Compact(nodes)
}

// filter is a primary expression with predicates.
type filter struct {
	of         expression
	predicates []expression
}

func (e *filter) evaluate(f *focus) (any, error) {
	value, err := e.of.evaluate(f)
	if err != nil {
		return nil, err
	}
	nodes, ok := value.([]*Node)
	if !ok {
		return nil, syntaxError("an XPath predicate follows what is no set of nodes")
	}
	return sameType(keep(nodes, e.predicates, f.run))
}

func sameType(nodes []*Node, err error) (any, error) { return nodes, err }

// union is "a | b".
type union struct{ parts []expression }

func (u *union) evaluate(f *focus) (any, error) {
	var all []*Node
	for _, p := range u.parts {
		value, err := p.evaluate(f)
		if err != nil {
			return nil, err
		}
		nodes, ok := value.([]*Node)
		if !ok {
			return nil, syntaxError("an XPath union of what is no set of nodes")
		}
		all = append(all, nodes...)
	}
	return inOrder(all), nil
}

// negation is "-a", any number of times.
type negation struct {
	of       expression
	negative bool // an odd number of times
}

func (e *negation) evaluate(f *focus) (any, error) {
	value, err := e.of.evaluate(f)
	if err != nil {
		return nil, err
	}
	number, err := f.run.toNumber(value)
	if e.negative {
		number = -number
	}
	return number, err
}

// binary is an expression with an operator between two operands.
type binary struct {
	operator    string
	left, right expression
}

func (e *binary) evaluate(f *focus) (any, error) {
	left, err := e.left.evaluate(f)
	if err != nil {
		return nil, err
	}
	switch {
	case e.operator == "or" && toBoolean(left):
		return true, nil
	case e.operator == "and" && !toBoolean(left):
		return false, nil
	}
	right, err := e.right.evaluate(f)
	if err != nil {
		return nil, err
	}
	switch e.operator {
	case "or", "and":
		return toBoolean(right), nil
	case "=", "!=", "<", "<=", ">", ">=":
		return f.run.compare(e.operator, left, right)
	}
	return f.run.arithmetic(e.operator, left, right)
}

// toNumbers converts both operands of an operator to numbers.
func (r *run) toNumbers(left, right any) (x, y float64, err error) {
	if x, err = r.toNumber(left); err != nil {
		return 0, 0, err
	}
	y, err = r.toNumber(right)
	return x, y, err
}

func (r *run) arithmetic(operator string, left, right any) (any, error) {
	x, y, err := r.toNumbers(left, right)
	if err != nil {
		return nil, err
	}
	switch operator {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "div":
		return x / y, nil
	}
	return math.Mod(x, y), nil
}

// compare compares two values (section 3.4). A set of nodes is compared by each
// of its nodes: the result is true if it is for one.
func (r *run) compare(operator string, left, right any) (any, error) {
	nodes, isSet := left.([]*Node)
	if !isSet {
		if _, isSet := right.([]*Node); isSet {
			return r.compare(mirrored(operator), right, left)
		}
		return r.compareSingle(operator, left, right)
	}
	if _, isBoolean := right.(bool); isBoolean {
		return r.compareSingle(operator, len(nodes) > 0, right)
	}
	others, isSet := right.([]*Node)
	for _, n := range nodes {
		x, err := r.value(n)
		if err != nil {
			return nil, err
		}
		found, err := any(false), error(nil)
		if isSet {
			found, err = r.compareWith(operator, x, others)
		} else {
			found, err = r.compareSingle(operator, x, right)
		}
		if err != nil || found == true {
			return found, err
		}
	}
	return false, nil
}

// compareWith compares a text with each of nodes.
func (r *run) compareWith(operator, x string, nodes []*Node) (any, error) {
	for _, n := range nodes {
		y, err := r.value(n)
		if err != nil {
			return nil, err
		}
		if found, err := r.compareSingle(operator, x, y); err != nil || found == true {
			return found, err
		}
	}
	return false, nil
}

func mirrored(operator string) string {
	switch operator {
	case "<":
		return ">"
	case "<=":
		return ">="
	case ">":
		return "<"
	case ">=":
		return "<="
	}
	return operator
}

// compareSingle compares values that are no sets of nodes.
func (r *run) compareSingle(operator string, left, right any) (any, error) {
	equality := operator == "=" || operator == "!="
	_, leftBoolean := left.(bool)
	_, rightBoolean := right.(bool)
	if equality && (leftBoolean || rightBoolean) {
		return (toBoolean(left) == toBoolean(right)) == (operator == "="), nil
	}
	leftText, leftIsText := left.(string)
	rightText, rightIsText := right.(string)
	if equality && leftIsText && rightIsText {
		return (leftText == rightText) == (operator == "="), r.count(min(len(leftText), len(rightText)) / 16)
	}
	x, y, err := r.toNumbers(left, right)
	if err != nil {
		return nil, err
	}
	switch operator {
	case "=":
		return x == y, nil
	case "!=":
		return x != y, nil
	case "<":
		return x < y, nil
	case "<=":
		return x <= y, nil
	case ">":
		return x > y, nil
	}
	return x >= y, nil
}
