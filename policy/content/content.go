// Package content reads the XML Content of a request's categories and selects
// nodes from it with XPath 1.0. Its main type is [Node]. It refuses document
// types and entities, and bounds depth and size.
package content

import "github.com/antchfx/xmlquery"

// Node is a node of a Content document. It is read-only.
type Node struct {
	node *xmlquery.Node
}
