package doortest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// lineMax is the longest answer that stays on one line when it is rewritten.
const lineMax = 120

// looksLike are placeholders that OSTIARY_REWRITE puts in by itself: whole
// strings that will be others in the next run.
var looksLike = map[string]*regexp.Regexp{
	"<ulid>": regexp.MustCompile(`^` + placeholders["ulid"] + `$`),
	"<time>": regexp.MustCompile(`^` + placeholders["time"] + `$`),
	"<uuid>": regexp.MustCompile(`^` + placeholders["uuid"] + `$`),
}

// rewrite makes a step expect what was got.
func (p *player) rewrite(st *step, got *answer) {
	st.status = got.status
	for i, h := range st.wantHeaders {
		if p.compareHeader(h, got.header) == "" {
			continue
		}
		st.wantHeaders[i].value = noHeader
		if values := got.header.Values(h.name); len(values) > 0 {
			st.wantHeaders[i].value = values[0]
		}
	}
	if p.compare(st, got) == "" && st.wantsBody {
		return
	}
	st.wantsBody = true
	have, err := readValues(got.body)
	if err != nil || len(have) == 0 {
		if body := strings.TrimRight(got.body, " \t\r\n"); !p.text(st.wantBody, body) {
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
		lines = append(lines, show(p.merge(old, v)))
	}
	st.wantBody = strings.Join(lines, "\n")
}

// merge returns got with the placeholders of old where they fit.
func (p *player) merge(old, got *value) *value {
	if old != nil && p.value(old, got, "") == "" {
		return old
	}
	switch got.kind {
	case kindString:
		return &value{kind: kindString, text: p.general(got.text)}
	case kindArray, kindObject:
		out := &value{kind: got.kind, names: got.names}
		for i, item := range got.items {
			var was *value
			if old != nil && old.kind == got.kind {
				if got.kind == kindArray && i < len(old.items) {
					was = old.items[i]
				} else if j := slices.Index(old.names, nameAt(got, i)); j >= 0 {
					was = old.items[j]
				}
			}
			out.items = append(out.items, p.merge(was, item))
		}
		return out
	}
	return got
}

func nameAt(v *value, i int) string {
	if i < len(v.names) {
		return v.names[i]
	}
	return ""
}

// general puts variables and placeholders where a string will be another one
// next time.
func (p *player) general(s string) string {
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
	for holder, re := range looksLike {
		if re.MatchString(s) {
			return holder
		}
	}
	return s
}

// show prints a value on a line if it is short, else indented.
func show(v *value) string {
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
