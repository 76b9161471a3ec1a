package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
)

// TestModels offers random models, most of them wrong in one way, to both:
// what one accepts the other must accept.
func TestModels(t *testing.T) {
	models, seed := setting(t, "OSTIARY_MODELS", 2_000), uint64(setting(t, "OSTIARY_SEED", 1))
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
	accepted, entrypoints := 0, 0
	for n := range models {
		g := &generator{Rand: rand.New(rand.NewPCG(seed+uint64(n), 0x6d6f64656c73))}
		g.drawModel()
		if n%4 != 0 { // the fourth is as it came
			g.drawValid()
			g.spoil()
		}
		w := &World{Seed: seed + uint64(n), Model: g.model}
		_, theirErr := theirs.Load(t.Context(), w)
		_, ourErr := ours.Load(t.Context(), w)
		if theirErr == nil {
			accepted++
		}
		switch {
		case (theirErr == nil) == (ourErr == nil):
		case ourErr == nil && strings.Contains(theirErr.Error(), "no entrypoints defined"):
			// Their search marks relations as seen for the branches beside, too,
			// and so finds none in "a from p or a from p".
			entrypoints++
		default:
			t.Errorf("seed %d: theirs: %v, ours: %v\n%s", w.Seed, theirErr, ourErr, w)
		}
	}
	t.Logf("%d of %d models accepted; of %d they miss the entrypoints", accepted, models, entrypoints)
	if entrypoints*100 > models {
		t.Errorf("they miss entrypoints in %d of %d models: too many to be an exception", entrypoints, models)
	}
}

// spoil makes one thing of a model wrong, or nothing.
func (g *generator) spoil() {
	d := g.model.GetTypeDefinitions()[2+g.IntN(len(g.types))]
	r := pick(g, g.relations[d.GetType()])
	meta := d.GetMetadata().GetRelations()[r]
	switch g.IntN(12) {
	case 0:
		meta.DirectlyRelatedUserTypes = append(meta.DirectlyRelatedUserTypes, &openfgav1.RelationReference{Type: "nobody"})
	case 1:
		meta.DirectlyRelatedUserTypes = nil
	case 2:
		meta.DirectlyRelatedUserTypes = append(meta.DirectlyRelatedUserTypes, &openfgav1.RelationReference{Type: "user", Condition: "undefined"})
	case 3:
		delete(d.GetRelations(), r)
	case 4:
		delete(d.GetMetadata().GetRelations(), r)
	case 5:
		g.model.TypeDefinitions = append(g.model.TypeDefinitions, &openfgav1.TypeDefinition{Type: d.GetType()})
	case 6:
		d.GetRelations()[r] = &openfgav1.Userset{Userset: &openfgav1.Userset_ComputedUserset{ComputedUserset: &openfgav1.ObjectRelation{Relation: r}}}
	case 7:
		g.model.Conditions["small"].Expression = pick(g, []string{"x", "x <", "y < 5", "x < 'a'", "true"})
	case 8:
		g.model.Conditions["extra"] = &openfgav1.Condition{Name: pick(g, []string{"extra", "other"}), Expression: "true"}
	case 9:
		meta.DirectlyRelatedUserTypes = append(meta.DirectlyRelatedUserTypes, &openfgav1.RelationReference{
			Type: "user", RelationOrWildcard: &openfgav1.RelationReference_Wildcard{Wildcard: &openfgav1.Wildcard{}},
		})
	case 10:
		g.model.SchemaVersion = pick(g, []string{"1.0", "1.1", "1.2", "1.3"})
	}
}

// TestConditionValues stores and asks every value with every type of
// parameter: both must accept the same ones, and answer alike.
func TestConditionValues(t *testing.T) {
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
	answers, beyond := map[string]int{}, 0
	for _, typ := range parameterTypes() {
		for i, value := range values(t) {
			stored := conditionWorld(typ, uint64(i))
			stored.Stored[0].Condition.Context = value
			asked := conditionWorld(typ, uint64(i))
			asked.Context = value
			both := conditionWorld(typ, uint64(i))
			both.Stored[0].Condition.Context, both.Context = value, values(t)[0]
			for _, w := range []*World{stored, asked, both} {
				a, b := playOne(t, theirs, w), playOne(t, ours, w)
				answers[fmt.Sprint(a.Code, a.Allowed)]++
				switch {
				case a.Equal(b):
				case extreme(value):
					beyond++
				default:
					t.Errorf("%s with %v stored and %v asked: theirs %v, ours %v",
						typ.source, w.Stored[0].GetCondition().GetContext().AsMap(), w.Context.AsMap(), a, b)
				}
			}
		}
	}
	t.Logf("answers: %v, %d differ on numbers beyond 2^53", answers, beyond)
}

// playOne loads a world and asks its one question; a refused load is an
// answer too.
func playOne(t *testing.T, s Side, w *World) Answer {
	p, err := s.Load(t.Context(), w)
	if err != nil {
		return listed(nil, err)
	}
	return s.Ask(t.Context(), p, w, w.Questions[0])
}
