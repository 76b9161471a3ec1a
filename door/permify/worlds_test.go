package permify

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/internal/permifypb"
)

// TestWorlds checks random worlds through the protocol. Each response must
// match a naive evaluator of the language, and all calls must agree. The names
// of the subtests contain the seed. OSTIARY_PERMIFY_WORLDS sets the number of
// worlds, by default 20, and OSTIARY_SEED the seed.
func TestWorlds(t *testing.T) {
	t.Parallel()
	worlds, seed := 20, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("OSTIARY_PERMIFY_WORLDS")); err == nil {
		worlds = n
	}
	if n, err := strconv.ParseUint(os.Getenv("OSTIARY_SEED"), 10, 64); err == nil {
		seed = n
	}
	for i := range worlds {
		w := makeWorld(rand.New(rand.NewPCG(seed, uint64(i))))
		t.Run(fmt.Sprintf("seed %d world %d", seed, i), func(t *testing.T) {
			t.Parallel()
			w.check(t)
		})
	}
}

// naive is a world and the simplest possible evaluator of the language.
type naive struct {
	schema *language.Schema
	text   string
	// stored are the tuples and attributes in the store, contextual those in
	// the context of each request.
	stored, contextual []string
	relations          map[string][]string       // "doc:1#owner" to "user:1", "group:1#member"
	flags              map[string]bool           // "doc:1$on"
	numbers            map[string]int            // "doc:1$n"
	objects            map[string]map[string]int // by type
	// scopes counts the lookups with a scope, to use each of worldScopes.
	scopes int
}

// makeWorld returns a random world.
func makeWorld(rng *rand.Rand) *naive {
	w := &naive{relations: map[string][]string{}, flags: map[string]bool{}, numbers: map[string]int{}, objects: map[string]map[string]int{}}
	w.text = `entity user { relation self @user
 attribute on boolean }
entity group { relation member @user @group#member }
entity folder { relation parent @folder
 relation owner @user @group#member
 attribute on boolean
 permission view = owner or parent.view or on }
entity doc { relation a @user
 relation b @user @group#member
 relation c @group#member @folder#owner
 relation f @folder
 relation g @group @user
 attribute on boolean
 attribute n integer
`
	names := []string{"a", "b", "c", "on", "big(n)", "f.view", "f.owner", "f.on", "g.member", "g.self", "g.on"}
	for i := range 5 {
		name := "p" + strings.Repeat("q", i)
		w.text += " permission " + name + " = " + expression(rng, names, 3) + "\n"
		names = append(names, name)
	}
	w.text += "}\nrule big(n integer) { n > context.data.least }\n"
	w.data(rng)
	return w
}

// expression returns a random expression over names.
func expression(rng *rand.Rand, names []string, depth int) string {
	e := ""
	for i := range 1 + rng.IntN(3) {
		if i > 0 {
			e += [...]string{" and ", " or ", " or ", " not "}[rng.IntN(4)]
		}
		if depth > 0 && rng.IntN(4) == 0 {
			e += "(" + expression(rng, names, depth-1) + ")"
		} else {
			e += names[rng.IntN(len(names))]
		}
	}
	return e
}

// data adds random tuples and attributes.
func (w *naive) data(rng *rand.Rand) {
	id := func() string { return strconv.Itoa(rng.IntN(4)) }
	lines := map[string]bool{}
	for range 12 + rng.IntN(30) {
		o := [...]string{"user:%s#self@user:%s", "group:%s#member@user:%s", "group:%s#member@group:%s#member", "folder:%s#parent@folder:%s",
			"folder:%s#owner@user:%s", "folder:%s#owner@group:%s#member", "doc:%s#a@user:%s", "doc:%s#b@user:%s", "doc:%s#b@group:%s#member",
			"doc:%s#c@group:%s#member", "doc:%s#c@folder:%s#owner", "doc:%s#f@folder:%s", "doc:%s#g@group:%s", "doc:%s#g@user:%s"}[rng.IntN(14)]
		line := fmt.Sprintf(o, id(), id())
		if t, err := ParseTuple(line); err != nil || t.Object.Type == t.Subject.Type && t.Object.ID == t.Subject.ID && t.Relation == t.Subject.Relation {
			continue
		}
		lines[line] = true
	}
	for range rng.IntN(10) {
		lines[fmt.Sprintf("%s:%s$on|boolean:true", [...]string{"user", "folder", "doc"}[rng.IntN(3)], id())] = true
		lines[fmt.Sprintf("doc:%s$n|integer:%d", "0123"[rng.IntN(4):][:1], 2)] = true
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		if rng.IntN(5) == 0 {
			w.contextual = append(w.contextual, line)
		} else {
			w.stored = append(w.stored, line)
		}
		w.add(line)
	}
}

