package message

import (
	"fmt"
	"sync"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/internal/literal"
	"github.com/ostiary/ostiary/policy/value"
)

// jsonReaders are readers that are not in use, with their memory.
var jsonReaders = sync.Pool{New: func() any { return new(jsonread.Reader) }}

// ReadJSON reads a request of the JSON profile of XACML 3.0, version 1.1 (section
// 4). Unknown and duplicate members are errors. The error is a *[status.Error]: a
// syntax-error that names the member, or a processing-error with the name of an
// exceeded bound. The request does not refer to body.
func ReadJSON(body []byte) (*policy.Request, error) {
	r := jsonReaders.Get().(*jsonread.Reader)
	r.Reset(body)
	r.ShareText()
	p := jsonRequest{Reader: r, request: newRequest()}
	found := false
	for r.Object(); r.Field(); {
		if string(r.Name()) != "Request" {
			r.Unknown()
		}
		p.read()
		found = true
	}
	if !found {
		r.Fail("an object without Request: expected a request")
	}
	err := r.End()
	r.Reset(nil)
	jsonReaders.Put(r)
	if err != nil {
		return nil, failure("request", err, p.request.bound)
	}
	return &p.request.Request, nil
}

// jsonRequest reads the members of a request.
type jsonRequest struct {
	*jsonread.Reader
	request *request
	raw     []literal.Raw // the values of the current attribute
	room    [4]literal.Raw
}

func (p *jsonRequest) read() {
	q := p.request
	for p.Object(); p.Field(); {
		switch name := string(p.Name()); name {
		case "ReturnPolicyIdList":
			q.ReturnPolicyIDs = p.Bool()
		case "CombinedDecision":
			q.Combined = p.Bool()
		case "XPathVersion":
			if version := p.String(); !content.IsXPathVersion(version) && p.Err() == nil {
				p.Fail("unsupported XPathVersion: expected " + content.XPathVersion)
			}
		case "Category":
			for p.Array(); p.Item(); {
				p.category("")
			}
		case "MultiRequests":
			p.references()
		default:
			p.named(name)
		}
	}
	if p.Err() != nil {
		return
	}
	if len(q.Categories) == 0 {
		p.Fail("a request without attributes: expected Category, Resource or another category")
	}
	if id := q.duplicateID(); id != "" {
		p.Fail(fmt.Sprintf("duplicate Id %q", short(id)))
	}
}

// named reads a member whose name is the short name of a category: one category,
// or an array.
func (p *jsonRequest) named(name string) {
	id := longCategory(name)
	switch {
	case id == name:
		p.Unknown()
	case p.Kind() == '[':
		for p.Array(); p.Item(); {
			p.category(id)
		}
	default:
		p.category(id)
	}
}

// bound makes the reader fail if the request exceeds a bound.
func (p *jsonRequest) bound() {
	if b := p.request.exceeded(); b.name != "" {
		p.FailBound(b.name, b.largest)
	}
}

// category reads a category. named is its id if the member's name is its short
// name; otherwise CategoryId is mandatory.
func (p *jsonRequest) category(named string) {
	out := policy.Category{Name: named}
	from := len(p.request.attributes)
	for p.Object(); p.Field(); {
		switch string(p.Name()) {
		case "CategoryId":
			out.Name = longCategory(p.String())
			if named != "" && out.Name != named {
				p.Fail("another category than that of the member: expected " + named)
			}
		case "Id":
			out.ID = p.String()
		case "Content":
			p.content(&out)
		case "Attribute":
			for p.Array(); p.Item(); {
				p.attribute()
			}
		default:
			p.Unknown()
		}
	}
	if out.Name == "" {
		p.Fail("a category without CategoryId: expected an identifier")
	}
	all := p.request.attributes
	out.Attributes = all[from:len(all):len(all)]
	p.request.Categories = append(p.request.Categories, out)
	p.bound()
}

func (p *jsonRequest) content(out *policy.Category) {
	text := p.String()
	if p.Err() != nil {
		return
	}
	var err error
	if out.Content, err = parseJSONContent(text); err != nil {
		p.Fail("invalid Content: " + err.Error())
		p.request.bound = boundOf(err)
	}
}

// attribute reads an attribute. DataType may follow Value.
func (p *jsonRequest) attribute() {
	var out policy.Attribute
	var t value.Type
	given := false
	p.raw = p.room[:0]
	for p.Object(); p.Field(); {
		switch string(p.Name()) {
		case "AttributeId":
			out.ID = p.String()
		case "Value":
			p.values()
			given = true
		case "DataType":
			t = p.dataType()
		case "Issuer":
			out.Issuer = p.String()
		case "IncludeInResult":
			out.IncludeInResult = p.Bool()
		default:
			p.Unknown()
		}
	}
	if p.Err() != nil {
		return
	}
	switch {
	case out.ID == "":
		p.Fail("an attribute without AttributeId: expected an identifier")
	case !given || len(p.raw) == 0:
		p.Fail("an attribute without a value: expected Value with at least one")
	case t == 0:
		t = p.inferred()
	}
	from := len(p.request.values)
	for i := range p.raw {
		p.request.values = append(p.request.values, p.raw[i].Value(p.Reader, t))
	}
	all := p.request.values
	out.Values = all[from:len(all):len(all)]
	p.request.attributes = append(p.request.attributes, out)
	p.bound()
}

// values reads a value or an array of values.
func (p *jsonRequest) values() {
	if p.Kind() != '[' {
		p.raw = append(p.raw, literal.ReadJSON(p.Reader, longCategory))
		return
	}
	for p.Array(); p.Item(); {
		if p.raw = append(p.raw, literal.ReadJSON(p.Reader, longCategory)); len(p.raw) > ValuesMax {
			p.FailBound(BoundValues, ValuesMax)
		}
	}
}

func (p *jsonRequest) dataType() value.Type {
	name := p.String()
	t, ok := literal.ParseType(name)
	if !ok && p.Err() == nil {
		p.Fail(fmt.Sprintf("unknown data type %q: expected a type of XACML 3.0, for example %q", short(name), "string"))
	}
	return t
}

// inferred returns the data type of the values of an attribute without DataType
// (section 3.3.2 of the JSON profile): all values must be of one type, but
// integers and doubles make doubles.
func (p *jsonRequest) inferred() value.Type {
	t := p.raw[0].Type()
	for i := range p.raw {
		switch next := p.raw[i].Type(); {
		case next == t:
		case t == value.Integer && next == value.Double:
			t = value.Double
		case t == value.Double && next == value.Integer:
		default:
			p.Fail("values of the types " + t.String() + " and " + next.String() + ": expected one type, or DataType")
			return t
		}
	}
	return t
}

// references reads MultiRequests.
func (p *jsonRequest) references() {
	for p.Object(); p.Field(); {
		if string(p.Name()) != "RequestReference" {
			p.Unknown()
		}
		for p.Array(); p.Item(); {
			p.reference()
		}
	}
	if len(p.request.References) == 0 {
		p.Fail("MultiRequests without a RequestReference: expected at least one")
	}
}

func (p *jsonRequest) reference() {
	var ids []string
	for p.Object(); p.Field(); {
		if string(p.Name()) != "ReferenceId" {
			p.Unknown()
		}
		for p.Array(); p.Item(); p.bound() {
			ids = append(ids, p.String())
			p.request.references++
		}
	}
	if len(ids) == 0 {
		p.Fail("a RequestReference without ids: expected ReferenceId with at least one")
	}
	p.request.References = append(p.request.References, ids)
}
