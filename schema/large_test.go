package schema

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/expr"
)

// chain returns a model with a type of n relations, each of which reads the one
// before it, or the one after it if backward is set. In a ring, the first reads
// the last. join is the operator between that relation and the tuples of the
// relation itself.
func chain(n int, backward, ring bool, join Op) *Model {
	users := []SubjectType{{Type: "user"}}
	t := TypeDef{Name: "t"}
	for i := range n {
		to := i - 1
		if backward {
			to = i + 1
		}
		r := RelationDef{Name: "r" + strconv.Itoa(i), Subjects: users, Rewrite: Direct()}
		if ring || to >= 0 && to < n {
			r.Rewrite = Rewrite{Op: join, Children: []Rewrite{Direct(), Computed("r" + strconv.Itoa((to+n)%n))}}
		}
		t.Relations = append(t.Relations, r)
	}
	return &Model{Types: []TypeDef{{Name: "user"}, t}, Options: Options{RequireEntrypoints: join == OpUnion || !ring}}
}

// TestLargeModels compiles models with as many relations as possible, which depend
// on each other in the worst order. The work and the memory are proportional to the
// number of relations.
func TestLargeModels(t *testing.T) {
	t.Parallel()
	for _, backward := range []bool{false, true} {
		for _, ring := range []bool{false, true} {
			for _, join := range []Op{OpUnion, OpIntersection, OpExclusion} {
				name := fmt.Sprintf("backward %v, ring %v, %s", backward, ring, join)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c := newCompilation(t.Context(), chain(RelationsMax, backward, ring, join))
					s, err := c.run(nil)
					if err != nil {
						t.Fatal(err)
					}
					if c.worked > 8*RelationsMax {
						t.Errorf("the analysis took %d steps for %d relations", c.worked, RelationsMax)
					}
					user, _ := s.Kind(Kind{Type: "user"})
					for i := range s.Relations {
						if r := &s.Relations[i]; r.Reach.Has(user) == (ring && join == OpIntersection) || !r.Reach.Has(r.Kind) || join == OpUnion && ring && !r.Reach.Has(s.Relations[0].Kind) {
							t.Fatalf("%s has another reach", r.Name)
						}
					}
					if s.Bytes() > 64<<20 {
						t.Errorf("%d bytes for %d relations", s.Bytes(), RelationsMax)
					}
				})
			}
		}
	}
}

// manySteps returns a model whose rewrites have exactly n operators and steps: each
// of the arrows follows the tuples of a relation with 1,000 types of subjects.
func manySteps(n int) *Model {
	m := &Model{Types: []TypeDef{{Name: "doc"}}}
	parent := RelationDef{Name: "parent", Rewrite: Direct()}
	for i := range RestrictionsMax {
		typ := "t" + strconv.Itoa(i)
		m.Types = append(m.Types, TypeDef{Name: typ, Relations: []RelationDef{{Name: "viewer", Rewrite: Direct(), Subjects: []SubjectType{{Type: typ}}}}})
		parent.Subjects = append(parent.Subjects, SubjectType{Type: typ})
		n -= 2 // the operator and its restriction
	}
	n -= 1 + RestrictionsMax
	doc := &m.Types[0]
	doc.Relations = append(doc.Relations, parent)
	for i := 0; n > 0; i++ {
		r := RelationDef{Name: "r" + strconv.Itoa(i), Rewrite: Computed("parent")}
		if n > 1+RestrictionsMax {
			r.Rewrite = Arrow("parent", "viewer")
			n -= RestrictionsMax
		}
		n--
		doc.Relations = append(doc.Relations, r)
	}
	return m
}

// TestStepsBound compiles a model at the bound on steps, and refuses one above. Its
// text is less than 64 KB.
func TestStepsBound(t *testing.T) {
	t.Parallel()
	s, err := Compile(manySteps(StepsMax), nil)
	if err != nil {
		t.Fatalf("at the bound: %v", err)
	}
	for i := range s.Relations {
		if e := s.Relations[i].Expr; e.Op == OpArrow && len(e.Via) != RestrictionsMax {
			t.Fatalf("the arrow %s has %d targets", s.Relations[i].Name, len(e.Via))
		}
	}
	_, err = Compile(manySteps(StepsMax+1), nil)
	if !errors.Is(err, ErrBound) || !strings.Contains(err.Error(), "more than 500000 operators and steps") {
		t.Errorf("one above: %v", err)
	}
	if n := strings.Count(err.Error(), "\n"); n != 0 {
		t.Errorf("the bound is reported %d times", n+1)
	}
}

// TestAnalysisBound compiles a model whose analysis needs as much work as is
// allowed, and refuses one step more.
func TestAnalysisBound(t *testing.T) {
	t.Parallel()
	for _, join := range []Op{OpUnion, OpIntersection} {
		m := chain(100, true, true, join)
		whole := newCompilation(t.Context(), m)
		if _, err := whole.run(nil); err != nil {
			t.Fatal(err)
		}
		for more := range 2 {
			c := newCompilation(t.Context(), m)
			c.worked = AnalysisMax - whole.worked + more
			_, err := c.run(nil)
			if got := errors.Is(err, ErrBound); got != (more == 1) {
				t.Errorf("%s, %d above the bound: %v", join, more, err)
			}
		}
	}
}

