package eval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
)

// fails compiles conditions that are false.
type fails struct{}

func (fails) Compile(expr.Definition) (expr.Program, error) { return fails{}, nil }

func (fails) Eval(_, _ expr.Values, _ rel.Time) expr.Result { return expr.Result{Cost: 90} }

// TestLongQuestionsWait asks long questions while another one has the only turn.
// They wait for it, or end with their context, and return it at their end. A
// short question does not wait.
func TestLongQuestionsWait(t *testing.T) {
	t.Parallel()
	long, many := costlyView(t, 20_000, fails{})
	short, few := costlyView(t, 10, fails{})
	questions := costlyQuestions(long, many)
	rings, v := ringView(t, 2000)
	questions["check over rings"] = func(ctx context.Context, env *Env) (string, authz.Stats, error) {
		a, err := rings.Check(ctx, v, ringQuestion("8"), env)
		return "", a.Stats, err
	}
	questions["page of an expand"] = func(ctx context.Context, env *Env) (string, authz.Stats, error) {
		p, err := long.ExpandPage(ctx, many, rel.Object{Type: "doc", ID: "2"}, "maybe", 3, ExpandPosition{}, env)
		return p.Bound, authz.Stats{}, err
	}
	for name, ask := range questions {
		synctest.Test(t, func(t *testing.T) {
			all := turns.New(0)
			env := &Env{Turns: all}
			if quick := costlyQuestions(short, few)[name]; quick != nil {
				if _, _, err := quick(t.Context(), env); err != nil {
					t.Errorf("%s, short: %v", name, err)
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			start := func(ctx context.Context) <-chan error {
				end := make(chan error, 1)
				go func() {
					_, _, err := ask(ctx, env)
					end <- err
				}()
				synctest.Wait()
				if len(end) > 0 {
					t.Fatalf("%s: did not wait for a turn", name)
				}
				return end
			}
			canceled, end := start(ended), start(t.Context())
			cancel()
			if err := <-canceled; !errors.Is(err, context.Canceled) {
				t.Errorf("%s, canceled: %v", name, err)
			}
			all.Add(1)
			if err := <-end; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if all.Free() != 1 {
				t.Errorf("%s: %d turns are free at the end, want 1", name, all.Free())
			}
		})
	}
}

// slow compiles conditions that are false and take a millisecond. Each
// evaluation adds the context's parameter "who" to order.
type slow struct {
	mu    sync.Mutex
	order strings.Builder
}

func (s *slow) Compile(expr.Definition) (expr.Program, error) { return s, nil }

func (s *slow) Eval(_, request expr.Values, _ rel.Time) expr.Result {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	s.order.WriteString(request["who"].(string))
	s.mu.Unlock()
	return expr.Result{Cost: 3000}
}

// TestTurnsInOrder asks lists of 100 conditions that take a millisecond each,
// with one turn, in virtual time. A question gives its turn up after 2 ms while
// another waits for its first turn, and after 20 ms while one waits for a later
// one.
func TestTurnsInOrder(t *testing.T) {
	t.Parallel()
	compiler := &slow{}
	b, v := costlyView(t, 100, compiler)
	synctest.Test(t, func(t *testing.T) {
		all := turns.New(1)
		var wait sync.WaitGroup
		for _, who := range []string{"a", "b", "c"} {
			wait.Go(func() {
				env := &Env{Turns: all, Context: expr.Values{"who": who}}
				if _, err := b.ListObjects(t.Context(), v, ListObjectsQuestion{Type: "doc", Relation: "maybe", Subject: rel.Subject{Type: "user", ID: "anne"}}, env); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Microsecond) // a comes first, then b, then c
		}
		wait.Wait()
	})
	// The first evaluation of each question needs no turn.
	var runs []string
	for order := compiler.order.String(); order != ""; {
		rest := strings.TrimLeft(order, order[:1])
		runs = append(runs, fmt.Sprintf("%.1s%d", order, len(order)-len(rest)))
		order = rest
	}
	got, want := strings.Join(runs, " "), "a1 b1 c1 a2 b2"+strings.Repeat(" c20 a20 b20", 4)+" c19 a17 b17"
	if got != want {
		t.Errorf("evaluations in a row:\ngot  %s\nwant %s", got, want)
	}
}

// TestTurnWhileMemoryIsShort asks a question that must wait for memory. It gives
// its turn up meanwhile, because the question that has the memory may wait for
// it.
func TestTurnWhileMemoryIsShort(t *testing.T) {
	t.Parallel()
	b, v := ringView(t, 10_000)
	synctest.Test(t, func(t *testing.T) {
		budget, all := NewMemoryBudget(64<<20), turns.New(1)
		if !budget.reserve(t.Context(), 62<<20, 0) {
			t.Fatal("no memory")
		}
		end := make(chan error)
		go func() {
			a, err := b.Check(t.Context(), v, ringQuestion("8"), &Env{Memory: budget, Turns: all})
			if err == nil && a.Reasons.Bound != authz.BoundDepth {
				t.Errorf("%v (%v)", a.Decision, a.Reasons)
			}
			end <- err
		}()
		synctest.Wait()
		if all.Free() != 1 || budget.free == 2<<20 {
			t.Errorf("%d turns and %d bytes are free while the question waits for memory", all.Free(), budget.free)
		}
		budget.release(62 << 20)
		if err := <-end; err != nil || all.Free() != 1 || budget.free != 64<<20 {
			t.Errorf("%v; %d turns and %d bytes are free at the end", err, all.Free(), budget.free)
		}
	})
}

// TestTurnAfterPanic asks a question that panics while it has the turn.
func TestTurnAfterPanic(t *testing.T) {
	t.Parallel()
	compiler := &costly{cancelAfter: 5_000, cancel: func() { panic("a condition") }}
	b, v := costlyView(t, 10_000, compiler)
	for name, ask := range costlyQuestions(b, v) {
		all, budget := turns.New(1), NewMemoryBudget(64<<20)
		compiler.evaluations = 0
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			_, _, _ = ask(t.Context(), &Env{Turns: all, Memory: budget})
		}()
		if all.Free() != 1 || budget.free != 64<<20 {
			t.Errorf("%s: %d turns and %d bytes are free after a panic", name, all.Free(), budget.free)
		}
	}
}
