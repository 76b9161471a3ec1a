package language

import (
	"strings"

	"github.com/ostiary/ostiary/internal/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// Namespace is the XML namespace of XACML 3.0.
const Namespace = "urn:oasis:names:tc:xacml:3.0:core:schema:wd-17"

// schemaInstance is the namespace of attributes such as xsi:schemaLocation,
// which any element may have.
const schemaInstance = "http://www.w3.org/2001/XMLSchema-instance"

// ParseXML reads a Policy or a PolicySet of XACML 3.0. source names the text in
// positions and errors, for example by the name of a file. The text must match
// XACML's schema (with any prefix), but for these:
//   - PolicyIssuer is an error, as section 5.3 demands of a decision point without
//     administrative delegation;
//   - parameters of combining algorithms are an error, because no algorithm has any;
//   - MaxDelegationDepth is checked and ignored, because nothing is delegated.
//
// ParseXML checks literals against their data types, and leaves functions,
// algorithms, references and types of expressions to [policy.Compile]. Its error
// is a *[policy.Error] with the position, or a *[BoundError] with the name of the
// exceeded bound.
func ParseXML(text []byte, source string) (policy.Element, error) {
	if err := checkLength(text, source); err != nil {
		return nil, err
	}
	p := xmlParser{Reader: xmlread.New(text), source: source}
	var root policy.Element
	if p.Root() {
		p.vocabulary()
		switch string(p.Name()) {
		case "Policy":
			root = p.policy()
		case "PolicySet":
			root = p.policySet()
		default:
			p.Fail("unexpected element %s: expected Policy or PolicySet", p.shown())
		}
	}
	if err := p.End(); err != nil {
		return nil, located(err, source)
	}
	return root, nil
}

// xmlParser reads the elements of policies. Each method that is named after an
// element reads that element from after its start tag to its end.
type xmlParser struct {
	*xmlread.Reader
	source string
}

// field is an attribute of an element, and where its value goes.
type field struct {
	name     string
	to       *string
	optional bool
	verbatim bool // the type is xs:string, whose white space counts; that of others is removed at both ends
}

// fields reads the attributes of the innermost element.
func (p *xmlParser) fields(all ...field) {
	var seen uint
	for _, a := range p.Attributes() {
		i := 0
		for i < len(all) && (all[i].name != a.Name || a.Space != "") {
			i++
		}
		switch {
		case i < len(all):
			seen |= 1 << i
			if *all[i].to = a.Value; !all[i].verbatim {
				*all[i].to = strings.TrimSpace(a.Value)
			}
		case a.Space != schemaInstance || a.Name != "schemaLocation":
			p.FailAt(a.Offset, "unexpected attribute %s of element %s", short(a.Name), p.shown())
		}
	}
	for i, f := range all {
		if seen>>i&1 == 0 && !f.optional {
			p.Fail("element %s has no attribute %s", p.shown(), f.name)
		}
	}
}

// child goes to the next child element, which must be of XACML's namespace.
func (p *xmlParser) child() bool {
	if !p.Child() {
		return false
	}
	p.vocabulary()
	return true
}

func (p *xmlParser) vocabulary() {
	if space := p.Space(); space != Namespace {
		p.Fail("unexpected namespace %q of element %s: expected %q", short(space), p.shown(), Namespace)
	}
}

// shown returns the name of the innermost element for an error.
func (p *xmlParser) shown() string { return short(string(p.Name())) }

// position returns the place of the innermost element.
func (p *xmlParser) position() policy.Position {
	line, column := p.Position(p.Offset())
	return policy.Position{Source: p.source, Line: line, Column: column}
}

// order is the sequence of children that XACML's schema demands of an element:
// names that may come in any order among themselves are in one string.
type order struct {
	p     *xmlParser
	steps []string
	at    int    // the step that the last child was in
	last  string // name of the last child
}

// next goes to the next child, and returns its name; "" at the end. A child out
// of order is an error.
func (o *order) next() string {
	if !o.p.child() {
		return ""
	}
	name := o.p.Name()
	for i := o.at; i < len(o.steps); i++ {
		found, many := contains(o.steps[i], name)
		if found == "" {
			continue
		}
		if i == o.at && o.last != "" && !many {
			o.p.Fail("unexpected second element %s", found)
		}
		o.at, o.last = i, found
		return found
	}
	expected := "the end of the element"
	if names := strings.ReplaceAll(strings.Join(o.steps[o.at:], ", "), "*", ""); names != "" {
		expected = strings.ReplaceAll(strings.ReplaceAll(names, ",", ""), " ", ", ")
	}
	o.p.Fail("unexpected element %s: expected %s", o.p.shown(), expected)
	return ""
}

// contains finds a name in a step: "Target", or "Policy* PolicySet*" for names
// that may be repeated.
func contains(step string, name []byte) (found string, many bool) {
	for rest := step; rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, " ")
		if one, many = strings.CutSuffix(one, "*"); one == string(name) {
			return one, many
		}
	}
	return "", false
}

