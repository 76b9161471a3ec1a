package xacml

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy/value"
)

// The media types of the door.
const (
	typeXACMLXML  = "application/xacml+xml"
	typeXACMLJSON = "application/xacml+json"
	typeXML       = "application/xml"
	typeJSON      = "application/json"
	typeHome      = "application/json-home"
	typeText      = "text/plain; charset=utf-8"
)

// form is the form of a message or a policy.
type form uint8

const (
	unknown  form = iota // no form that the door accepts
	formXML              // XACML as XML
	formJSON             // XACML as JSON
	formText             // the readable text of policies
)

// mediaForm returns the form of a media type without parameters.
func mediaForm(name string) form {
	switch name {
	case typeXACMLXML, typeXML, "text/xml":
		return formXML
	case typeXACMLJSON, typeJSON:
		return formJSON
	case "text/plain", "text/x-alfa":
		return formText
	}
	return unknown
}

// read reads the request's body and returns its form. Without a Content-Type, the
// first character of the body decides. Any other media type, another version than
// 3.0 and another character set than UTF-8 is refused with 415.
func (c *call) read(accepted ...form) (form, []byte, error) {
	body, err := c.Body()
	if err != nil {
		return unknown, nil, err
	}
	header := c.R.Header.Get("Content-Type")
	f := unknown
	switch {
	case header != "":
		f = formOf(header)
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		f = formXML
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		f = formJSON
	}
	if slices.Contains(accepted, f) {
		return f, body, nil
	}
	var names []string
	for _, a := range accepted {
		names = append(names, [...]string{formXML: typeXACMLXML + " or " + typeXML, formJSON: typeXACMLJSON, formText: "text/plain"}[a])
	}
	names[len(names)-1] += ", in UTF-8"
	return unknown, nil, c.RefuseMedia(names...)
}

// formOf returns the form of a Content-Type.
func formOf(header string) form {
	name, params, err := mime.ParseMediaType(header)
	if err != nil {
		return unknown
	}
	if otherVersion(params) {
		return unknown
	}
	if v, ok := params["charset"]; ok && !strings.EqualFold(v, "utf-8") && !strings.EqualFold(v, "us-ascii") {
		return unknown
	}
	return mediaForm(name)
}

// offer is a media type that a response can have.
type offer struct {
	name string
	form form
}

// accept chooses the offer that the client wants most. The first offer wins if
// the client has no preference. It fails with 406 if the client accepts none.
func accept(r *http.Request, offers ...offer) (offer, error) {
	accepted := door.Accepted(r, otherVersion)
	best, quality := -1, 0.0
	for i, o := range offers {
		if q := accepted.Quality(o.name); q > quality {
			best, quality = i, q
		}
	}
	if best >= 0 {
		return offers[best], nil
	}
	var names []string
	for _, o := range offers {
		names = append(names, o.name)
	}
	return offer{}, &problem{status: http.StatusNotAcceptable, Code: "not_acceptable",
		Message: "unsupported Accept " + value.Quote(strings.Join(r.Header.Values("Accept"), ", ")) + ": expected one of " + strings.Join(names, ", ")}
}

// otherVersion reports whether the parameters of a media type name another version of
// XACML than 3.0.
func otherVersion(params map[string]string) bool {
	v, ok := params["version"]
	return ok && v != "3.0"
}

// language returns the language of a policy in a form.
func (f form) language() domain.Language {
	return [...]domain.Language{formXML: domain.XML, formJSON: domain.JSON, formText: domain.Text}[f]
}

// formOfLanguage returns the form of a policy in a language.
func formOfLanguage(l domain.Language) form {
	switch l {
	case domain.JSON:
		return formJSON
	case domain.Text:
		return formText
	}
	return formXML
}

// policyOffers are the media types of a policy, those of its own form first.
func policyOffers(own form) []offer {
	return ordered(own, []offer{{typeXACMLXML, formXML}, {typeXML, formXML}, {typeXACMLJSON, formJSON}, {typeJSON, formJSON}, {typeText, formText}})
}

// messageOffers are the media types of a response, those of the request's form
// first.
func messageOffers(own form) []offer {
	return ordered(own, []offer{{typeXACMLXML, formXML}, {typeXACMLJSON, formJSON}, {typeXML, formXML}, {typeJSON, formJSON}})
}

// ordered returns the offers with those of a form first.
func ordered(own form, offers []offer) []offer {
	out := make([]offer, 0, len(offers))
	for _, first := range [...]bool{true, false} {
		for _, o := range offers {
			if (o.form == own) == first {
				out = append(out, o)
			}
		}
	}
	return out
}
