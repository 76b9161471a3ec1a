package message

import (
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// ParseJSONResponse reads a response of the JSON profile of XACML 3.0, version
// 1.1 (section 5). Minor status codes are ignored. The error is a *[status.Error]
// that names the member.
func ParseJSONResponse(body []byte) ([]policy.Result, error) {
	p := jsonResponse{jsonRequest{Reader: jsonread.New(body)}}
	var out []policy.Result
	for p.Object(); p.Field(); {
		if string(p.Name()) != "Response" {
			p.Unknown()
		}
		for p.Array(); p.Item(); {
			if out = append(out, p.result()); len(out) > ResultsMax {
				p.FailBound(BoundResults, ResultsMax)
			}
		}
	}
	if len(out) == 0 {
		p.Fail("an object without results: expected Response with at least one")
	}
	if err := p.End(); err != nil {
		return nil, failure("response", err, "")
	}
	return out, nil
}

// jsonResponse reads the members of a response.
type jsonResponse struct{ jsonRequest }

func (p *jsonResponse) result() policy.Result {
	var out policy.Result
	p.request = newRequest()
	decided := false
	for p.Object(); p.Field(); {
		switch string(p.Name()) {
		case "Decision":
			out.Decision, decided = parseDecision(p.String())
		case "Status":
			out.Status = p.status()
		case "Obligations":
			out.Obligations = p.duties()
		case "AssociatedAdvice":
			out.Advice = p.duties()
		case "Category":
			for p.Array(); p.Item(); {
				p.category("")
			}
			out.Categories = p.request.Categories
		case "PolicyIdentifierList":
			out.Policies = p.policies()
		default:
			p.Unknown()
		}
	}
	if !decided {
		p.Fail("a result without a decision: expected Decision to be Permit, Deny, NotApplicable or Indeterminate")
	}
	return out
}

// status reads a Status. It returns nil if the code is OK.
func (p *jsonResponse) status() *status.Error {
	out := &status.Error{Code: status.OK}
	for p.Object(); p.Field(); {
		switch string(p.Name()) {
		case "StatusCode":
			p.code(out)
		case "StatusMessage":
			out.Message = p.String()
		case "StatusDetail":
			p.detail(out)
		default:
			p.Unknown()
		}
	}
	if out.Code == status.OK {
		return nil
	}
	return out
}

func (p *jsonResponse) code(out *status.Error) {
	for p.Object(); p.Field(); {
		switch string(p.Name()) {
		case "Value":
			out.Code = status.Code(p.String())
		case "StatusCode":
			p.Skip()
		default:
			p.Unknown()
		}
	}
}

// detail reads a StatusDetail: a list of missing attributes, or XML as a string,
// which is not used (JSON profile, section 5.2.3).
func (p *jsonResponse) detail(out *status.Error) {
	if p.Kind() == '"' {
		p.Skip()
		return
	}
	for p.Array(); p.Item(); {
		out.Missing = append(out.Missing, p.missing())
	}
}

func (p *jsonResponse) missing() (out status.Missing) {
	for p.Object(); p.Field(); {
		switch string(p.Name()) {
		case "Category":
			out.Category = longCategory(p.String())
		case "AttributeId":
			out.ID = p.String()
		case "DataType":
			out.Type = p.dataType()
		case "Issuer":
			out.Issuer = p.String()
		case "AttributeValue":
			p.Skip()
		default:
			p.Unknown()
		}
	}
	return out
}

// duties reads obligations or advice.
func (p *jsonResponse) duties() (out []policy.Duty) {
	for p.Array(); p.Item(); {
		var one policy.Duty
		for p.Object(); p.Field(); {
			switch string(p.Name()) {
			case "Id":
				one.ID = p.String()
			case "AttributeAssignment":
				for p.Array(); p.Item(); {
					one.Arguments = append(one.Arguments, p.argument())
				}
			default:
				p.Unknown()
			}
		}
		if one.ID == "" {
			p.Fail("an obligation or advice without Id: expected an identifier")
		}
		out = append(out, one)
	}
	return out
}

func (p *jsonResponse) argument() (out policy.Argument) {
	var t value.Type
	var raw literal.Raw
	for p.Object(); p.Field(); {
		switch string(p.Name()) {
		case "AttributeId":
			out.ID = p.String()
		case "Value":
			raw = literal.ReadJSON(p.Reader, longCategory)
		case "DataType":
			t = p.dataType()
		case "Category":
			out.Category = longCategory(p.String())
		case "Issuer":
			out.Issuer = p.String()
		default:
			p.Unknown()
		}
	}
	if raw.Kind == 0 || out.ID == "" {
		p.Fail("an argument without AttributeId or Value: expected both")
		return out
	}
	if t == 0 {
		t = raw.Type()
	}
	out.Value = raw.Value(p.Reader, t)
	return out
}

func (p *jsonResponse) policies() (out []policy.PolicyVersion) {
	for p.Object(); p.Field(); {
		set := false
		switch string(p.Name()) {
		case "PolicyIdReference":
		case "PolicySetIdReference":
			set = true
		default:
			p.Unknown()
		}
		for p.Array(); p.Item(); {
			one := policy.PolicyVersion{Set: set}
			for p.Object(); p.Field(); {
				switch string(p.Name()) {
				case "Id":
					one.ID = p.String()
				case "Version":
					one.Version = p.String()
				default:
					p.Unknown()
				}
			}
			out = append(out, one)
		}
	}
	return out
}
