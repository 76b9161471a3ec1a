package message

import (
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/status"
)

// WriteJSON returns a response of the JSON profile. See [AppendJSON].
func WriteJSON(results []policy.Result) []byte { return AppendJSON(nil, results) }

// AppendJSON appends a response of the JSON profile of XACML 3.0, version 1.1
// (section 5): always an array of results, and always with data types as full
// identifiers. Bytes that are not UTF-8 become U+FFFD.
func AppendJSON(dst []byte, results []policy.Result) []byte {
	dst = append(dst, `{"Response":[`...)
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSONResult(dst, &results[i])
	}
	return append(dst, `]}`...)
}

func appendJSONResult(dst []byte, r *policy.Result) []byte {
	dst = append(append(append(dst, `{"Decision":"`...), r.Decision.String()...), '"')
	dst = appendJSONStatus(append(dst, `,"Status":`...), r.Status)
	dst = appendJSONDuties(dst, `,"Obligations":[`, r.Obligations)
	dst = appendJSONDuties(dst, `,"AssociatedAdvice":[`, r.Advice)
	if len(r.Categories) > 0 {
		dst = append(dst, `,"Category":[`...)
		for i := range r.Categories {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendJSONCategory(append(dst, '{'), &r.Categories[i]), '}')
		}
		dst = append(dst, ']')
	}
	if len(r.Policies) > 0 {
		dst = append(appendJSONPolicies(append(dst, `,"PolicyIdentifierList":{`...), r.Policies), '}')
	}
	return append(dst, '}')
}

func appendJSONStatus(dst []byte, e *status.Error) []byte {
	dst = jsonread.AppendString(append(dst, `{"StatusCode":{"Value":`...), string(code(e)))
	dst = append(dst, '}')
	if e != nil && e.Message != "" {
		dst = jsonread.AppendString(append(dst, `,"StatusMessage":`...), e.Message)
	}
	if e != nil && len(e.Missing) > 0 {
		dst = append(dst, `,"StatusDetail":[`...)
		for i, m := range e.Missing {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsonread.AppendString(append(dst, `{"Category":`...), m.Category)
			dst = jsonread.AppendString(append(dst, `,"AttributeId":`...), m.ID)
			dst = jsonread.AppendString(append(dst, `,"DataType":`...), m.Type.URI())
			dst = append(appendMember(dst, `,"Issuer":`, m.Issuer), '}')
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendMember appends a member with a string, unless the string is empty.
func appendMember(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return jsonread.AppendString(append(dst, name...), text)
}

// appendJSONDuties appends obligations or advice.
func appendJSONDuties(dst []byte, member string, all []policy.Duty) []byte {
	if len(all) == 0 {
		return dst
	}
	dst = append(dst, member...)
	for i := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonread.AppendString(append(dst, `{"Id":`...), all[i].ID)
		for j := range all[i].Arguments {
			if j == 0 {
				dst = append(dst, `,"AttributeAssignment":[`...)
			} else {
				dst = append(dst, ',')
			}
			dst = appendJSONArgument(dst, &all[i].Arguments[j])
		}
		if len(all[i].Arguments) > 0 {
			dst = append(dst, ']')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendJSONArgument(dst []byte, a *policy.Argument) []byte {
	dst = jsonread.AppendString(append(dst, `{"AttributeId":`...), a.ID)
	dst = appendMember(appendMember(dst, `,"Category":`, a.Category), `,"Issuer":`, a.Issuer)
	dst = jsonread.AppendString(append(dst, `,"DataType":`...), a.Value.Type().URI())
	return append(literal.AppendJSON(append(dst, `,"Value":`...), a.Value), '}')
}

// appendJSONCategory appends the members of a category of a request or a result,
// without its Content.
func appendJSONCategory(dst []byte, c *policy.Category) []byte {
	dst = jsonread.AppendString(append(dst, `"CategoryId":`...), c.Name)
	dst = appendMember(dst, `,"Id":`, c.ID)
	first := true
	for i := range c.Attributes {
		a := &c.Attributes[i]
		runs(a, func(from, to int) {
			if first {
				dst = append(dst, `,"Attribute":[`...)
			} else {
				dst = append(dst, ',')
			}
			first = false
			dst = appendJSONAttribute(dst, a, from, to)
		})
	}
	if !first {
		dst = append(dst, ']')
	}
	return dst
}

// appendJSONAttribute appends an attribute with some of its values, which are of
// one data type.
func appendJSONAttribute(dst []byte, a *policy.Attribute, from, to int) []byte {
	dst = jsonread.AppendString(append(dst, `{"AttributeId":`...), a.ID)
	dst = appendMember(dst, `,"Issuer":`, a.Issuer)
	if a.IncludeInResult {
		dst = append(dst, `,"IncludeInResult":true`...)
	}
	dst = jsonread.AppendString(append(dst, `,"DataType":`...), a.Values[from].Type().URI())
	if dst = append(dst, `,"Value":`...); to == from+1 {
		return append(literal.AppendJSON(dst, a.Values[from]), '}')
	}
	for i := from; i < to; i++ {
		if i == from {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = literal.AppendJSON(dst, a.Values[i])
	}
	return append(dst, `]}`...)
}

// appendJSONPolicies appends the members with the references to policies and to
// policy sets.
func appendJSONPolicies(dst []byte, all []policy.PolicyVersion) []byte {
	some := false
	for _, set := range [...]bool{false, true} {
		member := `"PolicyIdReference":[`
		if set {
			member = `"PolicySetIdReference":[`
		}
		open := false
		for i := range all {
			if all[i].Set != set {
				continue
			}
			if open || some {
				dst = append(dst, ',')
			}
			if !open {
				dst = append(dst, member...)
			}
			open, some = true, false
			dst = jsonread.AppendString(append(dst, `{"Id":`...), all[i].ID)
			dst = append(appendMember(dst, `,"Version":`, all[i].Version), '}')
		}
		if open {
			dst = append(dst, ']')
			some = true
		}
	}
	return dst
}
