package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestWrites sends both the same random writes, many of them wrong: each must
// be accepted or refused by both with one code, and leave both with the same
// tuples.
func TestWrites(t *testing.T) {
	writes, seed := setting(t, "OSTIARY_WRITES", 3_000), uint64(setting(t, "OSTIARY_SEED", 1))
	ours, err := Ours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := Theirs()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	w := writesWorld()
	at, err := theirs.Load(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	of, err := ours.Load(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x777269746573))}
	codes := map[string]int{}
	for i := range writes {
		req := g.drawWrite()
		a, b := listed(nil, theirs.Send(t.Context(), at, req)), listed(nil, ours.Send(t.Context(), of, req))
		codes[fmt.Sprint(uint32(a.Code))]++
		if a.Code != b.Code {
			t.Fatalf("seed %d, write %d: theirs %v, ours %v\n%v", seed, i, a, b, req)
		}
		if i%20 != 0 {
			continue
		}
		for _, q := range writesQuestions() {
			if a, b := theirs.Ask(t.Context(), at, w, q), ours.Ask(t.Context(), of, w, q); !a.Equal(b) {
				t.Fatalf("seed %d, after write %d: %v: theirs %v, ours %v\n%v", seed, i, q, a, b, req)
			}
		}
	}
	t.Logf("%d writes, by code: %v", writes, codes)
}

// writesWorld has a relation of every form of restriction.
func writesWorld() *World {
	wild := &openfgav1.RelationReference_Wildcard{Wildcard: &openfgav1.Wildcard{}}
	return &World{
		Model: &openfgav1.AuthorizationModel{
			SchemaVersion: "1.1", Conditions: conditions(),
			TypeDefinitions: []*openfgav1.TypeDefinition{{Type: "user"}, {
				Type:      "doc",
				Relations: map[string]*openfgav1.Userset{"viewer": this(), "parent": this(), "sees": {Userset: &openfgav1.Userset_ComputedUserset{ComputedUserset: &openfgav1.ObjectRelation{Relation: "viewer"}}}},
				Metadata: &openfgav1.Metadata{Relations: map[string]*openfgav1.RelationMetadata{
					"viewer": {DirectlyRelatedUserTypes: []*openfgav1.RelationReference{
						{Type: "user"}, {Type: "user", Condition: "small"}, {Type: "user", RelationOrWildcard: wild, Condition: "named"},
						{Type: "doc", RelationOrWildcard: &openfgav1.RelationReference_Relation{Relation: "parent"}},
					}},
					"parent": {DirectlyRelatedUserTypes: []*openfgav1.RelationReference{{Type: "doc"}}},
				}},
			}},
		},
		Context: &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewNumberValue(1), "s": structpb.NewStringValue("a")}},
	}
}

func writesQuestions() []Question {
	var out []Question
	for _, object := range []string{"doc:1", "doc:2"} {
		for _, user := range []string{"user:1", "user:2", "user:*", "doc:1#parent", "doc:2#parent", "doc:1", "doc:2"} {
			for _, relation := range []string{"viewer", "parent"} {
				out = append(out, Question{Kind: Check, Object: object, Relation: relation, User: user})
			}
		}
	}
	return out
}

// drawWrite draws a request of up to three tuples each way.
func (g *generator) drawWrite() *openfgav1.WriteRequest {
	req := &openfgav1.WriteRequest{}
	var keys []*openfgav1.TupleKey
	for range g.IntN(4) {
		keys = append(keys, g.drawKey())
	}
	if keys != nil {
		req.Writes = &openfgav1.WriteRequestWrites{TupleKeys: keys, OnDuplicate: pick(g, []string{"", "", "error", "ignore", "ignore", "replace"})}
	}
	var deletes []*openfgav1.TupleKeyWithoutCondition
	for range g.IntN(3) {
		k := g.drawKey()
		if object := k.GetObject(); object == "" || strings.HasSuffix(object, ":") || k.GetRelation() == "" {
			continue // to their memory datastore a pattern, which removes all that match
		}
		deletes = append(deletes, &openfgav1.TupleKeyWithoutCondition{Object: k.GetObject(), Relation: k.GetRelation(), User: k.GetUser()})
	}
	if deletes != nil {
		req.Deletes = &openfgav1.WriteRequestDeletes{TupleKeys: deletes, OnMissing: pick(g, []string{"", "ignore", "ignore", "ignore", "replace"})}
	}
	return req
}

