package decisions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/decisions"
	"github.com/ostiary/ostiary/rel"
)

func decided(id string, values expr.Values) *authz.Decided {
	r := &authz.CheckRequest{Object: rel.Object{Type: "doc", ID: id}, Relation: "viewer", Subject: rel.Subject{Type: "group", ID: id, Relation: "member"}}
	r.Context = values
	return &authz.Decided{Question: r, Answer: &authz.Answer{Decision: expr.True}, Revision: 7}
}

// line is a line of the log.
type line struct {
	Input struct {
		Subject, Relation, Object string
		Context                   map[string]any
		Tuples                    []struct{ Context map[string]any }
		Attributes                []struct {
			Name  string
			Value any
		}
	}
	Erased []string
	Kind   string
	Count  int
}

// stream opens the output of a log to w.
func stream(w io.Writer) func(audit.Options) (*audit.Log, error) {
	return func(o audit.Options) (*audit.Log, error) { return audit.OpenStream(w, o) }
}

func lines(t *testing.T, text string) (out []line) {
	t.Helper()
	for text := range strings.Lines(text) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		out = append(out, l)
	}
	return out
}

// TestTexts logs questions with any names and values. Each is one line of JSON with the
// same names.
func TestTexts(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l, err := decisions.Open(stream(&b), decisions.Options{Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"plain", "a\nb", `"},{`, "é😀", "\x00\x1f", strings.Repeat("x", 1000)}
	for _, id := range ids {
		l.Decided(t.Context(), decided(id, expr.Values{id: []any{id, 1.5, true, nil}}))
	}
	l.Decided(t.Context(), decided("large", expr.Values{"x": strings.Repeat("x", 100_000)}))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := lines(t, b.String())
	if len(got) != len(ids)+1 {
		t.Fatalf("%d lines, want %d", len(got), len(ids)+1)
	}
	for i, id := range ids {
		if g := got[i].Input; g.Object != "doc:"+id || g.Subject != "group:"+id+"#member" || g.Context[id].([]any)[0] != id {
			t.Errorf("%q: the line is %+v", id, g)
		}
	}
	if last := got[len(ids)]; last.Input.Context != nil || len(last.Erased) == 0 || b.Len() > 50_000 {
		t.Errorf("a context of 100 kB has %d bytes, erased %q", b.Len(), last.Erased)
	}
}

// TestMasks leaves out the values of some parameters and attributes.
func TestMasks(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l, err := decisions.Open(stream(&b), decisions.Options{Sample: 1, Masks: []string{"ip", "phone"}})
	if err != nil {
		t.Fatal(err)
	}
	d := decided("1", expr.Values{"ip": "HIDDEN", "hour": 7.0})
	d.Question.Tuples = []rel.Tuple{{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}, Condition: "c", Context: `{"ip":"HIDDEN","day":1}`}}
	d.Question.Attributes = []rel.Attribute{{Object: rel.Object{Type: "user", ID: "a"}, Name: "phone", Value: `"HIDDEN"`}, {Object: rel.Object{Type: "user", ID: "a"}, Name: "age", Value: `7`}}
	l.Decided(t.Context(), d)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "HIDDEN") {
		t.Errorf("a masked value is in %s", b.String())
	}
	g := lines(t, b.String())[0]
	if strings.Join(g.Erased, " ") != "/input/context/ip /input/tuples/0/context/ip /input/attributes/phone" ||
		g.Input.Context["hour"] != 7.0 || g.Input.Tuples[0].Context["day"] != 1.0 || g.Input.Attributes[0].Value != 7.0 {
		t.Errorf("the line is %+v", g)
	}
}

// TestSample keeps about the part that is asked for.
func TestSample(t *testing.T) {
	t.Parallel()
	for sample, bounds := range map[float64][2]uint64{0: {0, 0}, 0.5: {4500, 5500}, 1: {10_000, 10_000}} {
		l, err := decisions.Open(stream(io.Discard), decisions.Options{Sample: sample})
		if err != nil {
			t.Fatal(err)
		}
		for range 10_000 {
			l.Decided(t.Context(), decided("1", nil))
		}
		if n := l.Recorded(); n < bounds[0] || n > bounds[1] {
			t.Errorf("a sample of %v keeps %d of 10,000", sample, n)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSlowDisk logs decisions faster than the output takes them. Without Block some are
// lost, and a line counts them; with it, none is lost, unless its request ends first.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	for _, block := range []bool{false, true} {
		r, w := io.Pipe()
		l, err := decisions.Open(stream(w), decisions.Options{Sample: 1, Block: block, BufferBytes: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		done, begin := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			<-begin
			io.Copy(&text, r)
		}()
		const n = 1000
		if !block {
			for range n {
				l.Decided(t.Context(), decided("1", nil))
			}
			close(begin)
		} else {
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			for l.Lost() == 0 { // the buffer is full, and this request has ended
				l.Decided(ended, decided("1", nil))
			}
			close(begin)
			for range n {
				l.Decided(t.Context(), decided("1", nil))
			}
		}
		lost, recorded := l.Lost(), l.Recorded()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		<-done
		var counted, kept uint64
		for _, g := range lines(t, text.String()) {
			if g.Kind == "lost" {
				counted += uint64(g.Count)
			} else {
				kept++
			}
		}
		if counted != lost || kept != recorded || lost == 0 || block && (lost != 1 || recorded < n) || !block && lost+kept != n {
			t.Errorf("block %v: %d recorded, %d lost; the log has %d and counts %d as lost", block, recorded, lost, kept, counted)
		}
	}
}