// add adds a line to the evaluator's data.
func (w *naive) add(line string) {
	see := func(object string) {
		typ, id, _ := strings.Cut(object, ":")
		if w.objects[typ] == nil {
			w.objects[typ] = map[string]int{}
		}
		w.objects[typ][id]++
	}
	if head, value, ok := strings.Cut(line, "|"); ok {
		object, _, _ := strings.Cut(head, "$")
		see(object)
		if n, isNumber := strings.CutPrefix(value, "integer:"); isNumber {
			w.numbers[head], _ = strconv.Atoi(n)
		} else {
			w.flags[head] = true
		}
		return
	}
	of, sub, _ := strings.Cut(line, "@")
	w.relations[of] = append(w.relations[of], sub)
	object, _, _ := strings.Cut(of, "#")
	see(object)
	object, _, _ = strings.Cut(sub, "#")
	see(object)
}

// visit evaluates f for a name on an object. u has the name if it is that
// userset. open are the callers' questions: an answer that depends on itself is
// false, as is an answer about an unknown name.
func (w *naive) visit(u, object, name string, open map[string]bool, f func(key, typ, id string, st *language.Statement) bool) bool {
	key := object + "#" + name
	if u == key {
		return true
	}
	if open[key] {
		return false
	}
	open[key] = true
	defer delete(open, key)
	typ, id, _ := strings.Cut(object, ":")
	st := w.schema.Entity(typ).Statement(name)
	return st != nil && f(key, typ, id, st)
}

// holds reports whether u has a name on an object. open is as in visit. The
// schemas of these worlds have no exclusion within a cycle.
func (w *naive) holds(u, object, name string, open map[string]bool) bool {
	return w.visit(u, object, name, open, func(key, _, _ string, st *language.Statement) bool {
		switch st.Kind {
		case language.Attribute:
			return w.flags[object+"$"+name]
		case language.Permission:
			return w.expr(u, object, st.Expr, open)
		}
		return slices.ContainsFunc(w.relations[key], func(s string) bool {
			o, r, isUserset := strings.Cut(s, "#")
			return s == u || isUserset && w.holds(u, o, r, open)
		})
	})
}

// expr evaluates an expression for u on an object.
func (w *naive) expr(u, object string, e *language.Expr, open map[string]bool) bool {
	switch {
	case e.Op == language.And:
		return w.expr(u, object, e.Left, open) && w.expr(u, object, e.Right, open)
	case e.Op == language.Or:
		return w.expr(u, object, e.Left, open) || w.expr(u, object, e.Right, open)
	case e.Op == language.Not:
		return w.expr(u, object, e.Left, open) && !w.expr(u, object, e.Right, open)
	case e.Args != nil:
		return w.numbers[object+"$n"] > 1
	case len(e.Path) == 1:
		return w.holds(u, object, e.Path[0], open)
	}
	for _, s := range w.relations[object+"#"+e.Path[0]] {
		o, _, _ := strings.Cut(s, "#")
		if w.holds(u, o, e.Path[1], open) {
			return true
		}
	}
	return false
}

