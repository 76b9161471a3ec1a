package doortest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// lineMax is the length of the longest JSON value that a rewrite keeps on one
// line, in bytes.
const lineMax = 120

// volatile maps a placeholder to strings that differ in every run. A rewrite
// replaces them.
var volatile = map[string]*regexp.Regexp{
	"<ulid>": regexp.MustCompile(`^` + placeholders["ulid"] + `$`),
	"<time>": regexp.MustCompile(`^` + placeholders["time"] + `$`),
	"<uuid>": regexp.MustCompile(`^` + placeholders["uuid"] + `$`),
}

// rewrite changes a step so that it expects the response. A step that expects its status
// and no body is left without one.
func (p *player) rewrite(st *step, got *response) {
	without := st.status == got.status && !st.comparesBody
	st.status = got.status
	for i, h := range st.wantHeaders {
		if p.diffHeader(h, got.header) == "" {
			continue
		}
		st.wantHeaders[i].value = noHeader
		if values := got.header.Values(h.name); len(values) > 0 {
			st.wantHeaders[i].value = p.generalize(values[0])
		}
	}
	if without || p.diff(st, got) == "" && st.comparesBody {
		return
	}
	st.comparesBody = true
	have, err := readValues(got.body)
	if err != nil || len(have) == 0 {
		if body := strings.TrimRight(got.body, " \t\r\n"); !p.matchText(st.wantBody, body) {
			st.wantBody = body
		}
		return
	}
	want, err := readValues(st.wantBody)
	if err != nil {
		want = nil
	}
	var lines []string
	for i, v := range have {
		var old *value
		if i < len(want) {
			old = want[i]
		}
		lines = append(lines, formatValue(p.merge(old, v)))
	}
	st.wantBody = strings.Join(lines, "\n")
}

// merge returns got, with the parts of old that match it. So placeholders of
// the script stay if they still fit.
func (p *player) merge(old, got *value) *value {
	if old != nil && p.diffValue(old, got, "") == "" {
		return old
	}
	switch got.kind {
	case kindString:
		return &value{kind: kindString, text: p.generalize(got.text)}
	case kindArray, kindObject:
		out := &value{kind: got.kind, names: got.names}
		for i, item := range got.items {
			var oldItem *value
			if old != nil && old.kind == got.kind {
				if got.kind == kindArray && i < len(old.items) {
					oldItem = old.items[i]
				} else if j := slices.Index(old.names, nameAt(got, i)); j >= 0 {
					oldItem = old.items[j]
				}
			}
			out.items = append(out.items, p.merge(oldItem, item))
		}
		return out
	}
	return got
}

// nameAt returns the name of an object's member; "" for an array.
func nameAt(v *value, i int) string {
	if i < len(v.names) {
		return v.names[i]
	}
	return ""
}

// generalize replaces what differs in every run: values of variables by the
// variables, and volatile strings by placeholders.
func (p *player) generalize(s string) string {
	names := make([]string, 0, len(p.vars))
	for name := range p.vars {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if v := p.vars[name]; len(v) >= 8 {
			s = strings.ReplaceAll(s, v, "${"+name+"}")
		}
	}
	for holder, re := range volatile {
		if re.MatchString(s) {
			return holder
		}
	}
	return s
}

// formatValue prints a value on one line if it fits into lineMax, else
// indented.
func formatValue(v *value) string {
	line := v.String()
	if len(line) <= lineMax {
		return line
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(line), "", "  "); err != nil {
		return line
	}
	return b.String()
}
