package oauth1

import (
	"net/url"
	"strings"
)

// headerMax is the largest number of bytes of an Authorization header, and
// paramsMax the largest number of parameters in it or in a query.
const (
	headerMax = 8 << 10
	paramsMax = 100
)

// parseHeader reads the parameters of an Authorization header: the word OAuth,
// and then name="value" with commas between them. Names and values are escaped.
func parseHeader(text string) (params []param, err error) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if !strings.EqualFold(scheme, "OAuth") {
		return nil, malformed("the Authorization header does not begin with OAuth")
	}
	if len(text) > headerMax {
		return nil, malformed("an Authorization header of %d bytes: expected at most %d", len(text), headerMax)
	}
	for part := range strings.SplitSeq(rest, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		inner, quoted := strings.CutPrefix(strings.TrimSpace(value), `"`)
		inner, closed := strings.CutSuffix(inner, `"`)
		if !ok || !quoted || !closed {
			return nil, malformed("expected parameters of the form name=\"value\", with commas between them")
		}
		p := param{strings.TrimSpace(name), inner}
		if p.name, err = unescape(p.name); err == nil {
			p.value, err = unescape(p.value)
		}
		if err != nil {
			return nil, err
		}
		if params = append(params, p); len(params) > paramsMax {
			return nil, malformed("more than %d parameters", paramsMax)
		}
	}
	return params, nil
}

// parseQuery reads the parameters of a query string.
func parseQuery(raw string) (params []param, err error) {
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		var p param
		if p.name, err = unescape(strings.ReplaceAll(name, "+", " ")); err == nil {
			p.value, err = unescape(strings.ReplaceAll(value, "+", " "))
		}
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.name, "oauth_") {
			return nil, malformed("parameter %.64q in the query: expected it in the Authorization header", p.name)
		}
		if params = append(params, p); len(params) > paramsMax {
			return nil, malformed("more than %d parameters", paramsMax)
		}
	}
	return params, nil
}

// unescape decodes percent escapes. A plus sign stays.
func unescape(s string) (string, error) {
	out, err := url.PathUnescape(s)
	if err != nil {
		return "", malformed("invalid escape in %.64q", s)
	}
	return out, nil
}
