package acp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/acp"
)

func TestTheorem(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	doc := acp.Object{Policy: id, Resource: "note", ID: "bae-1"}
	must(0, e.Register(ctx, alice, doc))(t)
	must(e.Relate(ctx, alice, doc, "admin", bob))(t)
	r := must(e.EvaluateTheorem(ctx, id, fmt.Sprintf(`// what we believe
Authorizations {
  note:bae-1#read@%[1]s
  !note:"bae-1"#read@%[3]s
  note:bae-1#read@%[3]s        // wrong
  note:unknown#read@%[1]s      // unregistered: reject
  note:bae-1#paint@%[1]s       // no such permission
}
Delegations { %[2]s > note:bae-1#reader  !%[2]s > note:bae-1#admin
  %[2]s > note:bae-1#paint }
ImpliedRelations { note:bae-1#read => note:bae-1#reader }
`, alice, bob, carol)))(t)
	var got []string
	for _, c := range r.Authorizations {
		got = append(got, fmt.Sprintf("%d:%d %s", c.Line, c.Column, c.Verdict))
	}
	for _, c := range r.Delegations {
		got = append(got, fmt.Sprintf("%d:%d %s", c.Line, c.Column, c.Verdict))
	}
	want := "3:3 accept, 4:3 accept, 5:3 reject, 6:3 reject, 7:3 error, 9:15 accept, 9:93 accept, 10:3 error"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	if r.Count != 8 || r.Failures != 4 || r.OK() || len(r.Implied) != 1 {
		t.Errorf("%+v", r)
	}
	if c := r.Authorizations[0]; c.EndLine != 3 || c.EndColumn != 3+len("note:bae-1#read@")+len(alice) {
		t.Errorf("%+v", c.Span)
	}
	_, err := e.EvaluateTheorem(ctx, "none", "Authorizations {} Delegations {}")
	wantKind(t, err, acp.ErrPolicyNotFound)
}

func TestTheoremErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text         string
		line, column int
	}{
		{"", 1, 1},
		{"Authorizations {}", 1, 18},
		{"Delegations {} Authorizations {}", 1, 1},
		{"Authorizations {\n note:a#r@bob }", 2, 11},
		{"Authorizations {\n note:a#r }", 2, 11},
		{"Authorizations { note:\"a }\n", 1, 23},
		{"Authorizations {} Delegations {} x", 1, 34},
		{"Authorizations { $ }", 1, 18},
		{"Authorizations {", 1, 17},
		{"Authorizations {} Delegations {} ImpliedRelations { a:b#c = a:b#d }", 1, 59},
	} {
		_, err := acp.ParseTheorem(c.text)
		var at *acp.PolicyError
		if !errors.Is(err, acp.ErrTheorem) || !errors.As(err, &at) || at.Line != c.line || at.Column != c.column {
			t.Errorf("%q: %v, want it at %d:%d", c.text, err, c.line, c.column)
		}
	}
	// What follows the last block is named, and what was expected.
	for _, rest := range []string{"x", `"ImpliedRelations"`} {
		if _, err := acp.ParseTheorem("Authorizations {} Delegations {} " + rest + " {}"); err == nil || !strings.Contains(err.Error(), "expected the end") {
			t.Errorf("%s: %v", rest, err)
		}
	}
	_, err := acp.ParseTheorem(strings.Repeat("/", acp.TheoremBytesMax+1))
	wantKind(t, err, acp.ErrBound)
}

// TestTheoremColumns puts the second claim at each column of the second line. Wherever it
// begins, it is not a part of the DID at the end of the first line.
func TestTheoremColumns(t *testing.T) {
	t.Parallel()
	line := "Authorizations { note:a#read@" + alice
	for column := range len(line) + 3 {
		th, err := acp.ParseTheorem(line + "\n" + strings.Repeat(" ", column) + "note:b#read@" + bob + " } Delegations {}")
		if err != nil || len(th.Authorizations) != 2 || th.Authorizations[0].Actor != alice || th.Authorizations[1].Actor != bob {
			t.Fatalf("column %d: got %+v, error %v", column+1, th, err)
		}
	}
}

// TestTheoremQuotes checks the escapes of a quoted id.
func TestTheoremQuotes(t *testing.T) {
	t.Parallel()
	for quoted, want := range map[string]string{`"a b"`: "a b", `"a\"b"`: `a"b`, `"a\\"`: `a\`, `"a\n"`: `a\n`, `"\"\\\""`: `"\"`} {
		th, err := acp.ParseTheorem("Authorizations { note:" + quoted + "#read@" + alice + " } Delegations {}")
		if err != nil || th.Authorizations[0].Object.ID != want {
			t.Errorf("%s: %v, %v, want %q", quoted, th, err, want)
		}
	}
}

func FuzzTheorem(f *testing.F) {
	f.Add("Authorizations { a:b#c@did:x:y !a:\"\\\"\"#c@did:x:y } Delegations { did:x:y > a:b#c } ImpliedRelations { a:b#c => a:b#d }")
	f.Add("Authorizations {} // x\nDelegations {}")
	f.Fuzz(func(t *testing.T, text string) {
		th, err := acp.ParseTheorem(text)
		if err != nil {
			return
		}
		again, err := acp.ParseTheorem(th.String())
		if err != nil || again.String() != th.String() {
			t.Errorf("%q\n%v\n%q", text, err, th.String())
		}
	})
}
