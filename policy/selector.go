package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// attributeContent is the id under which a missing-attribute status lists the
// Content of a category (appendix B.4).
const attributeContent = "urn:oasis:names:tc:xacml:3.0:content-selector"

// selection is what a slot of an attribute selector selects.
type selection struct {
	path *content.Path
	// context is the slot of the attribute that names the node at which the path
	// begins; -1 if that is the root.
	context int32
}

// selector compiles an attribute selector. Selectors of a plan that select the
// same share a slot.
func (e *expressions) selector(x *Selector) typed {
	if x.Type.URI() == "" || x.Type == value.XPathExpression {
		e.add(x.Position, "the attribute selector %s has no usable type: expected a data type of XACML other than xpathExpression", value.Quote(x.Path))
		return typed{}
	}
	path, err := content.Compile(x.Path, x.Namespaces)
	if err != nil {
		e.add(x.Position, "invalid path %s of an attribute selector: %s", value.Quote(x.Path), err)
		return typed{}
	}
	d := &designator{slot: e.slots.selectorNumber(x, path), shape: function.Shape{Type: x.Type, Bag: true}}
	if x.MustBePresent {
		d.missing = missing(status.Missing{Category: x.Category, ID: attributeContent, Type: x.Type})
		d.missing.Message = fmt.Sprintf("the path %s selects nothing in the content of category %s", value.Quote(x.Path), value.Quote(x.Category))
	}
	return typed{expression: d, shape: d.shape, depth: 1}
}

// selectorNumber returns the slot of a selector, and makes one if there is none.
func (b *slotsBuilder) selectorNumber(x *Selector, path *content.Path) int32 {
	key := x.key()
	if n, ok := b.selectors[key]; ok {
		return n
	}
	s := &selection{path: path, context: -1}
	if x.ContextSelector != "" {
		s.context = b.number(&Designator{Category: x.Category, ID: x.ContextSelector, Type: value.XPathExpression})
	}
	b.own()
	n := int32(len(b.list))
	b.list = append(b.list, slot{designator: Designator{Category: x.Category, Type: x.Type}, selection: s})
	b.selectors[key] = n
	return n
}

// key returns a text that is equal for selectors that select the same.
func (x *Selector) key() string {
	parts := []string{x.Category, x.ContextSelector, x.Path, x.Type.String()}
	for _, prefix := range slices.Sorted(maps.Keys(x.Namespaces)) {
		parts = append(parts, prefix, x.Namespaces[prefix])
	}
	var key strings.Builder
	for _, part := range parts {
		key.WriteString(strconv.Itoa(len(part)))
		key.WriteByte(':')
		key.WriteString(part)
	}
	return key.String()
}

// selectValues returns the values that a slot of a selector selects (section
// 7.3.7).
func (r *run) selectValues(n int32) ([]value.Value, *status.Error) {
	slot := &r.plan.slots.list[n]
	at, err := r.contextNode(slot)
	if err != nil || at == nil {
		return nil, err
	}
	texts, failed := slot.selection.path.Values(r.ctx, at)
	if failed != nil {
		return nil, asStatus(failed)
	}
	if err := r.step(1 + len(texts)); err != nil {
		return nil, err
	}
	values := make([]value.Value, len(texts))
	for i, text := range texts {
		if values[i], failed = value.Parse(slot.designator.Type, text); failed != nil {
			return nil, &status.Error{Code: status.ProcessingError,
				Message: fmt.Sprintf("the path %s selects a node without a value: %s", value.Quote(slot.selection.path.String()), failed)}
		}
	}
	return values, nil
}

// contextNode returns the node at which the path of a selector begins: the root
// of the content, or the only node that the context attribute selects. It
// returns nil if the category has no content.
func (r *run) contextNode(slot *slot) (*content.Node, *status.Error) {
	root, err := r.content(slot.designator.Category)
	if err != nil {
		return nil, asStatus(err)
	}
	if slot.selection.context < 0 || root == nil {
		return root, nil
	}
	bag, failed := r.bag(slot.selection.context)
	d := &r.plan.slots.list[slot.selection.context].designator
	switch {
	case failed != nil:
		return nil, failed
	case len(bag) == 0:
		return nil, missing(status.Missing{Category: d.Category, ID: d.ID, Type: d.Type})
	case len(bag) > 1:
		return nil, badContext(d, fmt.Sprintf("has %d values", len(bag)))
	}
	return r.onlyNode(d, bag[0], root)
}

// onlyNode returns the only node that the value of a context attribute selects.
func (r *run) onlyNode(d *Designator, v value.Value, root *content.Node) (*content.Node, *status.Error) {
	x, _ := v.XPath()
	if x.Category != d.Category {
		return nil, badContext(d, "is for the content of category "+value.Quote(x.Category))
	}
	path, err := content.Compile(x.Path, x.Namespaces)
	if err != nil {
		return nil, asStatus(err)
	}
	nodes, err := path.Nodes(r.ctx, root)
	if err != nil {
		return nil, asStatus(err)
	}
	if len(nodes) != 1 {
		return nil, badContext(d, fmt.Sprintf("selects %d nodes", len(nodes)))
	}
	return nodes[0], nil
}

// badContext returns the status of a context attribute that names no node.
func badContext(d *Designator, problem string) *status.Error {
	return &status.Error{Code: status.SyntaxError,
		Message: fmt.Sprintf("attribute %s %s: expected one path that selects one node of the same category", value.Quote(d.ID), problem)}
}
