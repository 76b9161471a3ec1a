package language

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/internal/golden"
)

// TestScript compares each schema of testdata/schemas.txtar with the file "want": its
// error, or the places of its definitions, its mistakes or its model, and the texts
// that String and Format print.
func TestScript(t *testing.T) {
	t.Parallel()
	golden.Script(t, "testdata/schemas.txtar", func(script []byte) string {
		var out strings.Builder
		for _, f := range txtar.Parse(script).Files {
			fmt.Fprintf(&out, "# %s\n", f.Name)
			show(t, &out, string(f.Data))
		}
		return out.String()
	})
}

// show prints what Parse returns for a text, and what follows from it.
func show(t *testing.T, out *strings.Builder, text string) {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	for _, e := range s.Entities {
		fmt.Fprintf(out, "entity %s at %v\n", e.Name, e.Position)
		for i := range e.Statements {
			st := &e.Statements[i]
			fmt.Fprintf(out, "\t%v at %v: %s\n", st.Kind, st.Position, st)
			for _, ref := range st.Types {
				fmt.Fprintf(out, "\t\t%s at %v\n", ref, ref.Position)
			}
		}
	}
	for _, r := range s.Rules {
		if found := s.Rule(r.Name); found == nil || found.Name != r.Name {
			t.Errorf("the rule %s is not found", r.Name)
		}
		fmt.Fprintf(out, "rule %s at %v, its expression at %v: %q\n", r.Name, r.Position, r.BodyPosition, r.Expression())
	}
	if s.Rule("none") != nil || s.Entity("none") != nil {
		t.Error("a definition is found that the text lacks")
	}
	if mistakes := s.Mistakes(); len(mistakes) > 0 {
		for _, m := range mistakes {
			fmt.Fprintln(out, m)
		}
		return
	}
	m, err := s.Model()
	if err != nil {
		t.Fatal(err)
	}
	model, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	formatted, err := Format(m)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(out, "%s\n%s", model, s)
	if formatted != s.String() {
		fmt.Fprintf(out, "--\n%s", formatted)
	}
}

// TestTokens changes a schema at each of its tokens: it leaves the token out, writes
// it twice, writes a sign that is no token in its place, and ends the text before it.
// The errors must be those of testdata/tokens.txt.
func TestTokens(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/tokens.perm")
	if err != nil {
		t.Fatal(err)
	}
	src := string(text)
	var out strings.Builder
	l := lexer{src: src, line: 1}
	for token := l.next(); token.kind != end; token = l.next() {
		before, after := src[:token.offset], src[token.offset+len(token.text):]
		fmt.Fprintf(&out, "%v %q\n", token.position, token.text)
		for _, c := range []struct{ name, text string }{
			{"without", before + " " + after}, {"twice", before + token.text + " " + token.text + after}, {"?", before + "?" + after}, {"end", before},
		} {
			outcome := "accepted"
			if s, err := Parse(c.text); err != nil {
				outcome = err.Error()
			} else if mistakes := s.Mistakes(); len(mistakes) > 0 {
				outcome = fmt.Sprint(mistakes)
			}
			fmt.Fprintf(&out, "\t%s: %s\n", c.name, outcome)
		}
	}
	golden.Equal(t, "testdata/tokens.txt", out.String())
}
