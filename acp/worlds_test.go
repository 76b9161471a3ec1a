package acp_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/oracle"
	"github.com/ostiary/ostiary/rel"
)

// TestWorlds makes random policies in both dialects, random registrations and
// relationships, and holds every decision, Access, CheckMany and Readable
// against the naive evaluator; on some worlds all of its laws besides.
// OSTIARY_ACP_WORLDS (default 150) is the number of worlds, OSTIARY_SEED (1) the seed of the first.
func TestWorlds(t *testing.T) {
	t.Parallel()
	count, seed := number("OSTIARY_ACP_WORLDS", 150), number("OSTIARY_SEED", 1)
	asked, allowed := 0, 0
	for i := range count {
		n, yes := playWorld(t, uint64(seed+i))
		asked, allowed = asked+n, allowed+yes
		if t.Failed() {
			t.Fatalf("OSTIARY_SEED=%d OSTIARY_ACP_WORLDS=1 go test ./acp -run TestWorlds", seed+i)
		}
	}
	t.Logf("%d worlds, %d decisions, %d allowed", count, asked, allowed)
	if allowed < asked/50 || asked < 50*count {
		t.Error("too few worlds with answers of each kind")
	}
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// randomPolicy has resources x, y, z with relations r0…, permissions p0….
func randomPolicy(rnd *rand.Rand) (text string, resources, relations, permissions int) {
	resources, relations, permissions = 1+rnd.IntN(3), 1+rnd.IntN(3), 1+rnd.IntN(4)
	listed := rnd.IntN(3) > 0
	name := func() string { return string(rune('x' + rnd.IntN(resources))) }
	var expression func(depth int) string
	expression = func(depth int) string {
		var b strings.Builder
		for i := range 1 + rnd.IntN(3) {
			if i > 0 {
				b.WriteString([]string{" + ", " + ", " - ", " & "}[rnd.IntN(4)])
			}
			switch n := rnd.IntN(10); {
			case n < 2 && depth < 3:
				b.WriteString("(" + expression(depth+1) + ")")
			case n < 4:
				target := fmt.Sprintf("p%d", rnd.IntN(permissions))
				if rnd.IntN(3) == 0 {
					target = []string{"owner", "r0", "nothing"}[rnd.IntN(3)]
				}
				fmt.Fprintf(&b, "r%d->%s", rnd.IntN(relations), target)
			case n < 6:
				fmt.Fprintf(&b, "p%d", rnd.IntN(permissions))
			case n == 6 && !listed:
				b.WriteString("owner")
			default:
				fmt.Fprintf(&b, "r%d", rnd.IntN(relations))
			}
		}
		return b.String()
	}
	types := func() string {
		out := []string{"actor"}[:rnd.IntN(2)]
		for range rnd.IntN(3) {
			t := name()
			if rnd.IntN(2) == 0 {
				t += "->" + []string{"r0", "owner", fmt.Sprintf("p%d", rnd.IntN(permissions))}[rnd.IntN(3)]
			}
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
		return strings.Join(out, ", ")
	}
	var b strings.Builder
	b.WriteString("name: w\nresources:\n")
	for i := range resources {
		if listed {
			fmt.Fprintf(&b, "- name: %c\n  relations:\n", 'x'+i)
		} else {
			fmt.Fprintf(&b, "  %c:\n    relations:\n      owner: {types: [actor]}\n", 'x'+i)
		}
		for j := range relations {
			form := "  - {name: r%d, types: [%s], manages: [r%d]}\n"
			if !listed {
				form = "      r%d: {types: [%s], manages: [r%d]}\n"
			}
			fmt.Fprintf(&b, form, j, types(), rnd.IntN(relations))
		}
		b.WriteString([]string{"    permissions:\n", "  permissions:\n"}[btoi(listed)])
		for j := range permissions {
			form := "      p%d: {expr: %s}\n"
			if listed {
				form = "  - {name: p%d, expr: %s}\n"
			}
			fmt.Fprintf(&b, form, j, expression(0))
		}
	}
	return b.String(), resources, relations, permissions
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// playWorld returns how many decisions it compared, and how many allow.
func playWorld(t *testing.T, seed uint64) (asked, allowed int) {
	ctx, rnd := context.Background(), rand.New(rand.NewPCG(seed, 3))
	e := open(t, acp.Options{})
	defer e.Close()
	text, resources, relations, permissions := randomPolicy(rnd)
	id, err := e.AddPolicy(ctx, alice, text)
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, text)
	}
	everybody := []string{alice, bob, carol}
	object := func() acp.Object {
		return acp.Object{Policy: id, Resource: string(rune('x' + rnd.IntN(resources))), ID: strconv.Itoa(rnd.IntN(4))}
	}
	for range 12 {
		e.Register(ctx, everybody[rnd.IntN(3)], object())
	}
	for range 40 {
		x := acp.Relationship{Object: object(), Relation: fmt.Sprintf("r%d", rnd.IntN(relations))}
		switch rnd.IntN(4) {
		case 0:
			o := object()
			x.Subject = acp.Subject{Resource: o.Resource, ID: o.ID}
		case 1:
			o := object()
			x.Subject = acp.Subject{Resource: o.Resource, ID: o.ID, Relation: []string{"r0", "owner", "p0"}[rnd.IntN(3)]}
		default:
			x.Subject = acp.ActorSubject(append(everybody, acp.AllActors)[rnd.IntN(4)])
		}
		owner, _, _ := e.Owner(ctx, x.Object)
		if _, err := e.SetRelationship(ctx, owner, x); err != nil && !errors.Is(err, acp.ErrInput) && !errors.Is(err, acp.ErrUnauthenticated) {
			t.Errorf("seed %d: %s: %v", seed, x, err)
		}
	}
	w := worldOf(t, e, id)
	truth, err := oracle.New(w, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, actor := range append(everybody, "") {
		for i := range resources {
			for p := range permissions {
				n, yes := compareWorld(t, e, truth, id, actor, string(rune('x'+i)), fmt.Sprintf("p%d", p))
				asked, allowed = asked+n, allowed+yes
			}
		}
	}
	if seed%10 == 0 {
		laws(t, seed, w)
	}
	if t.Failed() {
		t.Logf("seed %d:\n%s", seed, text)
	}
	return asked, allowed
}

// worldOf takes policy and tuples out of the store.
func worldOf(t *testing.T, e *acp.Engine, policy string) oracle.World {
	ctx := context.Background()
	s := must(e.Store())(t)
	info := must(s.CurrentSchema(ctx, policy))(t)
	schema := must(s.Schema(ctx, info.ID))(t)
	w := oracle.World{Model: *schema.Model, Now: 1, Depth: 25}
	for tuple, err := range s.Export(ctx, authz.Consistency{}) {
		w.Stored = append(w.Stored, must(tuple, err)(t))
	}
	return w
}

// compareWorld asks one permission for all objects of a resource, one by one,
// many at once, and as a list.
func compareWorld(t *testing.T, e *acp.Engine, truth *oracle.Oracle, policy, actor, resource, permission string) (asked, allowed int) {
	ctx := context.Background()
	ids := []string{"0", "1", "2", "3", "unknown"}
	many := must(e.CheckMany(ctx, actor, permission, policy, resource, ids))(t)
	readable := map[string]bool{}
	for id, err := range e.Readable(ctx, actor, permission, policy, resource) {
		readable[must(id, err)(t)] = true
	}
	name := actor
	if actor == "" {
		name = "~" // no user
	}
	for i, id := range ids {
		o := acp.Object{Policy: policy, Resource: resource, ID: id}
		want := truth.Check(oracle.Question{Object: rel.Object{Type: policy + "/" + resource, ID: id}, Relation: permission,
			Subject: rel.Subject{Type: policy + "/actor", ID: name}}) == expr.True
		got := must(e.Check(ctx, actor, permission, o))(t)
		access := must(e.Access(ctx, actor, permission, o))(t)
		registered := must(e.IsRegistered(ctx, o))(t)
		if got != want || (access == acp.Allow) != want || (access == acp.Public) == registered || many[i] != access || readable[id] != want {
			t.Errorf("%s %s %s: want %v, check %v, access %v, many %v, readable %v, registered %v",
				actor, permission, o, want, got, access, many[i], readable[id], registered)
		}
		asked++
		allowed += btoi(got)
	}
	return asked, allowed
}

// laws tries all laws of the oracle on a world that a policy made.
func laws(t *testing.T, seed uint64, w oracle.World) {
	b, err := oracle.NewBench(seed, w, nil, &oracle.Coverage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, law := range oracle.Laws() {
		if f := law.Holds(b); f != nil {
			t.Errorf("law %s: %v", law.Name, f)
		}
	}
}
