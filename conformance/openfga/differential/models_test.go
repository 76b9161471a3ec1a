package differential

import (
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
			// Their search marks relations as seen for the other branches, too,
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
