package content

import (
	"context"

	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// XPathVersion is the identifier of XPath 1.0, the only version that [Compile]
// reads.
const XPathVersion = "http://www.w3.org/TR/1999/REC-xpath-19991116"

// xpathVersion2 is the identifier of XPath 1.0 as XACML 2.0 spells it.
const xpathVersion2 = "http://www.w3.org/TR/1999/Rec-xpath-19991116"

// IsXPathVersion reports whether a text identifies XPath 1.0, in the spelling of XACML 3.0
// ([XPathVersion]) or of XACML 2.0.
func IsXPathVersion(text string) bool { return text == XPathVersion || text == xpathVersion2 }

// The bounds of XPath expressions.
const (
	// pathBytesMax is the bound "XPath bytes": the length of an expression.
	pathBytesMax = 4096
	// pathNestingMax is the bound "XPath nesting": the number of expressions inside
	// each other.
	pathNestingMax = 100
	// StepsMax is the bound "XPath steps": how many nodes an evaluation may visit.
	// Every 16 bytes of text that it makes or compares count as a node, too.
	StepsMax = 1 << 20
	// textBytesMax is the bound "XPath text bytes": the length of a text that an
	// expression makes.
	textBytesMax = 4 << 20
)

// Path is a compiled XPath 1.0 expression. It is immutable and may be used
// concurrently. It supports all of XPath 1.0 but variables and the namespace
// axis.
type Path struct {
	text string
	root expression
}

// Compile compiles an expression whose prefixes are those of namespaces. A name
// without a prefix has no namespace. Its error is a *status.Error with the code
// syntax-error, also if a bound is reached.
func Compile(text string, namespaces map[string]string) (*Path, error) {
	if len(text) > pathBytesMax {
		return nil, bound("XPath bytes", pathBytesMax)
	}
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := pathParser{text: text, tokens: tokens, namespaces: inherited(namespaces)}
	root, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.peek().kind != endToken {
		return nil, p.fail("the end of the expression")
	}
	return &Path{text: text, root: root}, nil
}

// String returns the text of the expression.
func (p *Path) String() string { return p.text }

// Nodes evaluates the expression at a node and returns the nodes that it
// selects, in document order and each once. Its error is a *status.Error: a
// syntax-error if the result is not a set of nodes, and a processing-error if a
// bound is reached or ctx ends; a nil ctx does not end.
func (p *Path) Nodes(ctx context.Context, at *Node) ([]*Node, error) {
	return p.nodes(&run{context: ctx}, at)
}

// Values is like [Path.Nodes], but returns the string-values of the nodes. Their
// lengths count as steps: a text that is inside of many elements is a part of
// many values.
func (p *Path) Values(ctx context.Context, at *Node) ([]string, error) {
	r := &run{context: ctx}
	nodes, err := p.nodes(r, at)
	if err != nil {
		return nil, err
	}
	values := make([]string, len(nodes))
	for i, n := range nodes {
		if values[i], err = r.value(n); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (p *Path) nodes(r *run, at *Node) ([]*Node, error) {
	result, err := p.evaluate(r, at)
	if err != nil {
		return nil, err
	}
	nodes, ok := result.([]*Node)
	if !ok {
		return nil, syntaxError("the result of the XPath expression %s is no set of nodes", value.Quote(p.text))
	}
	return nodes, nil
}

// evaluate returns a []*Node, string, float64 or bool.
func (p *Path) evaluate(r *run, at *Node) (any, error) {
	return p.root.evaluate(&focus{node: at, position: 1, size: 1, run: r})
}

// focus is what an expression is evaluated at (section 1).
type focus struct {
	node     *Node
	position int // from 1
	size     int
	run      *run
}

// run is one evaluation.
type run struct {
	context context.Context
	steps   int
}

// contextEvery is the number of steps between two looks at the context, at which
// an evaluation needs a turn.
const contextEvery = 1 << 12

// count counts steps. It fails if there were too many, or if the context ends.
func (r *run) count(steps int) error {
	before := r.steps
	r.steps += steps
	if r.steps > StepsMax {
		return stopped("XPath steps", StepsMax)
	}
	if r.context != nil && before/contextEvery != r.steps/contextEvery {
		err := r.context.Err()
		if err == nil {
			err = turns.Hold(r.context)
		}
		if err != nil {
			return status.Errorf(status.ProcessingError, "the evaluation was stopped: %v", err)
		}
	}
	return nil
}

// stopped returns the error of an evaluation that reached a bound.
func stopped(name string, most int) error {
	return status.Reached(status.ProcessingError, name, most)
}

// value returns the string-value of a node and counts its length.
func (r *run) value(n *Node) (string, error) {
	v := n.Value()
	return v, r.count(1 + len(v)/16)
}

func invalidPath(text string, at int, expected string) error {
	return syntaxError("invalid XPath expression %s, at byte %d: expected %s", value.Quote(text), at+1, expected)
}
