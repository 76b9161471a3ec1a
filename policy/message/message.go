// Package message reads and writes the requests and responses of XACML 3.0: as
// XML (section 5.42 and following) and as JSON (JSON profile of XACML 3.0,
// version 1.1). Its main functions are [ReadXML], [ReadJSON], [AppendXML] and
// [AppendJSON]. It checks the form of a request and the lexical form of its
// values. It never evaluates a request.
package message

import (
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// Namespace is the XML namespace of XACML 3.0.
const Namespace = literal.Namespace

// Bounds on a request or a response. One more is refused. The caller bounds the
// length of the text. Package xmlread bounds the depth of XML, and package
// jsonread that of JSON.
const (
	CategoriesMax = 1_000   // categories
	AttributesMax = 10_000  // attributes of all categories
	ValuesMax     = 100_000 // values of all attributes
	ReferencesMax = 10_000  // ids in all references of a request
	ResultsMax    = 10_000  // results of a response
)

// The names of the bounds, as errors mention them.
const (
	BoundCategories = "categories of a request" // see CategoriesMax
	BoundAttributes = "attributes of a request" // see AttributesMax
	BoundValues     = "values of a request"     // see ValuesMax
	BoundReferences = "references of a request" // see ReferencesMax
	BoundResults    = "results of a response"   // see ResultsMax
)

// categoryNames are the short names of the categories in JSON (section 4.2.2.1),
// which are also members of a request.
var categoryNames = [...]struct{ name, id string }{
	{"Resource", policy.CategoryResource},
	{"Action", policy.CategoryAction},
	{"Environment", policy.CategoryEnvironment},
	{"AccessSubject", policy.CategorySubject},
	{"RecipientSubject", policy.CategoryRecipientSubject},
	{"IntermediarySubject", policy.CategoryIntermediarySubject},
	{"Codebase", policy.CategoryCodebase},
	{"RequestingMachine", policy.CategoryRequestingMachine},
}

// longCategory returns the id of a category that may be given by its short name.
func longCategory(name string) string {
	for i := range categoryNames {
		if categoryNames[i].name == name {
			return categoryNames[i].id
		}
	}
	return name
}

// request collects a request. Its arrays hold the parts of a request of the usual
// size, so that it costs one allocation.
type request struct {
	policy.Request
	categoryRoom  [4]policy.Category
	attributeRoom [8]policy.Attribute
	valueRoom     [8]value.Value

	attributes []policy.Attribute // of all categories, in order
	values     []value.Value      // of all attributes, in order
	references int                // ids in References
	bound      string             // name of the bound that a Content exceeds
}

func newRequest() *request {
	q := &request{}
	q.Categories, q.attributes, q.values = q.categoryRoom[:0], q.attributeRoom[:0], q.valueRoom[:0]
	return q
}

// bound is a bound that a request exceeds. The zero value is none.
type bound struct {
	name    string
	largest int
}

// exceeded returns the first bound that the request exceeds.
func (q *request) exceeded() bound {
	switch {
	case len(q.Categories) > CategoriesMax:
		return bound{BoundCategories, CategoriesMax}
	case len(q.attributes) > AttributesMax:
		return bound{BoundAttributes, AttributesMax}
	case len(q.values) > ValuesMax:
		return bound{BoundValues, ValuesMax}
	case q.references > ReferencesMax:
		return bound{BoundReferences, ReferencesMax}
	}
	return bound{}
}

// duplicateID returns an id that two categories have; "" if there is none.
func (q *request) duplicateID() string {
	seen := map[string]bool{}
	for i := range q.Categories {
		id := q.Categories[i].ID
		if id != "" && seen[id] {
			return id
		}
		if id != "" {
			seen[id] = true
		}
	}
	return ""
}

// failure returns the error of a reader as a status. message is "request" or
// "response"; bound is the bound that a Content exceeds.
func failure(message string, err error, bound string) *status.Error {
	out := &status.Error{Code: status.SyntaxError, Message: fmt.Sprintf("invalid %s: %v", message, err), Bound: bound}
	var fromXML *xmlread.Error
	var fromJSON *jsonread.Error
	switch {
	case errors.As(err, &fromXML):
		out.Bound = fromXML.Bound
	case errors.As(err, &fromJSON):
		out.Bound = fromJSON.Bound
	}
	if out.Bound != "" {
		out.Code = status.ProcessingError
	}
	return out
}

// short cuts a text for an error.
func short(text string) string { return quote.Of(text, 100) }
