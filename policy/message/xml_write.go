package message

import (
	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// WriteXML returns a Response of XACML 3.0 as XML. See [AppendXML].
func WriteXML(results []policy.Result) []byte { return AppendXML(nil, results) }

// AppendXML appends a Response of XACML 3.0 as XML (section 5.47). Characters that
// XML cannot express become U+FFFD.
func AppendXML(dst []byte, results []policy.Result) []byte {
	dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?><Response xmlns="`+Namespace+`">`...)
	for i := range results {
		dst = appendXMLResult(dst, &results[i])
	}
	return append(dst, "</Response>"...)
}

func appendXMLResult(dst []byte, r *policy.Result) []byte {
	dst = append(append(dst, "<Result><Decision>"...), r.Decision.String()...)
	dst = append(dst, "</Decision>"...)
	dst = appendXMLStatus(dst, r.Status)
	dst = appendXMLDuties(dst, "Obligations", "Obligation", r.Obligations)
	dst = appendXMLDuties(dst, "AssociatedAdvice", "Advice", r.Advice)
	for i := range r.Categories {
		dst = appendXMLCategory(dst, &r.Categories[i])
	}
	if len(r.Policies) > 0 {
		dst = append(dst, "<PolicyIdentifierList>"...)
		for i := range r.Policies {
			dst = appendXMLPolicy(dst, &r.Policies[i])
		}
		dst = append(dst, "</PolicyIdentifierList>"...)
	}
	return append(dst, "</Result>"...)
}

// appendPair appends an XML attribute.
func appendPair(dst []byte, name, text string) []byte {
	dst = append(append(append(dst, ' '), name...), `="`...)
	return append(xmlread.AppendAttribute(dst, text), '"')
}

// appendOptional appends an XML attribute unless its value is empty.
func appendOptional(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	return appendPair(dst, name, text)
}

func appendXMLStatus(dst []byte, e *status.Error) []byte {
	dst = append(appendPair(append(dst, "<Status><StatusCode"...), "Value", string(code(e))), "/>"...)
	if e != nil && e.Message != "" {
		dst = append(xmlread.AppendText(append(dst, "<StatusMessage>"...), e.Message), "</StatusMessage>"...)
	}
	if e != nil && len(e.Missing) > 0 {
		dst = append(dst, "<StatusDetail>"...)
		for _, m := range e.Missing {
			dst = appendPair(append(dst, "<MissingAttributeDetail"...), "Category", m.Category)
			dst = appendPair(appendPair(dst, "AttributeId", m.ID), "DataType", m.Type.URI())
			dst = append(appendOptional(dst, "Issuer", m.Issuer), "/>"...)
		}
		dst = append(dst, "</StatusDetail>"...)
	}
	return append(dst, "</Status>"...)
}

// appendXMLDuties appends obligations or advice.
func appendXMLDuties(dst []byte, list, element string, all []policy.Duty) []byte {
	if len(all) == 0 {
		return dst
	}
	dst = append(append(append(dst, '<'), list...), '>')
	for i := range all {
		dst = append(append(append(append(dst, '<'), element...), ' '), element...)
		dst = append(xmlread.AppendAttribute(append(dst, `Id="`...), all[i].ID), `">`...)
		for j := range all[i].Arguments {
			a := &all[i].Arguments[j]
			dst = appendPair(append(dst, "<AttributeAssignment"...), "AttributeId", a.ID)
			dst = appendOptional(appendOptional(dst, "Category", a.Category), "Issuer", a.Issuer)
			dst = append(literal.AppendXMLAttributes(dst, a.Value), '>')
			dst = append(xmlread.AppendText(dst, a.Value.Text()), "</AttributeAssignment>"...)
		}
		dst = append(append(append(dst, "</"...), element...), '>')
	}
	return append(append(append(dst, "</"...), list...), '>')
}

// appendXMLCategory appends an Attributes element of a request or a result,
// without its Content.
func appendXMLCategory(dst []byte, c *policy.Category) []byte {
	dst = appendXMLCategoryTag(dst, c)
	return appendXMLAttributes(dst, c)
}

func appendXMLCategoryTag(dst []byte, c *policy.Category) []byte {
	dst = appendPair(append(dst, "<Attributes"...), "Category", c.Name)
	return append(appendOptional(dst, "xml:id", c.ID), '>')
}

// appendXMLAttributes appends the attributes of a category and the end tag.
func appendXMLAttributes(dst []byte, c *policy.Category) []byte {
	for i := range c.Attributes {
		a := &c.Attributes[i]
		dst = appendPair(append(dst, "<Attribute"...), "AttributeId", a.ID)
		dst = appendXMLBoolean(appendOptional(dst, "Issuer", a.Issuer), "IncludeInResult", a.IncludeInResult)
		dst = append(dst, '>')
		for _, v := range a.Values {
			dst = appendXMLValue(dst, v)
		}
		dst = append(dst, "</Attribute>"...)
	}
	return append(dst, "</Attributes>"...)
}

func appendXMLBoolean(dst []byte, name string, b bool) []byte {
	if b {
		return appendPair(dst, name, "true")
	}
	return appendPair(dst, name, "false")
}

func appendXMLValue(dst []byte, v value.Value) []byte {
	dst = append(literal.AppendXMLAttributes(append(dst, "<AttributeValue"...), v), '>')
	return append(xmlread.AppendText(dst, v.Text()), "</AttributeValue>"...)
}

func appendXMLPolicy(dst []byte, p *policy.PolicyVersion) []byte {
	name := "PolicyIdReference"
	if p.Set {
		name = "PolicySetIdReference"
	}
	dst = appendOptional(append(append(dst, '<'), name...), "Version", p.Version)
	dst = xmlread.AppendText(append(dst, '>'), p.ID)
	return append(append(append(dst, "</"...), name...), '>')
}
