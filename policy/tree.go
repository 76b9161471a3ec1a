package policy

import "github.com/ostiary/ostiary/policy/value"

// Position is a place in the text that an element was read from. The zero
// Position means that there was no text.
type Position struct {
	Source string // name of the text, for example the name of a file
	Line   int    // line, from 1
	Column int    // column in bytes, from 1
}

// Effect is the effect of a rule.
type Effect uint8

// The effects.
const (
	Permit Effect = iota + 1 // the rule permits
	Deny                     // the rule denies
)

// Element is a member of a policy set: a *[PolicySet], a *[Policy] or a
// *[Reference].
type Element interface{ element() }

// Header is what a [PolicySet] and a [Policy] have in common.
type Header struct {
	ID          string       // PolicySetId or PolicyId
	Version     string       // Version, numbers with dots
	Description string       // Description, for people
	Algorithm   string       // PolicyCombiningAlgId or RuleCombiningAlgId
	Target      Target       // the requests that the element applies to
	Obligations []Obligation // ObligationExpressions
	Advice      []Obligation // AdviceExpressions
	// XPathVersion is the XPathVersion of the defaults; "" if there is none. Compile
	// accepts only those that identify XPath 1.0, see [content.IsXPathVersion].
	XPathVersion string
	Position     Position // place of the element
}

// PolicySet is a PolicySet of XACML (section 5.2): policies, sets and
// references, which an algorithm combines.
type PolicySet struct {
	Header
	Children []Element // members in document order
}

// Policy is a Policy of XACML (section 5.14): rules, which an algorithm combines.
type Policy struct {
	Header
	Variables []Variable // VariableDefinitions
	Rules     []Rule     // rules in document order
}

// Reference is a PolicyIdReference or a PolicySetIdReference (sections 5.10 and
// 5.11). The newest policy or set that matches all given patterns is used.
type Reference struct {
	Set      bool     // true for a PolicySetIdReference
	ID       string   // id of the policy or set
	Version  string   // pattern of the version, for example "1.*"; "" matches any
	Earliest string   // pattern of the lowest version; "" means no bound
	Latest   string   // pattern of the highest version; "" means no bound
	Position Position // place of the element
}

func (*PolicySet) element() {}
func (*Policy) element()    {}
func (*Reference) element() {}

// Rule is a Rule of XACML (section 5.21).
type Rule struct {
	ID          string       // RuleId
	Description string       // Description, for people
	Effect      Effect       // the decision of the rule if its condition is true
	Target      Target       // the requests that the rule applies to
	Condition   Expression   // nil means true
	Obligations []Obligation // ObligationExpressions
	Advice      []Obligation // AdviceExpressions
	Position    Position     // place of the element
}

// Target is a conjunction of AnyOf elements (section 5.6). An empty Target
// matches every request.
type Target []AnyOf

// AnyOf is a disjunction of AllOf elements (section 5.7).
type AnyOf []AllOf

// AllOf is a conjunction of matches (section 5.8).
type AllOf []Match

// Match compares a literal with each value of a bag (section 5.9). It is true if
// the function is true for at least one value.
type Match struct {
	Function string      // MatchId
	Literal  value.Value // the first argument
	// Bag is the second argument, a *[Designator] or a *[Selector].
	Bag      Expression
	Position Position // place of the element
}

// Variable is a VariableDefinition (section 5.16).
type Variable struct {
	ID         string     // VariableId
	Expression Expression // the definition
	Position   Position   // place of the element
}

// Expression is an expression of XACML: a *[Literal], *[Designator],
// *[Selector], *[VariableReference], *[FunctionReference] or *[Apply].
type Expression interface{ expression() }

// Literal is an AttributeValue in a policy (section 5.31).
type Literal struct {
	Value    value.Value // the value
	Position Position    // place of the element
}

// Designator selects the values of an attribute (section 5.29).
type Designator struct {
	Category      string     // Category
	ID            string     // AttributeId
	Type          value.Type // DataType
	Issuer        string     // Issuer; "" matches any issuer
	MustBePresent bool       // an empty bag is an error
	Position      Position   // place of the element
}

// Selector selects values from the Content of a category (section 5.30).
type Selector struct {
	Category        string            // Category
	ContextSelector string            // ContextSelectorId; "" means the root of Content
	Path            string            // XPath 1.0 expression
	Namespaces      map[string]string // namespaces by prefix at the element
	Type            value.Type        // DataType
	MustBePresent   bool              // an empty bag is an error
	Position        Position          // place of the element
}

// VariableReference is the value of a [Variable] of the same policy (section 5.17).
type VariableReference struct {
	ID       string   // VariableId
	Position Position // place of the element
}

// FunctionReference is a function as an argument of a higher-order function
// (section 5.28).
type FunctionReference struct {
	ID       string   // FunctionId
	Position Position // place of the element
}

// Apply calls a function (section 5.27).
type Apply struct {
	Function    string       // FunctionId
	Description string       // Description, for people
	Arguments   []Expression // arguments in order
	Position    Position     // place of the element
}

func (*Literal) expression()           {}
func (*Designator) expression()        {}
func (*Selector) expression()          {}
func (*VariableReference) expression() {}
func (*FunctionReference) expression() {}
func (*Apply) expression()             {}

// Obligation is an ObligationExpression or an AdviceExpression (sections 5.39
// and 5.40). The enforcer of a decision must fulfil an obligation, and may
// ignore advice.
type Obligation struct {
	ID          string       // ObligationId or AdviceId
	On          Effect       // FulfillOn or AppliesTo
	Assignments []Assignment // AttributeAssignmentExpressions
	Position    Position     // place of the element
}

// Assignment computes the values of an argument of an obligation (section 5.41).
// A bag of n values makes n attributes; an empty bag makes none.
type Assignment struct {
	ID         string     // AttributeId
	Category   string     // Category; "" if there is none
	Issuer     string     // Issuer; "" if there is none
	Expression Expression // the values
	Position   Position   // place of the element
}
