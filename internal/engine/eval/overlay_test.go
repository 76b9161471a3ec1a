package eval_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
)

const attributeModel = `type user
type doc
type group
attribute open bool
relation e [doc, user]: or(direct, attribute(open))
`

// intern makes a lineage know every kind of a schema, as a store does before
// it binds one.
func intern(t *testing.T, script string, tuples []string, attributes []rel.Attribute) (*eval.Binding, *graph.View) {
	t.Helper()
	l := graph.New(graph.Options{}).Load()
	for _, x := range tuples {
		if err := l.Add(tupleOf(t, x)); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range attributes {
		if err := l.SetAttribute(a); err != nil {
			t.Fatal(err)
		}
	}
	v, err := l.Finish()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := world(t, script, nil)
	return eval.Bind(b.Schema(), v), v
}

// TestOverlayAttributes expects a stored attribute to count where a contextual
// tuple gives its object a new node, and a contextual attribute to replace it.
func TestOverlayAttributes(t *testing.T) {
	t.Parallel()
	object := rel.Object{Type: "group", ID: "2"}
	stored := []rel.Attribute{{Object: object, Name: "open", Value: "true"}}
	env := &eval.Env{Tuples: []rel.Tuple{tupleOf(t, "group:2#e@doc:2")}}
	// Tuples elsewhere make the kinds known, so that only the node is new.
	b, v := intern(t, attributeModel, []string{"group:9#e@doc:9", "group:9#e@user:9"}, stored)
	for name, mode := range modes {
		if a := ask(t, b.Force(mode), v, "group:2#e@user:1", env); a.Decision != expr.True {
			t.Errorf("%s: stored attribute: %s (%s)", name, a.Decision, a.Reasons)
		}
		shut := &eval.Env{Tuples: env.Tuples, Attributes: []rel.Attribute{{Object: object, Name: "open", Value: "false"}}}
		if a := ask(t, b.Force(mode), v, "group:2#e@user:1", shut); a.Decision != expr.False {
			t.Errorf("%s: replaced attribute: %s (%s)", name, a.Decision, a.Reasons)
		}
	}
}

// TestOverlayOnNothing expects contextual tuples to count in data that never
// had a tuple.
func TestOverlayOnNothing(t *testing.T) {
	t.Parallel()
	b, v := world(t, "type user\ntype document\nrelation viewer [user]: direct\n", nil)
	env := &eval.Env{Tuples: []rel.Tuple{tupleOf(t, "document:1#viewer@user:1")}}
	for name, mode := range modes {
		if a := ask(t, b.Force(mode), v, "document:1#viewer@user:1", env); a.Decision != expr.True {
			t.Errorf("%s: %s", name, a.Decision)
		}
		if a := ask(t, b.Force(mode), v, "document:1#viewer@user:1", &eval.Env{}); a.Decision != expr.False {
			t.Errorf("%s, without it: %s", name, a.Decision)
		}
	}
}

// TestAdmission expects a tuple that the schema does not admit to be refused
// if it is contextual, and ignored if it is stored.
func TestAdmission(t *testing.T) {
	t.Parallel()
	const model = `condition c(x int): x < 5
type user
type group
relation m [user]: direct
type doc
relation v [user, user:* with c, group#m with c]: direct
relation w: v
`
	bad := []string{"doc:1#v@user:*", "doc:1#v@group:1#m", "doc:1#v@group:1", "doc:1#w@user:1", "doc:1#x@user:1",
		"doc:1#v@doc:1", "doc:1#v@user:1 with c", "doc:1#v@user:1 with d"}
	for _, text := range bad {
		x := tupleOf(t, text)
		b, v := world(t, model, func(add func(rel.Tuple)) {
			add(x)
			add(tupleOf(t, "group:1#m@user:1"))
		})
		k := rel.Key{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "v", Subject: rel.Subject{Type: "user", ID: "1"}}
		for name, mode := range modes {
			f := b.Force(mode)
			if a := ask(t, f, v, k.String(), &eval.Env{Context: expr.Values{"x": 1}}); a.Decision != expr.False {
				t.Errorf("%s, stored, %s: %s", text, name, a.Decision)
			}
			_, err := f.Check(context.Background(), v, authz.Question{Object: k.Object, Relation: k.Relation, Subject: k.Subject},
				&eval.Env{Tuples: []rel.Tuple{x}})
			if !errors.Is(err, eval.ErrTuple) {
				t.Errorf("%s, contextual, %s: %v", text, name, err)
			}
		}
	}
}

// TestContextualRefused expects each kind of question to refuse a contextual
// tuple that the schema does not admit, or whose context is not a JSON object.
func TestContextualRefused(t *testing.T) {
	t.Parallel()
	b, v := world(t, "condition c(x int): x < 5\ntype user\ntype doc\nrelation v [user, user with c]: direct\n", func(add func(rel.Tuple)) {
		add(tupleOf(t, "doc:1#v@user:1"))
	})
	doc, user := rel.Object{Type: "doc", ID: "1"}, rel.Subject{Type: "user", ID: "1"}
	ctx := context.Background()
	questions := map[string]func(*eval.Env) error{
		"check": func(env *eval.Env) error {
			_, err := b.Check(ctx, v, authz.Question{Object: doc, Relation: "v", Subject: user}, env)
			return err
		},
		"explain": func(env *eval.Env) error {
			_, err := b.Explain(ctx, v, authz.Question{Object: doc, Relation: "v", Subject: user}, env, authz.ExplainOptions{})
			return err
		},
		"list objects": func(env *eval.Env) error {
			_, err := b.ListObjects(ctx, v, eval.ListObjectsQuestion{Type: "doc", Relation: "v", Subject: user}, env)
			return err
		},
		"list subjects": func(env *eval.Env) error {
			_, err := b.ListSubjects(ctx, v, eval.ListSubjectsQuestion{Object: doc, Relation: "v", SubjectType: "user"}, env)
			return err
		},
		"expand": func(env *eval.Env) error { _, err := b.Expand(ctx, v, doc, "v", 1, env); return err },
		"expand page": func(env *eval.Env) error {
			_, err := b.ExpandPage(ctx, v, doc, "v", 1, eval.ExpandPosition{}, env)
			return err
		},
	}
	with := rel.Tuple{Object: doc, Relation: "v", Subject: rel.Subject{Type: "user", ID: "2"}, Condition: "c"}
	for name, ask := range questions {
		for context, ok := range map[string]bool{"": true, "{}": true, `{"x":1}`: true, "[1]": false, "null": false, "1": false, "{": false} {
			x := with
			x.Context = context
			if err := ask(&eval.Env{Tuples: []rel.Tuple{x}}); ok && err != nil || !ok && !errors.Is(err, eval.ErrTuple) {
				t.Errorf("%s with the context %q: %v", name, context, err)
			}
		}
		if err := ask(&eval.Env{Tuples: []rel.Tuple{tupleOf(t, "doc:1#v@doc:2")}}); !errors.Is(err, eval.ErrTuple) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
