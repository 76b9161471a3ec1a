package acp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/acp"
)

// regPolicy and notesPolicy are the worked examples of policy ids.
const regPolicy = `
name: reg
resources:
- name: doc
  relations:
  - name: reader
    types: [actor]
  permissions:
  - name: read
    expr: reader
`

const notesPolicy = `{
	"name": "notes",
	"resources": {"note": {
		"permissions": {
			"view": {"expr": "owner + reader + editor"},
			"change": {"expr": "owner + editor"},
			"odd": {"expr": "reader"}
		},
		"relations": {
			"owner": {"types": ["actor"]},
			"reader": {"types": ["actor"]},
			"editor": {"types": ["actor"], "manages": ["reader"]}
		}
	}},
	"actor": {"name": "actor"}
}`

func TestPolicyIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		counter uint64
		dialect acp.Dialect
		id      string
	}{
		{regPolicy, 1, acp.DialectList, "01203863f7a7448d42345d40e58b827497fdfada5a71c5f6b44555f2644ca0b7"},
		{notesPolicy, 2, acp.DialectMap, "0d229dee7846dacc8f3a63996fb935d3c5b0862665492fd5f45c9ca1e0594107"},
	} {
		p, err := acp.ParsePolicy(c.text, acp.DialectAuto)
		if err != nil {
			t.Fatal(err)
		}
		if p.Dialect != c.dialect || p.ID(c.counter) != c.id {
			t.Errorf("%s in %s: %s, want %s", p.Name, p.Dialect, p.ID(c.counter), c.id)
		}
	}
}

// TestEmptyPolicy checks that the error of an empty text has a reason.
func TestEmptyPolicy(t *testing.T) {
	t.Parallel()
	_, err := open(t, acp.Options{}).AddPolicy(context.Background(), alice, "")
	if !errors.Is(err, acp.ErrSyntax) || !strings.Contains(err.Error(), "the policy is empty") {
		t.Error(err)
	}
}

