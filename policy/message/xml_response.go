package message

import (
	"strings"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// ParseXMLResponse reads a Response of XACML 3.0 (section 5.47). Minor status
// codes, and details of a status other than missing attributes, are ignored. The
// error is a *[status.Error] with line and column.
func ParseXMLResponse(body []byte) ([]policy.Result, error) {
	p := xmlResponse{Reader: xmlread.New(body)}
	p.SetVocabulary(Namespace)
	var out []policy.Result
	if p.Root() {
		if string(p.Name()) != "Response" {
			p.Fail("unexpected element %s: expected Response", short(string(p.Name())))
		}
		p.Fields()
		for children := p.Sequence("Result*"); children.Next() != ""; {
			if out = append(out, p.result()); len(out) > ResultsMax {
				p.FailBound(p.Offset(), BoundResults, ResultsMax)
			}
		}
		p.Demand(len(out) > 0, "Response", "Result")
	}
	if err := p.End(); err != nil {
		return nil, failure("response", err, "")
	}
	return out, nil
}

// xmlResponse reads the elements of a response.
type xmlResponse struct{ *xmlread.Reader }

func (p *xmlResponse) result() policy.Result {
	p.Fields()
	var out policy.Result
	decided := false
	for children := p.Sequence("Decision", "Status", "Obligations", "AssociatedAdvice", "Attributes*", "PolicyIdentifierList"); ; {
		switch children.Next() {
		case "":
			p.Demand(decided, "Result", "Decision")
			return out
		case "Decision":
			decided, out.Decision = true, p.decision()
		case "Status":
			out.Status = p.status()
		case "Obligations":
			out.Obligations = p.duties("Obligation", "ObligationId")
		case "AssociatedAdvice":
			out.Advice = p.duties("Advice", "AdviceId")
		case "Attributes":
			q := xmlRequest{Reader: p.Reader, request: newRequest()}
			out.Categories = append(out.Categories, q.category())
		case "PolicyIdentifierList":
			out.Policies = p.policies()
		}
	}
}

func (p *xmlResponse) decision() policy.Decision {
	p.Fields()
	at := p.Offset()
	name := strings.TrimSpace(p.Text())
	d, ok := parseDecision(name)
	if !ok {
		p.FailAt(at, "invalid decision %q: expected Permit, Deny, NotApplicable or Indeterminate", short(name))
	}
	return d
}

// status reads a Status. It returns nil if the code is OK.
func (p *xmlResponse) status() *status.Error {
	p.Fields()
	out := &status.Error{}
	for children := p.Sequence("StatusCode", "StatusMessage", "StatusDetail"); ; {
		switch children.Next() {
		case "":
			p.Demand(out.Code != "", "Status", "StatusCode")
			if out.Code == status.OK {
				return nil
			}
			return out
		case "StatusCode":
			var uri string
			p.Fields(xmlread.Field{Name: "Value", To: &uri})
			out.Code = status.Code(uri)
			for p.Child() {
				p.Skip()
			}
		case "StatusMessage":
			p.Fields()
			out.Message = p.Text()
		case "StatusDetail":
			p.detail(out)
		}
	}
}

// detail reads a StatusDetail, which may have elements of any namespace.
func (p *xmlResponse) detail(out *status.Error) {
	p.SetVocabulary("")
	for p.Child() {
		if p.Space() != Namespace || string(p.Name()) != "MissingAttributeDetail" {
			p.Skip()
			continue
		}
		var m status.Missing
		var uri string
		p.Fields(xmlread.Field{Name: "Category", To: &m.Category}, xmlread.Field{Name: "AttributeId", To: &m.ID}, xmlread.Field{Name: "DataType", To: &uri},
			xmlread.Field{Name: "Issuer", To: &m.Issuer, Optional: true, Verbatim: true})
		var ok bool
		if m.Type, ok = value.ParseType(uri); !ok {
			p.Fail("unknown data type %q", short(uri))
		}
		p.Skip()
		out.Missing = append(out.Missing, m)
	}
	p.SetVocabulary(Namespace)
}

// duties reads obligations or advice.
func (p *xmlResponse) duties(element, id string) (out []policy.Duty) {
	p.Fields()
	for children := p.Sequence(element + "*"); children.Next() != ""; {
		var one policy.Duty
		p.Fields(xmlread.Field{Name: id, To: &one.ID})
		for inner := p.Sequence("AttributeAssignment*"); inner.Next() != ""; {
			var a policy.Argument
			var uri, category string
			p.OpenFields(xmlread.Field{Name: "AttributeId", To: &a.ID}, xmlread.Field{Name: "DataType", To: &uri},
				xmlread.Field{Name: "Category", To: &a.Category, Optional: true}, xmlread.Field{Name: "Issuer", To: &a.Issuer, Optional: true, Verbatim: true},
				xmlread.Field{Name: "XPathCategory", To: &category, Optional: true})
			a.Value = literal.ReadXMLText(p.Reader, uri, category)
			one.Arguments = append(one.Arguments, a)
		}
		out = append(out, one)
	}
	return out
}

func (p *xmlResponse) policies() (out []policy.PolicyVersion) {
	p.Fields()
	for children := p.Sequence("PolicyIdReference* PolicySetIdReference*"); ; {
		name := children.Next()
		if name == "" {
			return out
		}
		one := policy.PolicyVersion{Set: name == "PolicySetIdReference"}
		p.Fields(xmlread.Field{Name: "Version", To: &one.Version, Optional: true})
		one.ID = strings.TrimSpace(p.Text())
		out = append(out, one)
	}
}
