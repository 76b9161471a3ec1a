package eval

import (
	"encoding/json"
	"strconv"

	"github.com/ostiary/ostiary/rel"
)

// MarshalJSON returns the explanation with names and values as text, without
// members that are not set.
func (x Explanation) MarshalJSON() ([]byte, error) { return x.AppendJSON(nil) }

// AppendJSON appends what MarshalJSON returns. It fails if JSON cannot hold
// the value of a condition's parameter.
func (x *Explanation) AppendJSON(dst []byte) ([]byte, error) {
	w := jsonWriter{dst: dst}
	w.raw('{')
	w.text("object", x.Question.Object.String())
	w.text("relation", x.Question.Relation)
	w.text("subject", x.Question.Subject.String())
	w.text("decision", x.Answer.Decision.String())
	if x.Now != 0 {
		w.text("now", timeText(x.Now))
	}
	w.reasons(x.Answer.Reasons)
	if x.Because != nil {
		w.name("because")
		x.Because.json(&w)
	}
	w.count("leftOut", x.LeftOut)
	if m := x.Memberships; m != nil {
		w.name("memberships")
		w.raw('{')
		w.subjects("in", m.In)
		w.count("leftOut", m.LeftOut)
		if len(m.Expired) > 0 {
			w.subjects("expired", m.Expired)
		}
		w.raw('}')
	}
	w.raw('}')
	return w.dst, w.err
}

// MarshalJSON returns the step in the same form as [Explanation.MarshalJSON].
func (s *Step) MarshalJSON() ([]byte, error) {
	w := jsonWriter{}
	s.json(&w)
	return w.dst, w.err
}

func (s *Step) json(w *jsonWriter) {
	w.raw('{')
	w.text("kind", string(s.Kind))
	w.text("result", s.Decision.String())
	w.optionalText("object", s.Object.String())
	w.optionalText("relation", s.Relation)
	w.optionalText("rewrite", s.Rewrite)
	if s.Tuple != nil {
		w.optionalText("tuple", s.Tuple.String())
	}
	if s.Written != nil {
		w.name("written")
		w.raw('{')
		w.name("revision")
		w.dst = strconv.AppendUint(w.dst, s.Written.Revision, 10)
		w.text("time", timeText(s.Written.Time))
		w.optionalText("caller", s.Written.Caller)
		w.optionalText("reason", s.Written.Reason)
		w.raw('}')
	}
	if s.Condition != nil {
		w.name("condition")
		s.Condition.json(w)
	}
	if len(s.Searched) > 0 {
		w.name("searched")
		w.raw('[')
		for _, f := range s.Searched {
			w.next()
			w.raw('{')
			w.text("subjects", f.Subjects)
			w.name("count")
			w.dst = strconv.AppendInt(w.dst, int64(f.Count), 10)
			w.subjects("first", f.First)
			w.raw('}')
		}
		w.raw(']')
	}
	w.flag("expired", s.Expired)
	w.flag("refused", s.Refused)
	w.reasons(s.Reasons)
	if len(s.Steps) > 0 {
		w.name("steps")
		w.raw('[')
		for _, ch := range s.Steps {
			w.next()
			ch.json(w)
		}
		w.raw(']')
	}
	w.raw('}')
}

func (c *ConditionStep) json(w *jsonWriter) {
	w.raw('{')
	w.text("name", c.Name)
	w.text("result", c.Decision.String())
	if len(c.Values) > 0 {
		w.name("values")
		w.value(c.Values)
	}
	w.list("missing", c.Missing)
	if c.Err != nil {
		w.optionalText("error", c.Err.Error())
	}
	w.raw('}')
}

func timeText(t rel.Time) string { return t.Time().Format("2006-01-02T15:04:05.999999999Z07:00") }

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