// TestPolicyErrors: each mistake has its kind and its place, and the general
// kinds besides.
func TestPolicyErrors(t *testing.T) {
	t.Parallel()
	list := func(body string) string { return "name: p\nresources:\n" + body }
	permission := func(expr string) string {
		return list("- name: d\n  relations:\n  - name: r\n    types: [actor]\n  permissions:\n  - name: q\n    expr: " + expr + "\n")
	}
	for _, c := range []struct {
		name, text   string
		kind         error
		line, column int
	}{
		{"empty", "", acp.ErrSyntax, 0, 0},
		{"yaml", "name: [", acp.ErrSyntax, 1, 1},
		{"two documents", "name: p\n---\nname: q\n", acp.ErrSyntax, 2, 1},
		{"a list", "- a\n", acp.ErrSyntax, 1, 1},
		{"no name", "resources: []\n", acp.ErrMissing, 1, 1},
		{"version", "name: p\nversion: 1\n", acp.ErrField, 2, 1},
		{"field", list("- name: d\n  colour: red\n"), acp.ErrField, 4, 3},
		{"repeated", "name: p\nname: q\n", acp.ErrField, 2, 1},
		{"alias", "name: p\nmeta: &a {x: y}\nactor: *a\n", acp.ErrSyntax, 3, 8},
		{"resource twice", list("- name: d\n- name: d\n"), acp.ErrDuplicate, 4, 9},
		{"relation twice", list("- name: d\n  relations:\n  - {name: r, types: [actor]}\n  - {name: r}\n"), acp.ErrDuplicate, 6, 12},
		{"resource actor", list("- name: actor\n"), acp.ErrReserved, 3, 9},
		{"relation owner", list("- name: d\n  relations:\n  - name: owner\n"), acp.ErrReserved, 5, 11},
		{"owner in an expression", permission("r + owner"), acp.ErrReserved, 9, 15},
		{"owner before an arrow", permission("owner->r"), acp.ErrReserved, 9, 11},
		{"undefined", permission("r + x"), acp.ErrUndefined, 9, 15},
		{"undefined type", list("- name: d\n  relations:\n  - {name: r, types: [x]}\n"), acp.ErrUndefined, 5, 12},
		{"undefined set", list("- name: d\n  relations:\n  - {name: r, types: [d->x]}\n"), acp.ErrUndefined, 5, 12},
		{"manages", list("- name: d\n  relations:\n  - {name: r, types: [actor], manages: [x]}\n"), acp.ErrUndefined, 5, 12},
		{"garbage", permission("r r"), acp.ErrExpression, 9, 13},
		{"line break", permission("\"r +\\n r\""), acp.ErrExpression, 9, 15},
		{"carriage return", permission("\"r +\\r r\""), acp.ErrExpression, 9, 15},
		{"parenthesis", permission("(r"), acp.ErrExpression, 9, 13},
		{"operator", permission("r | r"), acp.ErrExpression, 9, 13},
		{"this", permission("_this"), acp.ErrExpression, 9, 11},
		{"specification", "name: p\nspec: DEFRA\nresources:\n- name: d\n", acp.ErrSpecification, 0, 0},
		{"separator", list("- name: d#x\n"), acp.ErrName, 3, 9},
		{"map without owner", "name: p\nresources: {d: {relations: {r: {types: [actor]}}}}\n", acp.ErrMissing, 2, 13},
		{"map, empty", "name: p\nresources: {d: {relations: {owner: {}}, permissions: {q: {expr: ''}}}}\n", acp.ErrExpression, 2, 66},
		{"long name", list("- name: d\n  relations:\n  - name: " + strings.Repeat("x", acp.NameBytesMax+1) + "\n"), acp.ErrName, 5, 11},
	} {
		_, err := acp.ParsePolicy(c.text, acp.DialectAuto)
		var at *acp.PolicyError
		if !errors.Is(err, c.kind) || !errors.Is(err, acp.ErrInvalidPolicy) || !errors.Is(err, acp.ErrInput) || !errors.As(err, &at) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
			continue
		}
		if at.Line != c.line || at.Column != c.column {
			t.Errorf("%s: %v, want it at %d:%d", c.name, err, c.line, c.column)
		}
		if want := map[string]string{"line break": "unexpected line break", "carriage return": "unexpected line break", "operator": "unexpected character '|'"}[c.name]; !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", c.name, err, want)
		}
	}
	if _, err := acp.ParsePolicy(list("- name: d\n  relations:\n  - name: "+strings.Repeat("x", acp.NameBytesMax)+"\n"), acp.DialectAuto); err != nil {
		t.Error(err)
	}
	if _, err := acp.ParsePolicy(strings.Repeat("#", acp.PolicyBytesMax+1), acp.DialectAuto); !errors.Is(err, acp.ErrBound) {
		t.Error(err)
	}
	if _, err := acp.ParsePolicy(strings.Repeat("#", acp.PolicyBytesMax), acp.DialectAuto); errors.Is(err, acp.ErrBound) {
		t.Error(err)
	}
}

// TestWarnings tests that texts which the original accepts are accepted here, with
// a warning.
func TestWarnings(t *testing.T) {
	t.Parallel()
	p, err := acp.ParsePolicy(`
name: p
spec: other
resources:
- name: d
  relations:
  - name: r
  - name: parent
    types: [d]
  permissions:
  - name: a
    expr: b
  - name: b
    expr: a + parent->nothing
`, acp.DialectAuto)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, w := range p.Warnings {
		all = append(all, fmt.Sprintf("%d:%d %s", w.Line, w.Column, w.Text))
	}
	want := []string{
		`2:1 unknown specification "other" is treated as "none"`,
		`7:11 relation "r" has no types: it accepts nothing`,
		`14:15 permission "b": parent->nothing grants nothing: no type of relation "parent" has a "nothing"`,
		`12:11 permission "a" depends on itself`,
		`14:11 permission "b" depends on itself`,
	}
	if got := strings.Join(all, "\n"); got != strings.Join(want, "\n") {
		t.Error(got)
	}
}
