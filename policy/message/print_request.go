package message

import (
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
)

// PrintXMLRequest returns a request as XML, from which [ReadXML] reads an equal
// request. It is for clients, tools and tests.
func PrintXMLRequest(q *policy.Request) []byte {
	dst := append([]byte(nil), `<?xml version="1.0" encoding="UTF-8"?><Request xmlns="`+Namespace+`"`...)
	dst = appendXMLBoolean(dst, "ReturnPolicyIdList", q.ReturnPolicyIDs)
	dst = append(appendXMLBoolean(dst, "CombinedDecision", q.Combined), '>')
	for i := range q.Categories {
		c := &q.Categories[i]
		dst = appendXMLCategoryTag(dst, c)
		if c.Content != nil {
			// The default namespace must not be that of XACML inside.
			dst = append(dst, `<x:Content xmlns:x="`+Namespace+`" xmlns="">`...)
			dst = append(c.Content.AppendXML(dst), "</x:Content>"...)
		}
		dst = appendXMLAttributes(dst, c)
	}
	if len(q.References) > 0 {
		dst = append(dst, "<MultiRequests>"...)
		for _, ids := range q.References {
			dst = append(dst, "<RequestReference>"...)
			for _, id := range ids {
				dst = append(appendPair(append(dst, "<AttributesReference"...), "ReferenceId", id), "/>"...)
			}
			dst = append(dst, "</RequestReference>"...)
		}
		dst = append(dst, "</MultiRequests>"...)
	}
	return append(dst, "</Request>"...)
}

// PrintJSONRequest returns a request in the JSON profile. [ReadJSON] reads a
// request with the same meaning from it: an attribute with values of several data
// types becomes several attributes. It is for clients, tools and tests.
func PrintJSONRequest(q *policy.Request) []byte {
	dst := []byte(`{"Request":{`)
	if q.ReturnPolicyIDs {
		dst = append(dst, `"ReturnPolicyIdList":true,`...)
	}
	if q.Combined {
		dst = append(dst, `"CombinedDecision":true,`...)
	}
	dst = append(dst, `"Category":[`...)
	for i := range q.Categories {
		if i > 0 {
			dst = append(dst, ',')
		}
		c := &q.Categories[i]
		dst = appendJSONCategory(append(dst, '{'), c)
		if c.Content != nil {
			dst = jsonread.AppendString(append(dst, `,"Content":`...), string(c.Content.AppendXML(nil)))
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	for i, ids := range q.References {
		if i == 0 {
			dst = append(dst, `,"MultiRequests":{"RequestReference":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"ReferenceId":[`...)
		for j, id := range ids {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = jsonread.AppendString(dst, id)
		}
		dst = append(dst, `]}`...)
	}
	if len(q.References) > 0 {
		dst = append(dst, `]}`...)
	}
	return append(dst, `}}`...)
}