// endingContext is a context that has ended when Err was called often enough.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestCompileInterrupted ends the context at each place where a compilation looks at
// it. The compilation returns the error of the context.
func TestCompileInterrupted(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := CompileContext(ended, chain(1, false, false, OpUnion), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a small model: %v", err)
	}
	m := chain(interruptEvery, true, true, OpIntersection)
	m.Types = append(m.Types, chain(interruptEvery, true, false, OpUnion).Types[1])
	m.Types[2].Name = "other"
	for looks := 0; ; looks++ {
		_, err := CompileContext(&endingContext{t.Context(), looks}, m, nil)
		if err == nil {
			if looks < 12 {
				t.Errorf("the compilation looked at the context %d times only", looks)
			}
			return
		}
		if err != context.DeadlineExceeded {
			var joined interface{ Unwrap() []error }
			if !errors.As(err, &joined) || len(joined.Unwrap()) != 1 || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("after %d looks: %v", looks, err)
			}
		}
	}
}

// naiveReach computes the reach of all relations by repetition: the kinds of each
// relation, and whether it can hold for every subject.
func naiveReach(s *Schema) ([]map[KindID]bool, []bool) {
	n := len(s.Relations)
	sets, any := make([]map[KindID]bool, n), make([]bool, n)
	for i := range sets {
		sets[i] = map[KindID]bool{}
	}
	var of func(e *Expr) (map[KindID]bool, bool)
	of = func(e *Expr) (map[KindID]bool, bool) {
		out, all := map[KindID]bool{}, false
		for step := range e.Steps() {
			if step.From != None {
				for k := range sets[step.From] {
					out[k] = true
				}
				all = all || any[step.From]
			}
			if e.Op == OpDirect {
				k := step.Restriction.Kind
				out[k] = true
				if s.Kinds[k].Wildcard {
					plain, _ := s.Kind(Kind{Type: s.Kinds[k].Type})
					out[plain] = true
				}
			}
		}
		switch e.Op {
		case OpUnion:
			for _, ch := range e.Children {
				set, a := of(ch)
				for k := range set {
					out[k] = true
				}
				all = all || a
			}
		case OpIntersection:
			all = true
			for _, ch := range e.Children {
				set, a := of(ch)
				switch {
				case a:
				case all:
					out, all = set, false
				default:
					for k := range out {
						if !set[k] {
							delete(out, k)
						}
					}
				}
			}
		case OpExclusion:
			return of(e.Children[0])
		case OpAttribute, OpRule:
			all = true
		}
		return out, all
	}
	for changed := true; changed; {
		changed = false
		for i := range s.Relations {
			r := &s.Relations[i]
			set, a := of(r.Expr)
			if r.Kind != None {
				set[r.Kind] = true
			}
			for k := range set {
				if !sets[i][k] {
					sets[i][k], changed = true, true
				}
			}
			if a && !any[i] {
				any[i], changed = true, true
			}
		}
	}
	return sets, any
}

// TestReachOfRandomModels compares the reach of random models with a computation
// that repeats everything until nothing changes. OSTIARY_SEED repeats a run.
func TestReachOfRandomModels(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("OSTIARY_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	const models = 1000
	compared := 0
	for n := range models {
		m := randomModel(rnd)
		s, err := Compile(m, nil)
		if err != nil {
			continue
		}
		compared++
		sets, any := naiveReach(s)
		for i := range s.Relations {
			r := &s.Relations[i]
			if r.ReachAny != any[i] {
				t.Fatalf("OSTIARY_SEED=%d, model %d, %s: ReachAny is %v", seed, n, r.Name, r.ReachAny)
			}
			for k := range KindID(len(s.Kinds)) {
				if !any[i] && r.Reach.Has(k) != sets[i][k] {
					t.Fatalf("OSTIARY_SEED=%d, model %d, %s: kind %v: %v", seed, n, r.Name, s.Kinds[k], r.Reach.Has(k))
				}
			}
		}
	}
	if compared < models/5 {
		t.Errorf("only %d of %d random models compile", compared, models)
	}
}

// randomModel returns a model of a few types and relations, with all operators.
// Many have cycles.
func randomModel(rnd *rand.Rand) *Model {
	const types, relations = 3, 4
	m := &Model{}
	relation := func() string { return "r" + strconv.Itoa(rnd.IntN(relations)) }
	var rewrite func(depth int, direct bool) Rewrite
	rewrite = func(depth int, direct bool) Rewrite {
		n := rnd.IntN(11)
		switch {
		case n == 0:
			return Rewrite{Op: OpAttribute, Attribute: "public"}
		case n < 3 && direct:
			return Direct()
		case n < 5 || depth == 0:
			return Computed(relation())
		case n < 6:
			return Rewrite{Op: OpArrow, Relation: "parent", Children: []Rewrite{rewrite(depth-1, false)}}
		case n < 8:
			return Union(rewrite(depth-1, direct), rewrite(depth-1, direct))
		case n < 10:
			return Intersection(rewrite(depth-1, direct), rewrite(depth-1, direct))
		}
		return Exclusion(rewrite(depth-1, direct), rewrite(depth-1, direct))
	}
	for i := range types {
		t := TypeDef{Name: "t" + strconv.Itoa(i), Attributes: []AttributeDef{{Name: "public", Type: expr.Type{Kind: expr.Bool}}}}
		t.Relations = append(t.Relations, RelationDef{Name: "parent", Rewrite: Direct(), Subjects: []SubjectType{{Type: "t" + strconv.Itoa(rnd.IntN(types))}}})
		for j := range relations {
			r := RelationDef{Name: "r" + strconv.Itoa(j), Rewrite: rewrite(2, true)}
			if holdsDirect(&r.Rewrite) {
				target := "t" + strconv.Itoa(rnd.IntN(types))
				r.Subjects = []SubjectType{{Type: target, Wildcard: rnd.IntN(3) == 0}}
				if rnd.IntN(2) == 0 {
					r.Subjects = append(r.Subjects, SubjectType{Type: target, Relation: relation()})
				}
			}
			t.Relations = append(t.Relations, r)
		}
		m.Types = append(m.Types, t)
	}
	return m
}
