package language

import (
	"context"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/value"
)

// Namespace is the XML namespace of XACML 3.0.
const Namespace = literal.Namespace

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
// exceeded bound. If ctx ends before, it is the error of ctx.
func ParseXML(ctx context.Context, text []byte, source string) (policy.Element, error) {
	if err := checkLength(text, source); err != nil {
		return nil, err
	}
	p := xmlParser{Reader: xmlread.New(text), source: source, progress: progress{ctx: ctx}}
	var root policy.Element
	p.SetVocabulary(Namespace)
	if p.Root() {
		switch string(p.Name()) {
		case "Policy":
			root = p.policy()
		case "PolicySet":
			root = p.policySet()
		default:
			p.Fail("unexpected element %s: expected Policy or PolicySet", p.shown())
		}
	}
	err := p.End()
	if p.ended != nil {
		return nil, p.ended
	}
	if err != nil {
		return nil, located(err, source)
	}
	return root, nil
}

// xmlParser reads the elements of policies. Each method that is named after an
// element reads that element from after its start tag to its end.
type xmlParser struct {
	*xmlread.Reader
	source string
	progress
}

// shown returns the name of the innermost element for an error.
func (p *xmlParser) shown() string { return short(string(p.Name())) }

// position returns the place of the innermost element. It counts the element, and
// stops the reader if the context has ended.
func (p *xmlParser) position() policy.Position {
	if !p.step(stepsPerElement) {
		p.Fail(endedText)
	}
	line, column := p.Position(p.Offset())
	return policy.Position{Source: p.source, Line: line, Column: column}
}

func (p *xmlParser) policySet() *policy.PolicySet {
	out := &policy.PolicySet{Header: policy.Header{Position: p.position()}}
	var delegation string
	p.Fields(xmlread.Field{Name: "PolicySetId", To: &out.ID}, xmlread.Field{Name: "Version", To: &out.Version},
		xmlread.Field{Name: "PolicyCombiningAlgId", To: &out.Algorithm}, xmlread.Field{Name: "MaxDelegationDepth", To: &delegation, Optional: true})
	p.checkDelegation(delegation)
	targeted := false
	for children := p.Sequence("Description", "PolicyIssuer", "PolicySetDefaults", "Target",
		"PolicySet* Policy* PolicySetIdReference* PolicyIdReference* CombinerParameters* PolicyCombinerParameters* PolicySetCombinerParameters*",
		"ObligationExpressions", "AdviceExpressions"); ; {
		switch name := children.Next(); name {
		case "":
			p.Demand(targeted, "PolicySet", "Target")
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
			p.header(name, &out.Header)
		}
	}
}

func (p *xmlParser) policy() *policy.Policy {
	out := &policy.Policy{Header: policy.Header{Position: p.position()}}
	var delegation string
	p.Fields(xmlread.Field{Name: "PolicyId", To: &out.ID}, xmlread.Field{Name: "Version", To: &out.Version},
		xmlread.Field{Name: "RuleCombiningAlgId", To: &out.Algorithm}, xmlread.Field{Name: "MaxDelegationDepth", To: &delegation, Optional: true})
	p.checkDelegation(delegation)
	targeted := false
	for children := p.Sequence("Description", "PolicyIssuer", "PolicyDefaults", "Target",
		"Rule* VariableDefinition* CombinerParameters* RuleCombinerParameters*", "ObligationExpressions", "AdviceExpressions"); ; {
		switch name := children.Next(); name {
		case "":
			p.Demand(targeted, "Policy", "Target")
			return out
		case "Target":
			targeted, out.Target = true, p.target()
		case "Rule":
			out.Rules = append(out.Rules, p.rule())
		case "VariableDefinition":
			out.Variables = append(out.Variables, p.variable())
		default:
			p.header(name, &out.Header)
		}
	}
}