// drawKey draws a tuple of a small space; one in ten is malformed.
func (g *generator) drawKey() *openfgav1.TupleKey {
	t := &openfgav1.TupleKey{
		Object: pick(g, []string{"doc:1", "doc:2"}), Relation: pick(g, []string{"viewer", "viewer", "viewer", "parent"}),
		User: pick(g, []string{"user:1", "user:2", "user:*", "doc:1#parent", "doc:2#parent"}),
	}
	if t.Relation == "parent" {
		t.User = pick(g, []string{"doc:1", "doc:2"})
	}
	if t.User == "user:*" || strings.HasPrefix(t.User, "user") && g.chance(0.3) {
		name := "small"
		if t.User == "user:*" {
			name = "named"
		}
		t.Condition = &openfgav1.RelationshipCondition{Name: name, Context: g.values(name)}
	}
	if !g.chance(0.1) {
		return t
	}
	field := pick(g, []*string{&t.Object, &t.Relation, &t.User})
	*field = pick(g, []string{
		"", "x", "doc", "doc:", ":1", "doc:*", "user:1", "nobody:1", "sees", "doc:1#sees", "doc:1#nothing", "doc:1#", "#viewer",
		"doc:a:b", "doc:a b", "doc:1@2", "user:a#b#viewer", "doc:é", "user:\x01", "*", "doc:*#viewer", strings.Repeat("d", 60), "doc:" + strings.Repeat("i", 300), "user:" + strings.Repeat("u", 600),
	})
	if g.chance(0.3) {
		t.Condition = &openfgav1.RelationshipCondition{Name: pick(g, []string{"small", "unknown", "$expression", "both"})}
	}
	return t
}

// TestNames checks names of every form, as object, relation and user.
func TestNames(t *testing.T) {
	ours, err := Ours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := Theirs()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	w := writesWorld()
	at, err := theirs.Load(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	of, err := ours.Load(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{
		"", "x", "doc", "doc:", ":1", ":", "doc:1", "doc:*", "user:1", "user:*", "nobody:1", "nobody:*", "viewer", "sees", "nothing",
		"doc:1#sees", "doc:1#nothing", "doc:1#", "#viewer", "doc:1#viewer#viewer", "doc:a:b", "doc:a b", "doc:1 ", " doc:1", "doc:1@2", "user:a@b.c",
		"user:a#b#viewer", "doc:é", "user:\x01", "user:\u00a0", "user:\u200b", "*", "**", "doc:*#viewer", "doc:**", "nobody:1#viewer", "a@b", "a:b@c",
		strings.Repeat("r", 50), strings.Repeat("r", 51), "doc:" + strings.Repeat("i", 252), "doc:" + strings.Repeat("i", 253), "user:" + strings.Repeat("u", 507), "user:" + strings.Repeat("u", 508),
	}
	for _, name := range names {
		for _, q := range []Question{
			{Kind: Check, Object: name, Relation: "viewer", User: "user:1"},
			{Kind: Check, Object: "doc:1", Relation: name, User: "user:1"},
			{Kind: Check, Object: "doc:1", Relation: "viewer", User: name},
			{Kind: ListObjects, Type: name, Relation: "viewer", User: "user:1"},
			{Kind: ListObjects, Type: "doc", Relation: name, User: "user:1"},
			{Kind: ListObjects, Type: "doc", Relation: "viewer", User: name},
			{Kind: ListUsers, Object: name, Relation: "viewer", Type: "user"},
			{Kind: ListUsers, Object: "doc:1", Relation: name, Type: "user"},
			{Kind: ListUsers, Object: "doc:1", Relation: "viewer", Type: name},
			{Kind: ListUsers, Object: "doc:1", Relation: "viewer", Type: "doc", UserRelation: name},
		} {
			a, b := theirs.Ask(t.Context(), at, w, q), ours.Ask(t.Context(), of, w, q)
			if q.Kind == ListUsers && q.UserRelation != "" {
				plain := func(x string) bool { return !strings.Contains(x, "#") }
				a.List = slices.DeleteFunc(slices.Clone(a.List), plain)
			}
			if !a.Equal(b) {
				t.Errorf("%q in %v: theirs %v, ours %v", name, q, a, b)
			}
		}
	}
}