// children returns the children of the innermost element, in the order that the
// schema demands.
func (p *xmlParser) children(steps ...string) *order { return &order{p: p, steps: steps} }

func (p *xmlParser) policySet() *policy.PolicySet {
	out := &policy.PolicySet{Position: p.position()}
	var delegation string
	p.fields(field{name: "PolicySetId", to: &out.ID}, field{name: "Version", to: &out.Version},
		field{name: "PolicyCombiningAlgId", to: &out.Algorithm}, field{name: "MaxDelegationDepth", to: &delegation, optional: true})
	p.checkDelegation(delegation)
	targeted := false
	for children := p.children("Description", "PolicyIssuer", "PolicySetDefaults", "Target",
		"PolicySet* Policy* PolicySetIdReference* PolicyIdReference* CombinerParameters* PolicyCombinerParameters* PolicySetCombinerParameters*",
		"ObligationExpressions", "AdviceExpressions"); ; {
		switch name := children.next(); name {
		case "":
			p.demand(targeted, "PolicySet", "Target")
			return out
		case "Target":
			targeted, out.Target = true, p.target()
		case "PolicySet":
			out.Children = append(out.Children, p.policySet())
		case "Policy":
			out.Children = append(out.Children, p.policy())
		case "PolicyIdReference", "PolicySetIdReference":
			out.Children = append(out.Children, p.reference(name == "PolicySetIdReference"))
		default:
			p.header(name, &out.Description, &out.XPathVersion, &out.Obligations, &out.Advice)
		}
	}
}

func (p *xmlParser) policy() *policy.Policy {
	out := &policy.Policy{Position: p.position()}
	var delegation string
	p.fields(field{name: "PolicyId", to: &out.ID}, field{name: "Version", to: &out.Version},
		field{name: "RuleCombiningAlgId", to: &out.Algorithm}, field{name: "MaxDelegationDepth", to: &delegation, optional: true})
	p.checkDelegation(delegation)
	targeted := false
	for children := p.children("Description", "PolicyIssuer", "PolicyDefaults", "Target",
		"Rule* VariableDefinition* CombinerParameters* RuleCombinerParameters*", "ObligationExpressions", "AdviceExpressions"); ; {
		switch name := children.next(); name {
		case "":
			p.demand(targeted, "Policy", "Target")
			return out
		case "Target":
			targeted, out.Target = true, p.target()
		case "Rule":
			out.Rules = append(out.Rules, p.rule())
		case "VariableDefinition":
			out.Variables = append(out.Variables, p.variable())
		default:
			p.header(name, &out.Description, &out.XPathVersion, &out.Obligations, &out.Advice)
		}
	}
}

// header reads a child that policies and policy sets have in common.
func (p *xmlParser) header(name string, description, xpath *string, obligations, advice *[]policy.Obligation) {
	switch name {
	case "Description":
		*description = p.text()
	case "PolicyDefaults", "PolicySetDefaults":
		*xpath = p.defaults()
	case "ObligationExpressions":
		*obligations = p.obligations()
	case "AdviceExpressions":
		*advice = p.advice()
	case "PolicyIssuer":
		p.Fail("unsupported element PolicyIssuer: expected a policy without an issuer, because administrative delegation is not supported")
	default:
		p.Fail("unsupported element %s: expected none, because no combining algorithm has parameters", short(name))
	}
}

// demand makes the parser fail if a mandatory child is missing. The element has
// been closed.
func (p *xmlParser) demand(ok bool, element, child string) {
	if !ok {
		p.FailAt(p.Closed(), "element %s has no element %s", element, child)
	}
}

func (p *xmlParser) checkDelegation(depth string) {
	if depth == "" {
		return
	}
	if _, err := value.Parse(value.Integer, depth); err != nil {
		p.Fail("invalid MaxDelegationDepth: %v", err)
	}
}