// header reads a child that policies and policy sets have in common.
func (p *xmlParser) header(name string, out *policy.Header) {
	switch name {
	case "Description":
		out.Description = p.text()
	case "PolicyDefaults", "PolicySetDefaults":
		out.XPathVersion = p.defaults()
	case "ObligationExpressions":
		out.Obligations = p.obligations()
	case "AdviceExpressions":
		out.Advice = p.advice()
	case "PolicyIssuer":
		p.Fail("unsupported element PolicyIssuer: expected a policy without an issuer, because administrative delegation is not supported")
	default:
		p.Fail("unsupported element %s: expected none, because no combining algorithm has parameters", short(name))
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
	p.Fields()
	return p.Text()
}

func (p *xmlParser) defaults() (xpath string) {
	p.Fields()
	found := false
	for children := p.Sequence("XPathVersion"); children.Next() != ""; found = true {
		at := p.Offset()
		if xpath = strings.TrimSpace(p.text()); xpath == "" {
			p.FailAt(at, "an empty XPathVersion: expected a value")
		}
	}
	p.Demand(found, "PolicyDefaults", "XPathVersion")
	return xpath
}

func (p *xmlParser) reference(set bool) *policy.Reference {
	out := &policy.Reference{Set: set, Position: p.position()}
	p.Fields(xmlread.Field{Name: "Version", To: &out.Version, Optional: true}, xmlread.Field{Name: "EarliestVersion", To: &out.Earliest, Optional: true},
		xmlread.Field{Name: "LatestVersion", To: &out.Latest, Optional: true})
	at := p.Offset()
	if out.ID = strings.TrimSpace(p.Text()); out.ID == "" {
		p.FailAt(at, "empty reference: expected the id of a policy or policy set")
	}
	return out
}

func (p *xmlParser) rule() policy.Rule {
	out := policy.Rule{Position: p.position()}
	var effect string
	p.Fields(xmlread.Field{Name: "RuleId", To: &out.ID, Verbatim: true}, xmlread.Field{Name: "Effect", To: &effect})
	out.Effect = p.effect(effect)
	for children := p.Sequence("Description", "Target", "Condition", "ObligationExpressions", "AdviceExpressions"); ; {
		switch children.Next() {
		case "":
			return out
		case "Description":
			out.Description = p.text()
		case "Target":
			out.Target = p.target()
		case "Condition":
			p.Fields()
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
	p.Fields(xmlread.Field{Name: "VariableId", To: &out.ID, Verbatim: true})
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
	p.Fields()
	for children := p.Sequence(element + "*"); children.Next() != ""; {
		one := policy.Obligation{Position: p.position()}
		var effect string
		p.Fields(xmlread.Field{Name: id, To: &one.ID}, xmlread.Field{Name: on, To: &effect})
		one.On = p.effect(effect)
		for inner := p.Sequence("AttributeAssignmentExpression*"); inner.Next() != ""; {
			one.Assignments = append(one.Assignments, p.assignment())
		}
		out = append(out, one)
	}
	p.Demand(len(out) > 0, list, element)
	return out
}

func (p *xmlParser) assignment() policy.Assignment {
	out := policy.Assignment{Position: p.position()}
	p.Fields(xmlread.Field{Name: "AttributeId", To: &out.ID}, xmlread.Field{Name: "Category", To: &out.Category, Optional: true},
		xmlread.Field{Name: "Issuer", To: &out.Issuer, Optional: true, Verbatim: true})
	out.Expression = p.only("AttributeAssignmentExpression")
	return out
}

func (p *xmlParser) dataType(uri string) value.Type {
	t, ok := value.ParseType(uri)
	if !ok {
		p.Fail("unknown data type %q: expected a type of XACML 3.0, for example %q", short(uri), value.String.URI())
	}
	return t
}

// short cuts a text for an error.
func short(text string) string { return quote.Of(text, shownMax) }

// shownMax is the number of bytes of a value that an error shows.
const shownMax = 100
