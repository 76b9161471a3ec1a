package policy

import (
	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// Request is a request for one or several decisions (section 5.42). It is not
// changed by an evaluation.
type Request struct {
	// ReturnPolicyIDs asks for the ids of the policies that applied fully: their
	// targets match and they are Permit or Deny, which may be another decision than
	// that of the result. Nothing inside of a set applies whose target does not match
	// or is Indeterminate.
	ReturnPolicyIDs bool
	// Combined asks for one result instead of one for each decision (multiple
	// decision profile, section 2.4).
	Combined bool
	// Categories are the Attributes elements in document order. Repeated
	// categories ask for the cross product of decisions (multiple decision
	// profile, section 2.3).
	Categories []Category
	// References are the RequestReference elements of MultiRequests. Each lists
	// ids of Categories, and asks for one decision. Empty if there are none.
	References [][]string
}

// Category is an Attributes element (section 5.46): attributes of one category.
type Category struct {
	ID         string      // xml:id or Id, which References name; "" if there is none
	Name       string      // Category, for example "urn:oasis:names:tc:xacml:3.0:attribute-category:resource"
	Attributes []Attribute // attributes in document order
	// Content is the XML content; nil if there is none.
	Content *content.Node
}

// Attribute is an attribute of a request (section 5.47).
type Attribute struct {
	ID              string        // AttributeId
	Issuer          string        // Issuer; "" if there is none
	IncludeInResult bool          // the result repeats the attribute
	Values          []value.Value // values, at least one; their types may differ
}

// Decision is the decision of a result.
type Decision uint8

// The decisions. [Indeterminate] without more means that the kind of the error
// is not known; the other three are the extended values of section 7.10. A
// response shows all four as "Indeterminate".
const (
	NotApplicable   Decision = iota // no policy applies
	Permitted                       // Permit
	Denied                          // Deny
	Indeterminate                   // an error prevents a decision
	IndeterminateP                  // could have been Permit, but not Deny
	IndeterminateD                  // could have been Deny, but not Permit
	IndeterminateDP                 // could have been either
)

// Result is one decision with everything that belongs to it (section 5.48).
type Result struct {
	Decision    Decision
	Status      *status.Error   // why the decision is Indeterminate, or a remark; nil means OK
	Obligations []Duty          // obligations in order
	Advice      []Duty          // advice in order
	Categories  []Category      // attributes with IncludeInResult
	Policies    []PolicyVersion // policies that applied, if the request asked for them
}

// Duty is an obligation or a piece of advice of a result, with its arguments.
type Duty struct {
	ID        string     // ObligationId or AdviceId
	Arguments []Argument // arguments in order
}

// Argument is an argument of a [Duty].
type Argument struct {
	ID       string      // AttributeId
	Category string      // Category; "" if the policy names none
	Issuer   string      // Issuer; "" if the policy names none
	Value    value.Value // the value
}

// PolicyVersion names a policy or a policy set.
type PolicyVersion struct {
	Set     bool   // true for a policy set
	ID      string // PolicyId or PolicySetId
	Version string // Version
}