// check writes the world to a door and compares all calls.
func (w *naive) check(t *testing.T) {
	var err error
	if w.schema, err = language.Parse(w.text); err != nil {
		t.Fatalf("%v\n%s", err, w.text)
	}
	c := connect(t, w.text)
	if len(w.stored) > 0 {
		c.write(t, w.stored...)
	}
	context := &permifypb.Context{}
	for _, line := range w.contextual {
		if strings.Contains(line, "$") {
			a, err := ParseAttributeMessage(line)
			if err != nil {
				t.Fatal(err)
			}
			context.Attributes = append(context.Attributes, a)
		} else {
			k, err := ParseTuple(line)
			if err != nil {
				t.Fatal(err)
			}
			context.Tuples = append(context.Tuples, tupleMessage(k.Key()))
		}
	}
	if context.Data, err = structpb.NewStruct(map[string]any{"least": 1}); err != nil {
		t.Fatal(err)
	}
	for _, st := range w.schema.Entity("doc").Statements {
		if st.Kind != language.Attribute || st.Name == "on" {
			w.checkName(t, c, "doc", st.Name, context)
		}
	}
	for _, name := range []string{"view", "owner"} {
		w.checkName(t, c, "folder", name, context)
	}
}

var worldSubjects = []*permifypb.Subject{{Type: "user", Id: "0"}, {Type: "user", Id: "1"}, {Type: "user", Id: "2"}, {Type: "user", Id: "99"},
	{Type: "group", Id: "1", Relation: "member"}, {Type: "folder", Id: "2", Relation: "owner"}}

// checkName compares bulk checks and lookups of one relation or permission.
func (w *naive) checkName(t *testing.T, c *clients, typ, name string, context *permifypb.Context) {
	ids := slices.Sorted(maps.Keys(w.objects[typ]))
	for _, s := range worldSubjects {
		u := subject(s).String()
		ids := ids
		if s.Type == typ && !slices.Contains(ids, s.Id) {
			ids = append(slices.Clone(ids), s.Id) // a userset has itself, even if its object occurs in no tuple
			slices.Sort(ids)
		}
		var want []string
		bulk := &permifypb.PermissionBulkCheckRequest{TenantId: "t1", Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: 25}, Context: context}
		for _, id := range ids {
			if w.holds(u, typ+":"+id, name, map[string]bool{}) {
				want = append(want, id)
			}
			bulk.Items = append(bulk.Items, &permifypb.PermissionBulkCheckRequestItem{Entity: &permifypb.Entity{Type: typ, Id: id}, Permission: name, Subject: s})
		}
		if len(ids) == 0 {
			continue
		}
		out, err := c.permit.BulkCheck(t.Context(), bulk)
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, u, err, w)
		}
		for i, id := range ids {
			got := out.Results[i].Can == permifypb.CheckResult_CHECK_RESULT_ALLOWED
			if got != slices.Contains(want, id) || out.Results[i].Metadata.Error != nil {
				t.Fatalf("%s %s %s:%s: %v (%s), want %v\n%s", u, name, typ, id, got, out.Results[i].Metadata.GetError(), !got, w)
			}
		}
		w.checkEntities(t, c, typ, name, s, context, want)
	}
	for _, id := range ids {
		w.checkSubjects(t, c, typ, name, id, context)
	}
}

// checkEntities compares lookups of entities, in pages of two and with a scope.
func (w *naive) checkEntities(t *testing.T, c *clients, typ, name string, s *permifypb.Subject, context *permifypb.Context, want []string) {
	r := &permifypb.PermissionLookupEntityRequest{TenantId: "t1", Metadata: &permifypb.PermissionLookupEntityRequestMetadata{Depth: 25}, EntityType: typ,
		Permission: name, Subject: s, Context: context, PageSize: 2}
	got := w.lookup(t, c, r)
	if !slices.Equal(got, want) {
		t.Fatalf("%s has %s on %v, want %v\n%s", subject(s), name, got, want, w)
	}
	scope := worldScopes[w.scopes%len(worldScopes)]
	w.scopes++
	r.Scope = map[string]*permifypb.StringArrayValue{}
	for typ, ids := range scope {
		r.Scope[typ] = &permifypb.StringArrayValue{Data: ids}
	}
	want = slices.DeleteFunc(slices.Clone(want), func(id string) bool {
		return !w.isCandidate(subject(s).String(), typ+":"+id, name, scope, map[string]bool{})
	})
	if got := w.lookup(t, c, r); !slices.Equal(got, want) {
		t.Fatalf("in the scope %v %s has %s on %v, want %v\n%s", scope, subject(s), name, got, want, w)
	}
}

