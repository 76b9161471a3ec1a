package authz

import (
	"encoding/json"
	"strconv"

	"github.com/ostiary/ostiary/rel"
)

// reasonsJSON is the JSON form of Reasons.
type reasonsJSON struct {
	Missing []string `json:"missing,omitempty"`
	Errors  []string `json:"errors,omitempty"`
	Cycle   bool     `json:"cycle,omitempty"`
	Bound   string   `json:"bound,omitempty"`
}

// jsonWriter appends JSON. Its methods for members and elements add the
// commas.
type jsonWriter struct {
	dst []byte
	err error
}

func (w *jsonWriter) raw(c byte) { w.dst = append(w.dst, c) }

// next begins a member or element.
func (w *jsonWriter) next() {
	if c := w.dst[len(w.dst)-1]; c != '{' && c != '[' {
		w.raw(',')
	}
}

// name begins a member. Names must need no escapes.
func (w *jsonWriter) name(name string) {
	w.next()
	w.raw('"')
	w.dst = append(append(w.dst, name...), '"', ':')
}

func (w *jsonWriter) text(name, s string) {
	w.name(name)
	w.quoted(s)
}

func (w *jsonWriter) optionalText(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *jsonWriter) element(s string) {
	w.next()
	w.quoted(s)
}

func (w *jsonWriter) flag(name string, set bool) {
	if set {
		w.name(name)
		w.dst = append(w.dst, "true"...)
	}
}

func (w *jsonWriter) count(name string, n int) {
	if n != 0 {
		w.name(name)
		w.dst = strconv.AppendInt(w.dst, int64(n), 10)
	}
}

func (w *jsonWriter) list(name string, texts []string) {
	if len(texts) == 0 {
		return
	}
	w.name(name)
	w.raw('[')
	for _, s := range texts {
		w.element(s)
	}
	w.raw(']')
}

// subjects appends a member with subjects as text, also if there is none.
func (w *jsonWriter) subjects(name string, list []rel.Subject) {
	w.name(name)
	w.raw('[')
	for _, sub := range list {
		w.element(sub.String())
	}
	w.raw(']')
}

func (w *jsonWriter) reasons(r *Reasons) {
	if r == nil {
		return
	}
	w.name("reasons")
	w.raw('{')
	w.list("missing", r.Missing)
	errs := make([]string, len(r.Errors))
	for i, e := range r.Errors {
		errs[i] = e.Error()
	}
	w.list("errors", errs)
	w.flag("cycle", r.Cycle)
	w.optionalText("bound", r.Bound)
	w.raw('}')
}

// quoted appends a string, encoded as encoding/json does.
func (w *jsonWriter) quoted(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			w.value(s)
			return
		}
	}
	w.raw('"')
	w.dst = append(append(w.dst, s...), '"')
}

func (w *jsonWriter) value(v any) {
	raw, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.dst = append(w.dst, raw...)
}
