package eval

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// TestExplainJSON compares the JSON of explanations with encoding/json, for
// values that need escapes and for every field. TestExplainAgrees does so for
// random worlds.
func TestExplainJSON(t *testing.T) {
	t.Parallel()
	text := "\"<a>&\\\n\x01\xff\u2028é"
	step := &authz.Step{Kind: authz.StepTuple, Decision: expr.Unknown, Object: rel.Object{Type: "doc", ID: text}, Relation: text, Rewrite: text,
		Tuple:     &rel.Tuple{Object: rel.Object{Type: "doc", ID: text}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "1"}},
		Written:   &authz.Written{Revision: 1<<64 - 1, Time: 1, Caller: text, Reason: text},
		Condition: &authz.ConditionStep{Name: text, Values: expr.Values{text: text, "n": 1.5, "none": nil}, Missing: []string{text, "x"}, Err: errors.New(text)},
		Searched:  []authz.Searched{{Subjects: text, Count: 1, First: []rel.Subject{{Type: "user", ID: text}, {Type: "user", ID: "*"}}}, {Subjects: "", Count: 0, First: nil}}, Expired: true, Refused: true,
		Reasons: &authz.Reasons{Missing: []string{"x"}, Errors: []authz.ConditionError{{Condition: text, Err: errors.New(text)}}, Cycle: true, Bound: authz.BoundDepth}}
	x := &authz.Explanation{Question: authz.Question{Relation: text}, Now: 1, LeftOut: 2, Answer: authz.Answer{Reasons: &authz.Reasons{}},
		Because:     &authz.Step{Steps: []*authz.Step{step, {}, step, {Written: &authz.Written{}}}},
		Memberships: &authz.Memberships{In: []rel.Subject{{Type: "group", ID: text, Relation: "member"}, {}}, LeftOut: 1, Expired: []rel.Subject{{Type: "group", ID: text, Relation: "member"}}}}
	sameJSON(t, x)
	sameJSON(t, &authz.Explanation{Memberships: &authz.Memberships{}})
	for c := range 256 { // each byte alone, since one that needs an escape encodes the whole text
		sameJSON(t, &authz.Explanation{Question: authz.Question{Relation: "a" + string([]byte{byte(c)}) + "b"}})
	}
	step.Condition.Values["n"] = math.NaN()
	if raw, err := json.Marshal(x); err == nil {
		t.Errorf("no number: %s", raw)
	}
	if raw, err := x.AppendJSON(nil); err == nil {
		t.Errorf("no number, appended: %s", raw)
	}
}

func sameJSON(t *testing.T, x *authz.Explanation) {
	t.Helper()
	got, err := json.Marshal(x)
	want, wantErr := plainJSON(x)
	if err != nil || wantErr != nil || string(got) != string(want) {
		t.Errorf("%s, %v; want %s, %v", got, err, want, wantErr)
	}
	if got, err := x.AppendJSON([]byte("before")); err != nil || string(got) != "before"+string(want) {
		t.Errorf("appended: %s, %v", got, err)
	}
}

// plainJSON is Explanation.MarshalJSON by encoding/json alone.
func plainJSON(x *authz.Explanation) ([]byte, error) {
	type memberships struct {
		In      []string `json:"in"`
		LeftOut int      `json:"leftOut,omitempty"`
		Expired []string `json:"expired,omitempty"`
	}
	out := struct {
		Object      string        `json:"object"`
		Relation    string        `json:"relation"`
		Subject     string        `json:"subject"`
		Decision    string        `json:"decision"`
		Now         string        `json:"now,omitempty"`
		Reasons     *plainReasons `json:"reasons,omitempty"`
		Because     *plainStep    `json:"because,omitempty"`
		LeftOut     int           `json:"leftOut,omitempty"`
		Memberships *memberships  `json:"memberships,omitempty"`
	}{
		Object: x.Question.Object.String(), Relation: x.Question.Relation, Subject: x.Question.Subject.String(),
		Decision: x.Answer.Decision.String(), Reasons: reasonsOf(x.Answer.Reasons), Because: (*plainStep)(x.Because), LeftOut: x.LeftOut,
	}
	if x.Now != 0 {
		out.Now = timeText(x.Now)
	}
	if m := x.Memberships; m != nil {
		out.Memberships = &memberships{LeftOut: m.LeftOut, In: []string{}}
		for _, sub := range m.In {
			out.Memberships.In = append(out.Memberships.In, sub.String())
		}
		for _, sub := range m.Expired {
			out.Memberships.Expired = append(out.Memberships.Expired, sub.String())
		}
	}
	return json.Marshal(out)
}