// lookup returns the entities of all pages, sorted.
func (w *naive) lookup(t *testing.T, c *clients, r *permifypb.PermissionLookupEntityRequest) []string {
	t.Helper()
	var got []string
	for {
		out, err := c.permit.LookupEntity(t.Context(), r)
		if err != nil {
			t.Fatalf("%s of %s: %v\n%s", r.Permission, subject(r.Subject), err, w)
		}
		got = append(got, out.EntityIds...)
		if r.ContinuousToken = out.ContinuousToken; r.ContinuousToken == "" {
			slices.Sort(got)
			return got
		}
	}
}

// worldScopes are the scopes of lookups.
var worldScopes = []map[string][]string{
	{"doc": {"0", "3"}}, {"folder": {"1", "2"}}, {"group": {"1"}}, {"folder": {"0", "1"}, "group": {"2", "3"}}, {"user": {"1"}},
	{"doc": {"1", "2"}, "group": {"0", "2"}}, {"folder": {}}, {"group": {}, "user": {}}, {"doc": {}}, {"nothing": {"1"}},
}

// isCandidate reports whether the search for entities reaches an object: by any
// operand of an operator, and only by tuples and attributes of objects in the
// scope. open is as in visit.
func (w *naive) isCandidate(u, object, name string, scope map[string][]string, open map[string]bool) bool {
	return w.visit(u, object, name, open, func(key, typ, id string, st *language.Statement) bool {
		ids, restricted := scope[typ]
		inScope := !restricted || slices.Contains(ids, id)
		switch st.Kind {
		case language.Attribute:
			return inScope && w.flags[object+"$"+name]
		case language.Permission:
			return w.isCandidateBy(u, object, st.Expr, inScope, scope, open)
		}
		return inScope && slices.ContainsFunc(w.relations[key], func(s string) bool {
			o, r, isUserset := strings.Cut(s, "#")
			return s == u || isUserset && w.isCandidate(u, o, r, scope, open)
		})
	})
}

// isCandidateBy is isCandidate for an expression on an object.
func (w *naive) isCandidateBy(u, object string, e *language.Expr, inScope bool, scope map[string][]string, open map[string]bool) bool {
	switch {
	case e.Args != nil:
		return inScope
	case e.Left != nil:
		return w.isCandidateBy(u, object, e.Left, inScope, scope, open) || w.isCandidateBy(u, object, e.Right, inScope, scope, open)
	case len(e.Path) == 1:
		return w.isCandidate(u, object, e.Path[0], scope, open)
	}
	return inScope && slices.ContainsFunc(w.relations[object+"#"+e.Path[0]], func(s string) bool {
		o, _, _ := strings.Cut(s, "#")
		return w.isCandidate(u, o, e.Path[1], scope, open)
	})
}

// checkSubjects compares lookups of subjects. They list the users that have the
// permission, among those that occur in tuples.
func (w *naive) checkSubjects(t *testing.T, c *clients, typ, name, id string, context *permifypb.Context) {
	var want []string
	for _, u := range []string{"0", "1", "2", "3"} {
		if w.occursInTuple("user:"+u) && w.holds("user:"+u, typ+":"+id, name, map[string]bool{}) {
			want = append(want, u)
		}
	}
	out, err := c.permit.LookupSubject(t.Context(), &permifypb.PermissionLookupSubjectRequest{TenantId: "t1",
		Metadata: &permifypb.PermissionLookupSubjectRequestMetadata{Depth: 25}, Entity: &permifypb.Entity{Type: typ, Id: id}, Permission: name,
		Context: context, SubjectReference: &permifypb.RelationReference{Type: "user"}})
	if err != nil {
		t.Fatalf("%s of %s:%s: %v\n%s", name, typ, id, err, w)
	}
	if !slices.Equal(out.SubjectIds, want) {
		t.Fatalf("%s of %s:%s is %v, want %v\n%s", name, typ, id, out.SubjectIds, want, w)
	}
}

// occursInTuple reports whether u is the subject of a tuple.
func (w *naive) occursInTuple(u string) bool {
	for _, subjects := range w.relations {
		if slices.Contains(subjects, u) {
			return true
		}
	}
	return false
}

// String formats the world.
func (w *naive) String() string {
	return w.text + strings.Join(w.stored, "\n") + "\ncontextual:\n" + strings.Join(w.contextual, "\n")
}
