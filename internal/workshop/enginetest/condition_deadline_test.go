package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestConditionsObeyDeadlines asks with conditions that once ran for long after
// the deadline. Each request ends with the deadline's error, with a named bound or
// with an unknown decision, also while many of them run at a time. How much may be
// evaluated after a deadline is counted in TestConditionsEnd (eval).
func TestConditionsObeyDeadlines(t *testing.T) {
	t.Parallel()
	list := expr.Type{Kind: expr.List, Elem: &expr.Type{Kind: expr.Int}}
	text := expr.Type{Kind: expr.String}
	viewers := func(condition string) schema.RelationDef {
		return schema.RelationDef{Name: condition, Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user", Condition: condition}}}
	}
	m := &schema.Model{
		Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewers("regex"), viewers("member"), viewers("loop")}}},
		Conditions: []expr.Definition{
			{Name: "regex", Source: `s.matches("(a{1,30}){1,30}b")`, Params: []expr.Param{{Name: "s", Type: text}}},
			{Name: "member", Source: `-1 in l`, Params: []expr.Param{{Name: "l", Type: list}}},
			{Name: "loop", Source: `l.exists(x, s.matches("^(a|b)*c{1,9}$"))`, Params: []expr.Param{{Name: "s", Type: text}, {Name: "l", Type: list}}},
		},
	}
	e := newEngine(t, ostiary.Options{Conditions: cel.New(cel.Options{})})
	s := newStore(t, e, m)
	const n = 4000
	var write authz.WriteRequest
	for i := range n {
		for _, condition := range []string{"regex", "member", "loop"} {
			write.Add = append(write.Add, rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: condition,
				Subject: rel.Subject{Type: "user", ID: "anne"}, Condition: condition})
		}
		if len(write.Add) > 9000 || i == n-1 {
			if _, err := s.Write(t.Context(), write); err != nil {
				t.Fatal(err)
			}
			write.Add = nil
		}
	}
	var numbers []any
	for i := range 9000 {
		numbers = append(numbers, float64(i))
	}
	long := authz.QueryOptions{Context: expr.Values{"s": strings.Repeat("a", 500_000)}}
	list9000 := authz.QueryOptions{Context: expr.Values{"l": numbers}}
	both := authz.QueryOptions{Context: expr.Values{"s": strings.Repeat("a", 2000), "l": numbers}}
	anne := rel.Subject{Type: "user", ID: "anne"}
	const deadline = 300 * time.Millisecond
	var wait sync.WaitGroup
	for name, ask := range map[string]func(context.Context) error{
		"regular expression": func(ctx context.Context) error {
			a, err := s.Check(ctx, authz.CheckRequest{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "regex", Subject: anne, QueryOptions: long})
			if err == nil && a.Decision != expr.Unknown {
				return fmt.Errorf("the decision is %v, expected unknown", a.Decision)
			}
			return err
		},
		"list of a list": func(ctx context.Context) error {
			_, err := s.ListObjects(ctx, authz.ListObjectsRequest{Type: "doc", Relation: "member", Subject: anne, QueryOptions: list9000})
			return err
		},
		"list of loops": func(ctx context.Context) error {
			_, err := s.ListObjects(ctx, authz.ListObjectsRequest{Type: "doc", Relation: "loop", Subject: anne, QueryOptions: both})
			return err
		},
	} {
		for range 4 {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				if err := ask(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, authz.ErrBound) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
	wait.Wait()
}