// plainReasons are reasons in the form of the explanation's JSON.
type plainReasons struct {
	Missing []string `json:"missing,omitempty"`
	Errors  []string `json:"errors,omitempty"`
	Cycle   bool     `json:"cycle,omitempty"`
	Bound   string   `json:"bound,omitempty"`
}

func reasonsOf(r *authz.Reasons) *plainReasons {
	if r == nil {
		return nil
	}
	out := &plainReasons{Missing: r.Missing, Cycle: r.Cycle, Bound: r.Bound}
	for _, e := range r.Errors {
		out.Errors = append(out.Errors, e.Error())
	}
	return out
}

func timeText(t rel.Time) string { return t.Time().Format(time.RFC3339Nano) }

type plainStep authz.Step

// MarshalJSON returns the step in the same form.
func (s *plainStep) MarshalJSON() ([]byte, error) {
	type condition struct {
		Name    string      `json:"name"`
		Result  string      `json:"result"`
		Values  expr.Values `json:"values,omitempty"`
		Missing []string    `json:"missing,omitempty"`
		Error   string      `json:"error,omitempty"`
	}
	type written struct {
		Revision uint64 `json:"revision"`
		Time     string `json:"time"`
		Caller   string `json:"caller,omitempty"`
		Reason   string `json:"reason,omitempty"`
	}
	type searched struct {
		Subjects string   `json:"subjects"`
		Count    int      `json:"count"`
		First    []string `json:"first"`
	}
	out := struct {
		Kind      authz.StepKind `json:"kind"`
		Result    string         `json:"result"`
		Object    string         `json:"object,omitempty"`
		Relation  string         `json:"relation,omitempty"`
		Rewrite   string         `json:"rewrite,omitempty"`
		Tuple     string         `json:"tuple,omitempty"`
		Written   *written       `json:"written,omitempty"`
		Condition *condition     `json:"condition,omitempty"`
		Searched  []searched     `json:"searched,omitempty"`
		Expired   bool           `json:"expired,omitempty"`
		Refused   bool           `json:"refused,omitempty"`
		Reasons   *plainReasons  `json:"reasons,omitempty"`
		Steps     []*plainStep   `json:"steps,omitempty"`
	}{
		Kind: s.Kind, Result: s.Decision.String(), Object: s.Object.String(), Relation: s.Relation, Rewrite: s.Rewrite,
		Expired: s.Expired, Refused: s.Refused, Reasons: reasonsOf(s.Reasons),
	}
	for _, ch := range s.Steps {
		out.Steps = append(out.Steps, (*plainStep)(ch))
	}
	if s.Tuple != nil {
		out.Tuple = s.Tuple.String()
	}
	if w := s.Written; w != nil {
		out.Written = &written{w.Revision, timeText(w.Time), w.Caller, w.Reason}
	}
	if c := s.Condition; c != nil {
		out.Condition = &condition{Name: c.Name, Result: c.Decision.String(), Values: c.Values, Missing: c.Missing}
		if c.Err != nil {
			out.Condition.Error = c.Err.Error()
		}
	}
	for _, f := range s.Searched {
		one := searched{f.Subjects, f.Count, []string{}}
		for _, sub := range f.First {
			one.First = append(one.First, sub.String())
		}
		out.Searched = append(out.Searched, one)
	}
	return json.Marshal(out)
}
