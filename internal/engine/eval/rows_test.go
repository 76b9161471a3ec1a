package eval_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
)

var errRows = errors.New("the database is away")

// brokenRows fail after a number of reads.
type brokenRows struct {
	*rows
	left, reads int
}

func (r *brokenRows) Subjects(o rel.Object, relation string, yield func(rel.Tuple) bool) error {
	if r.reads++; r.reads > r.left {
		return errRows
	}
	return r.rows.Subjects(o, relation, yield)
}

func (r *brokenRows) Probe(k rel.Key) (rel.Tuple, bool, error) { return r.rows.Probe(k) }

// TestRowsFail expects an error of the rows to be the question's error, in
// every mode and wherever it happens. It is never a decision.
func TestRowsFail(t *testing.T) {
	t.Parallel()
	b, _ := world(t, chainModel, nil)
	var tuples []rel.Tuple
	chain(t, 6)(func(x rel.Tuple) { tuples = append(tuples, x) })
	data := rowsOf(tuples, nil)
	k := tupleOf(t, "doc:0#r@user:2").Key()
	for name, mode := range modes {
		for left := range 7 {
			broken := &brokenRows{rows: data, left: left}
			r := eval.NewReader(struct{ authz.Rows }{broken}) // hides the optional interfaces
			a, err := eval.Bind(b.Schema(), r).Force(mode).Check(context.Background(), r,
				authz.Question{Object: k.Object, Relation: k.Relation, Subject: k.Subject}, &eval.Env{})
			if !errors.Is(err, errRows) || a.Allowed() {
				t.Errorf("%s, after %d reads: %s, %v", name, left, a.Decision, err)
			}
		}
	}
}

// TestRowsProbe expects a direct question to read no list if the rows
// implement Prober.
func TestRowsProbe(t *testing.T) {
	t.Parallel()
	b, _ := world(t, "type user\ntype doc\nrelation r [user]: direct\n", nil)
	data := &brokenRows{rows: rowsOf([]rel.Tuple{tupleOf(t, "doc:0#r@user:1")}, nil)}
	for key, want := range map[string]expr.Tristate{"doc:0#r@user:1": expr.True, "doc:0#r@user:2": expr.False} {
		r := eval.NewReader(data)
		if a := ask(t, eval.Bind(b.Schema(), r), r, key, &eval.Env{}); a.Decision != want || data.reads > 0 {
			t.Errorf("%s = %s after %d reads", key, a.Decision, data.reads)
		}
	}
}
