package eval_test

import (
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/workshop/oracle"
	"github.com/ostiary/ostiary/rel"
)

// TestWildcardMatrix puts wildcards in every part of a tuple, on every kind of
// relation that reads them, stored and contextual, with and without a
// condition. Each answer must be the oracle's, in every mode.
func TestWildcardMatrix(t *testing.T) {
	t.Parallel()
	shapes := []string{"direct", "or(direct, b)", "and(direct, b)", "and(b, direct)", "but(direct, b)", "but(b, direct)",
		"or(from(p, m), direct)", "and(from(p, m), direct)", "but(direct, from(p, m))"}
	wild := []string{"doc:1#v@user:*", "doc:1#b@user:*", "group:1#m@user:*", "doc:1#v@group:*", "doc:1#p@group:*"}
	rest := []string{"doc:1#v@group:1#m", "doc:1#b@user:1", "doc:1#v@user:2", "doc:1#p@group:1", "group:1#m@user:2", "group:*#m@user:3"}
	asks := []string{"user:1", "user:2", "user:3", "user:*", "group:1", "group:*", "group:1#m", "group:2#m", "doc:1#v"}
	counts := [3]int{}
	for _, shape := range shapes {
		script, err := oracle.ParseScript(fmt.Sprintf(`condition c(x int): x < 5
type user
type group
relation m [user, user:*, user:* with c]: direct
type doc
relation p [group, group:*]: direct
relation b [user, user:*, user:* with c]: direct
relation v [user, user:*, user:* with c, group:*, group:* with c, group#m]: %s
`, shape))
		if err != nil {
			t.Fatal(err)
		}
		for variant := range 1 << (len(wild) + 3) {
			w := script.World
			w.Depth = authz.DepthDefault
			condition, contextual, context := variant>>len(wild)&1 == 1, variant>>(len(wild)+1)&1 == 1, variant>>(len(wild)+2)&1 == 1
			if context {
				w.Context = expr.Values{"x": 1}
			}
			for _, text := range rest {
				w.Stored = append(w.Stored, tupleOf(t, text))
			}
			for i, text := range wild {
				x := tupleOf(t, text)
				if variant>>i&1 == 0 {
					continue
				}
				if condition && x.Relation != "p" {
					x.Condition = "c"
				}
				if contextual {
					w.Contextual = append(w.Contextual, x)
				} else {
					w.Stored = append(w.Stored, x)
				}
			}
			s := compile(t, &w.Model)
			w.Contextual = admitted(s, w.Contextual)
			o, err := oracle.New(w, oracle.Conditions{})
			if err != nil {
				t.Fatal(err)
			}
			v, env := viewOf(t, &w), envOf(&w)
			b := eval.Bind(s, v)
			for _, sub := range asks {
				k := tupleOf(t, "doc:1#v@"+sub).Key()
				want := o.Members(k.Subject, rel.Object{Type: "doc", ID: "1"}).Truth(k.Object, "v")
				counts[want]++
				for name, mode := range modes {
					if a := ask(t, b.Force(mode), v, k.String(), env); a.Decision != want {
						t.Fatalf("%s = %s, want %s (%s)\n%s", k, a.Decision, want, name, oracle.Script{World: w})
					}
				}
			}
		}
	}
	t.Logf("false, unknown, true: %v", counts)
}
