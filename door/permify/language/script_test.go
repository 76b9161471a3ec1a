package language

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/internal/workshop/golden"
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

// changed returns the texts that differ from src at one token: without it, with the token
// twice, with a sign that is no token in its place, and with the end before it.
func changed(src string, t token) [4]struct{ name, text string } {
	before, after := src[:t.offset], src[t.offset+len(t.text):]
	return [4]struct{ name, text string }{
		{"without", before + " " + after}, {"twice", before + t.text + " " + t.text + after}, {"?", before + "?" + after}, {"end", before},
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
		fmt.Fprintf(&out, "%v %q\n", token.position, token.text)
		for _, c := range changed(src, token) {
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

// TestStatementTokens changes statements of a partial write at each token, as TestTokens
// does, and writes them into an entity. The resulting texts and errors must be those of
// testdata/statements.txt.
func TestStatementTokens(t *testing.T) {
	t.Parallel()
	base, err := Parse("entity u {}\nentity d {\n    relation a @u // comment\n    permission p = a\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	show := func(name, text string) {
		fmt.Fprintf(&out, "\t%s: ", name)
		st, err := parseStatement(text)
		if err != nil {
			fmt.Fprintln(&out, err)
			return
		}
		fmt.Fprintf(&out, "%s at %v\n", &st, st.Position)
		for _, e := range []struct {
			how  string
			edit Edit
		}{{"write", Edit{Entity: "d", Write: []string{text}}}, {"update", Edit{Entity: "d", Update: []string{text}}}} {
			if got, err := base.Apply([]Edit{e.edit}); err != nil {
				fmt.Fprintf(&out, "\t\t%s: %v\n", e.how, err)
			} else {
				fmt.Fprintf(&out, "\t\t%s: %q\n", e.how, got)
			}
		}
	}
	for _, src := range []string{
		"relation a @u @d#a", "\n relation b @u // comment\n", "attribute c string[]", "attribute c number /* open", "permission p = a or\n (b and c.d) not r(e, f) ;", "action q /* comment */ = a",
		"relation g @u /* open", "rule", "", "// comment", "relation g @u relation h @u",
	} {
		fmt.Fprintf(&out, "%q\n", src)
		show("whole", src)
		l := lexer{src: src, line: 1}
		for token := l.next(); token.kind != end; token = l.next() {
			fmt.Fprintf(&out, "    %v %q\n", token.position, token.text)
			for _, c := range changed(src, token) {
				show(c.name, c.text)
			}
		}
	}
	golden.Equal(t, "testdata/statements.txt", out.String())
}