// text reads an element that has text and no attributes.
func (p *xmlParser) text() string {
	p.fields()
	return p.Text()
}

func (p *xmlParser) defaults() (xpath string) {
	p.fields()
	found := false
	for children := p.children("XPathVersion"); children.next() != ""; found = true {
		xpath = strings.TrimSpace(p.text())
	}
	p.demand(found, "PolicyDefaults", "XPathVersion")
	return xpath
}

func (p *xmlParser) reference(set bool) *policy.Reference {
	out := &policy.Reference{Set: set, Position: p.position()}
	p.fields(field{name: "Version", to: &out.Version, optional: true}, field{name: "EarliestVersion", to: &out.Earliest, optional: true},
		field{name: "LatestVersion", to: &out.Latest, optional: true})
	if out.ID = strings.TrimSpace(p.Text()); out.ID == "" {
		p.FailAt(p.Closed(), "empty reference: expected the id of a policy or policy set")
	}
	return out
}

func (p *xmlParser) rule() policy.Rule {
	out := policy.Rule{Position: p.position()}
	var effect string
	p.fields(field{name: "RuleId", to: &out.ID, verbatim: true}, field{name: "Effect", to: &effect})
	out.Effect = p.effect(effect)
	for children := p.children("Description", "Target", "Condition", "ObligationExpressions", "AdviceExpressions"); ; {
		switch children.next() {
		case "":
			return out
		case "Description":
			out.Description = p.text()
		case "Target":
			out.Target = p.target()
		case "Condition":
			p.fields()
			out.Condition = p.only("Condition")
		case "ObligationExpressions":
			out.Obligations = p.obligations()
		case "AdviceExpressions":
			out.Advice = p.advice()
		}
	}
}

func (p *xmlParser) effect(text string) policy.Effect {
	switch text {
	case "Permit":
		return policy.Permit
	case "Deny":
		return policy.Deny
	}
	p.Fail("invalid effect %q: expected Permit or Deny", short(text))
	return 0
}

func (p *xmlParser) variable() policy.Variable {
	out := policy.Variable{Position: p.position()}
	p.fields(field{name: "VariableId", to: &out.ID, verbatim: true})
	out.Expression = p.only("VariableDefinition")
	return out
}

func (p *xmlParser) obligations() []policy.Obligation {
	return p.duties("ObligationExpressions", "ObligationExpression", "ObligationId", "FulfillOn")
}

func (p *xmlParser) advice() []policy.Obligation {
	return p.duties("AdviceExpressions", "AdviceExpression", "AdviceId", "AppliesTo")
}

// duties reads the obligations or the advice of an element.
func (p *xmlParser) duties(list, element, id, on string) (out []policy.Obligation) {
	p.fields()
	for children := p.children(element + "*"); children.next() != ""; {
		one := policy.Obligation{Position: p.position()}
		var effect string
		p.fields(field{name: id, to: &one.ID}, field{name: on, to: &effect})
		one.On = p.effect(effect)
		for inner := p.children("AttributeAssignmentExpression*"); inner.next() != ""; {
			one.Assignments = append(one.Assignments, p.assignment())
		}
		out = append(out, one)
	}
	p.demand(len(out) > 0, list, element)
	return out
}

func (p *xmlParser) assignment() policy.Assignment {
	out := policy.Assignment{Position: p.position()}
	p.fields(field{name: "AttributeId", to: &out.ID}, field{name: "Category", to: &out.Category, optional: true},
		field{name: "Issuer", to: &out.Issuer, optional: true, verbatim: true})
	out.Expression = p.only("AttributeAssignmentExpression")
	return out
}

func (p *xmlParser) boolean(name, text string) bool {
	v, err := value.Parse(value.Boolean, text)
	if err != nil {
		p.Fail("invalid %s: %v", name, err)
	}
	return v.Bool()
}

func (p *xmlParser) dataType(uri string) value.Type {
	t, ok := value.ParseType(uri)
	if !ok {
		p.Fail("unknown data type %q: expected a type of XACML 3.0, for example %q", short(uri), value.String.URI())
	}
	return t
}

// short cuts a text for an error.
func short(text string) string {
	if len(text) <= shownMax {
		return text
	}
	return strings.ToValidUTF8(text[:shownMax], "") + "…"
}

// shownMax is the number of bytes of a value that an error shows.
const shownMax = 100
