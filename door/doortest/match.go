package doortest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// placeholders are what may stand in an expected string.
var placeholders = map[string]string{
	"any":   `(?s:.*)`,
	"time":  `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)`,
	"ulid":  `[0-7][0-9A-HJKMNP-TV-Z]{25}`,
	"uuid":  `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	"hex":   `[0-9a-fA-F]+`,
	"token": `[^\s]+`,
}

// Of these a whole string consists.
const (
	wholeNumber = "number"
	wholeValue  = "value"
	anyOrder    = "<in any order>"
	noHeader    = "<none>"
)

var (
	placeholder = regexp.MustCompile(`<(any|time|ulid|uuid|hex|token)(?::([A-Za-z_][A-Za-z0-9_]*))?>`)
	wholeHolder = regexp.MustCompile(`^<(number|value)(?::([A-Za-z_][A-Za-z0-9_]*))?>$`)
	variable    = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// fill puts variables in their places; unknown ones stay.
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

// unknown says whether steps use a variable that has no value.
func (p *player) unknown(steps []step) bool {
	for _, st := range steps {
		if variable.MatchString(p.fill(st.path + st.body)) {
			return true
		}
	}
	return false
}

// compare says how an answer differs from what a step expects, or "".
func (p *player) compare(st *step, got *answer) string {
	if st.status != got.status {
		return fmt.Sprintf("status %s, want %s", got.status, st.status)
	}
	for _, h := range st.wantHeaders {
		if why := p.compareHeader(h, got.header); why != "" {
			return why
		}
	}
	if !st.wantsBody {
		return ""
	}
	want, wantErr := readValues(st.wantBody)
	have, haveErr := readValues(got.body)
	if wantErr != nil || len(want) == 0 {
		if !p.text(st.wantBody, strings.TrimRight(got.body, " \t\r\n")) {
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
		if why := p.value(want[i], have[i], "$"); why != "" {
			return why
		}
	}
	return ""
}

func (p *player) compareHeader(want header, got http.Header) string {
	values := got.Values(want.name)
	if want.value == noHeader {
		if len(values) > 0 {
			return fmt.Sprintf("header %s: %q, want none", want.name, values)
		}
		return ""
	}
	if slices.ContainsFunc(values, func(v string) bool { return p.text(want.value, v) }) {
		return ""
	}
	return fmt.Sprintf("header %s: %q, want %q", want.name, values, want.value)
}

// text says whether got is what a string with placeholders expects, and keeps
// what named ones stand for.
func (p *player) text(want, got string) bool {
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

// pattern compiles a string with placeholders; nil is a string without.
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
		return nil, nil // quoted and fixed parts alone: it compiles
	}
	return names, re
}

// value says how a JSON value differs from the expected one at a path, or "".
func (p *player) value(want, got *value, at string) string {
	if want.kind == kindString {
		if m := wholeHolder.FindStringSubmatch(want.text); m != nil {
			if m[1] == wholeNumber && got.kind != kindNumber {
				return fmt.Sprintf("%s: %s, want a number", at, got)
			}
			if m[2] != "" {
				p.vars[m[2]] = got.String()
			}
			return ""
		}
	}
	if want.kind != got.kind {
		return fmt.Sprintf("%s: %s, want %s", at, got, want)
	}
	switch want.kind {
	case kindObject:
		return p.object(want, got, at)
	case kindArray:
		return p.array(want, got, at)
	case kindString:
		if !p.text(want.text, got.text) {
			return fmt.Sprintf("%s: %q, want %q", at, got.text, p.fill(want.text))
		}
	default:
		if want.text != got.text {
			return fmt.Sprintf("%s: %s, want %s", at, got.text, want.text)
		}
	}
	return ""
}

func (p *player) object(want, got *value, at string) string {
	for i, name := range want.names {
		j := slices.Index(got.names, p.fill(name))
		if j < 0 {
			return fmt.Sprintf("%s: no member %q", at, name)
		}
		if why := p.value(want.items[i], got.items[j], at+"."+name); why != "" {
			return why
		}
	}
	for _, name := range got.names {
		if !slices.ContainsFunc(want.names, func(w string) bool { return p.fill(w) == name }) {
			return fmt.Sprintf("%s: unexpected member %q", at, name)
		}
	}
	return ""
}

func (p *player) array(want, got *value, at string) string {
	items := want.items
	bag := len(items) > 0 && items[0].kind == kindString && items[0].text == anyOrder
	if bag {
		items = items[1:]
	}
	if len(items) != len(got.items) {
		return fmt.Sprintf("%s: %d items, want %d", at, len(got.items), len(items))
	}
	left := slices.Clone(got.items)
	for i, w := range items {
		if !bag {
			if why := p.value(w, got.items[i], fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
			continue
		}
		j := slices.IndexFunc(left, func(g *value) bool { return p.value(w, g, at) == "" })
		if j < 0 {
			return fmt.Sprintf("%s: no item is %s", at, w)
		}
		left = slices.Delete(left, j, j+1)
	}
	return ""
}
