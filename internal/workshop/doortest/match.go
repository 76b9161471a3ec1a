package doortest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// placeholders maps the placeholders within a string to the pattern that they
// match.
var placeholders = map[string]string{
	"any":   `(?s:.*)`,
	"time":  `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)`,
	"ulid":  `[0-7][0-9A-HJKMNP-TV-Z]{25}`,
	"uuid":  `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	"hex":   `[0-9a-fA-F]+`,
	"token": `[^\s]+`,
}

// wholeNumber and wholeValue are placeholders that must be the whole string.
// anyOrder marks an array whose order does not matter. noHeader is the expected
// value of a header that must be absent.
const (
	wholeNumber = "number"
	wholeValue  = "value"
	anyOrder    = "<in any order>"
	noHeader    = "<none>"
)

var (
	placeholder      = regexp.MustCompile(`<(any|time|ulid|uuid|hex|token)(?::([A-Za-z_][A-Za-z0-9_]*))?>`)
	wholePlaceholder = regexp.MustCompile(`^<(number|value)(?::([A-Za-z_][A-Za-z0-9_]*))?>$`)
	variable         = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// fill replaces the variables in s by their values. Unset variables stay.
func (p *player) fill(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return variable.ReplaceAllStringFunc(s, func(m string) string {
		if v, ok := p.vars[m[2:len(m)-1]]; ok {
			return v
		}
		return m
	})
}

// unsetVars reports whether a request of steps uses a variable that is not set.
func (p *player) unsetVars(steps []step) bool {
	for _, st := range steps {
		if variable.MatchString(p.fill(st.path + st.body)) {
			return true
		}
	}
	return false
}

// diff describes how a response differs from what a step expects; "" if it does
// not.
func (p *player) diff(st *step, got *response) string {
	if st.status != got.status {
		return fmt.Sprintf("status %s, want %s", got.status, st.status)
	}
	for _, h := range st.wantHeaders {
		if why := p.diffHeader(h, got.header); why != "" {
			return why
		}
	}
	if !st.comparesBody {
		return ""
	}
	want, wantErr := readValues(st.wantBody)
	have, haveErr := readValues(got.body)
	if wantErr != nil || len(want) == 0 {
		if !p.matchText(st.wantBody, strings.TrimRight(got.body, " \t\r\n")) {
			return fmt.Sprintf("body is not\n%s", st.wantBody)
		}
		return ""
	}
	if haveErr != nil {
		return fmt.Sprintf("body is not JSON: %v", haveErr)
	}
	if len(have) != len(want) {
		return fmt.Sprintf("%d JSON values, want %d", len(have), len(want))
	}
	for i := range want {
		if why := p.diffValue(want[i], have[i], "$"); why != "" {
			return why
		}
	}
	return ""
}

// diffHeader describes how a response's headers differ from an expected one.
func (p *player) diffHeader(want header, got http.Header) string {
	values := got.Values(want.name)
	if want.value == noHeader {
		if len(values) > 0 {
			return fmt.Sprintf("header %s: %q, want none", want.name, values)
		}
		return ""
	}
	if slices.ContainsFunc(values, func(v string) bool { return p.matchText(want.value, v) }) {
		return ""
	}
	return fmt.Sprintf("header %s: %q, want %q", want.name, values, want.value)
}

// matchText reports whether got matches a string with placeholders. If so, it
// sets the variables of named placeholders.
func (p *player) matchText(want, got string) bool {
	names, re := pattern(p.fill(want))
	if re == nil {
		return p.fill(want) == got
	}
	m := re.FindStringSubmatch(got)
	if m == nil {
		return false
	}
	for i, name := range names {
		if name != "" {
			p.vars[name] = m[i+1]
		}
	}
	return true
}

// pattern compiles a string with placeholders. It returns the name of each
// placeholder, "" if it has none. re is nil if there are no placeholders.
func pattern(want string) (names []string, re *regexp.Regexp) {
	at, expr := 0, "^"
	for _, m := range placeholder.FindAllStringSubmatchIndex(want, -1) {
		expr += regexp.QuoteMeta(want[at:m[0]]) + "(" + placeholders[want[m[2]:m[3]]] + ")"
		name := ""
		if m[4] >= 0 {
			name = want[m[4]:m[5]]
		}
		names, at = append(names, name), m[1]
	}
	if len(names) == 0 {
		return nil, nil
	}
	re, err := regexp.Compile(expr + regexp.QuoteMeta(want[at:]) + "$")
	if err != nil {
		return nil, nil // unreachable: all parts are quoted or constant
	}
	return names, re
}

// diffValue describes how a JSON value differs from the expected one; "" if it
// does not. path leads to the value.
func (p *player) diffValue(want, got *value, path string) string {
	if want.kind == kindString {
		if m := wholePlaceholder.FindStringSubmatch(want.text); m != nil {
			if m[1] == wholeNumber && got.kind != kindNumber {
				return fmt.Sprintf("%s: %s, want a number", path, got)
			}
			if m[2] != "" {
				p.vars[m[2]] = got.String()
			}
			return ""
		}
	}
	if want.kind != got.kind {
		return fmt.Sprintf("%s: %s, want %s", path, got, want)
	}
	switch want.kind {
	case kindObject:
		return p.diffObject(want, got, path)
	case kindArray:
		return p.diffArray(want, got, path)
	case kindString:
		if !p.matchText(want.text, got.text) {
			return fmt.Sprintf("%s: %q, want %q", path, got.text, p.fill(want.text))
		}
	default:
		if want.text != got.text {
			return fmt.Sprintf("%s: %s, want %s", path, got.text, want.text)
		}
	}
	return ""
}

// diffObject is diffValue for objects.
func (p *player) diffObject(want, got *value, path string) string {
	for i, name := range want.names {
		j := slices.Index(got.names, p.fill(name))
		if j < 0 {
			return fmt.Sprintf("%s: no member %q", path, name)
		}
		if why := p.diffValue(want.items[i], got.items[j], path+"."+name); why != "" {
			return why
		}
	}
	for _, name := range got.names {
		if !slices.ContainsFunc(want.names, func(w string) bool { return p.fill(w) == name }) {
			return fmt.Sprintf("%s: unexpected member %q", path, name)
		}
	}
	return ""
}

// diffArray is diffValue for arrays.
func (p *player) diffArray(want, got *value, path string) string {
	items := want.items
	anyOrderOK := len(items) > 0 && items[0].kind == kindString && items[0].text == anyOrder
	if anyOrderOK {
		items = items[1:]
	}
	if len(items) != len(got.items) {
		return fmt.Sprintf("%s: %d items, want %d", path, len(got.items), len(items))
	}
	remaining := slices.Clone(got.items)
	for i, w := range items {
		if !anyOrderOK {
			if why := p.diffValue(w, got.items[i], fmt.Sprintf("%s[%d]", path, i)); why != "" {
				return why
			}
			continue
		}
		j := slices.IndexFunc(remaining, func(g *value) bool { return p.diffValue(w, g, path) == "" })
		if j < 0 {
			return fmt.Sprintf("%s: no item matches %s", path, w)
		}
		remaining = slices.Delete(remaining, j, j+1)
	}
	return ""
}
