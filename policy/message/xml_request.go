package message

import (
	"strings"
	"sync"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/internal/literal"
)

// xmlReaders are readers that are not in use, with their memory.
var xmlReaders = sync.Pool{New: func() any { return new(xmlread.Reader) }}

// ReadXML reads a Request of XACML 3.0 (section 5.42). The text must match
// XACML's schema, with any prefix. The error is a *[status.Error]: a
// syntax-error with line and column, or a processing-error with the name of an
// exceeded bound. The request does not refer to body.
func ReadXML(body []byte) (*policy.Request, error) {
	r := xmlReaders.Get().(*xmlread.Reader)
	r.Reset(body)
	p := xmlRequest{Reader: r, request: newRequest()}
	p.read()
	err := p.End()
	r.Reset(nil)
	xmlReaders.Put(r)
	if err != nil {
		return nil, failure("request", err, p.request.bound)
	}
	return &p.request.Request, nil
}

// xmlRequest reads the elements of a request.
type xmlRequest struct {
	*xmlread.Reader
	request *request
}

func (p *xmlRequest) read() {
	p.SetVocabulary(Namespace)
	if !p.Root() {
		return
	}
	if string(p.Name()) != "Request" {
		p.Fail("unexpected element %s: expected Request", short(string(p.Name())))
	}
	var policies, combined string
	p.Fields(xmlread.Field{Name: "ReturnPolicyIdList", To: &policies}, xmlread.Field{Name: "CombinedDecision", To: &combined})
	p.request.ReturnPolicyIDs = literal.ReadXMLBoolean(p.Reader, "ReturnPolicyIdList", policies)
	p.request.Combined = literal.ReadXMLBoolean(p.Reader, "CombinedDecision", combined)
	for children := p.Sequence("RequestDefaults", "Attributes*", "MultiRequests"); ; {
		switch children.Next() {
		case "":
			p.Demand(len(p.request.Categories) > 0, "Request", "Attributes")
			if id := p.request.duplicateID(); id != "" {
				p.Fail("duplicate xml:id %q", short(id))
			}
			return
		case "RequestDefaults":
			p.defaults()
		case "Attributes":
			p.request.Categories = append(p.request.Categories, p.category())
		case "MultiRequests":
			p.references()
		}
		p.bound()
	}
}

// bound makes the reader fail if the request exceeds a bound.
func (p *xmlRequest) bound() {
	if b := p.request.exceeded(); b.name != "" {
		p.FailBound(p.Offset(), b.name, b.largest)
	}
}

func (p *xmlRequest) defaults() {
	p.Fields()
	found := false
	for children := p.Sequence("XPathVersion"); children.Next() != ""; found = true {
		p.Fields()
		at := p.Offset()
		if version := strings.TrimSpace(p.Text()); !content.IsXPathVersion(version) {
			p.FailAt(at, "unsupported XPathVersion %q: expected %q", short(version), content.XPathVersion)
		}
	}
	p.Demand(found, "RequestDefaults", "XPathVersion")
}

// category reads an Attributes element.
func (p *xmlRequest) category() policy.Category {
	var out policy.Category
	p.Fields(xmlread.Field{Name: "Category", To: &out.Name}, xmlread.Field{Name: "id", To: &out.ID, Optional: true, Space: xmlread.XMLSpace})
	from := len(p.request.attributes)
	for children := p.Sequence("Content", "Attribute*"); ; {
		switch children.Next() {
		case "":
			all := p.request.attributes
			out.Attributes = all[from:len(all):len(all)]
			return out
		case "Content":
			out.Content = p.content()
		case "Attribute":
			p.request.attributes = append(p.request.attributes, p.attribute())
			p.bound()
		}
	}
}

// content reads a Content element, which has exactly one child.
func (p *xmlRequest) content() *content.Node {
	p.Fields()
	p.SetVocabulary("")
	defer p.SetVocabulary(Namespace)
	var out *content.Node
	for p.Child() {
		at := p.Offset()
		if out != nil {
			p.Fail("unexpected second element in Content: expected exactly one")
		}
		fragment := p.Fragment()
		if p.Failed() {
			return nil
		}
		var err error
		if out, err = content.Parse(fragment); err != nil {
			p.FailAt(at, "invalid Content: %v", err)
			p.request.bound = boundOf(err)
		}
	}
	p.Demand(out != nil, "Content", "as its child")
	return out
}

func (p *xmlRequest) attribute() policy.Attribute {
	var out policy.Attribute
	var include string
	p.Fields(xmlread.Field{Name: "AttributeId", To: &out.ID}, xmlread.Field{Name: "IncludeInResult", To: &include},
		xmlread.Field{Name: "Issuer", To: &out.Issuer, Optional: true, Verbatim: true})
	out.IncludeInResult = literal.ReadXMLBoolean(p.Reader, "IncludeInResult", include)
	from := len(p.request.values)
	for children := p.Sequence("AttributeValue*"); children.Next() != ""; p.bound() {
		p.request.values = append(p.request.values, literal.ReadXML(p.Reader))
	}
	all := p.request.values
	p.Demand(len(all) > from, "Attribute", "AttributeValue")
	out.Values = all[from:len(all):len(all)]
	return out
}

func (p *xmlRequest) references() {
	p.Fields()
	for list := p.Sequence("RequestReference*"); list.Next() != ""; {
		p.Fields()
		var ids []string
		for children := p.Sequence("AttributesReference*"); children.Next() != ""; p.bound() {
			var id string
			p.Fields(xmlread.Field{Name: "ReferenceId", To: &id})
			p.Nothing()
			ids = append(ids, id)
			p.request.references++
		}
		p.Demand(len(ids) > 0, "RequestReference", "AttributesReference")
		p.request.References = append(p.request.References, ids)
	}
	p.Demand(len(p.request.References) > 0, "MultiRequests", "RequestReference")
}
