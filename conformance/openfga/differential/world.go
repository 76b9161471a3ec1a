// Package differential asks OpenFGA, embedded in this process, and the library
// the same questions on random worlds. It explains each difference, or fails. Its
// main types are [World] and [Report]. Only its own tests use it.
package differential

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/openfga/openfga/pkg/typesystem"
)

// World is a model with tuples and questions.
type World struct {
	// Seed is what the world was drawn from.
	Seed uint64
	// Model is the model of the store.
	Model *openfgav1.AuthorizationModel
	// Stored are the tuples of the store.
	Stored []*openfgav1.TupleKey
	// Contextual and Context come with each question.
	Contextual []*openfgav1.TupleKey
	Context    *structpb.Struct
	// Questions are asked in this order.
	Questions []Question
}

// Kind is the call of a [Question].
type Kind uint8

// The kinds, named as the calls.
const (
	Check Kind = iota
	ListObjects
	ListUsers
)

// String returns the call's name.
func (k Kind) String() string { return [...]string{"check", "list-objects", "list-users"}[k] }

// Question is one call. Check uses Object and User, ListObjects Type and User,
// ListUsers Object, Type and UserRelation.
type Question struct {
	// Kind is the call.
	Kind Kind
	// Object is "type:id".
	Object string
	// Relation is what all calls ask for.
	Relation string
	// User is "type:id", "type:*" or "type:id#relation".
	User string
	// Type is the type of the objects or users to list.
	Type string
	// UserRelation makes the users to list usersets, if it is not "".
	UserRelation string
}

func (q Question) String() string {
	switch q.Kind {
	case ListObjects:
		return fmt.Sprintf("list-objects %s of %s for %s", q.Type, q.Relation, q.User)
	case ListUsers:
		return fmt.Sprintf("list-users %s#%s of %s for %s", q.Type, q.UserRelation, q.Relation, q.Object)
	}
	return fmt.Sprintf("check %s %s %s", q.User, q.Relation, q.Object)
}

// String prints a world for a reader who repeats it by hand.
func (w *World) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", w.Seed)
	for _, d := range w.Model.GetTypeDefinitions() {
		fmt.Fprintf(&b, "type %s\n", d.GetType())
		for _, r := range slices.Sorted(maps.Keys(d.GetRelations())) {
			fmt.Fprintf(&b, "  %s: %s\n", r, rewriteText(d.GetRelations()[r], d.GetMetadata().GetRelations()[r]))
		}
	}
	for _, t := range w.Stored {
		fmt.Fprintf(&b, "stored     %s\n", tupleText(t))
	}
	for _, t := range w.Contextual {
		fmt.Fprintf(&b, "contextual %s\n", tupleText(t))
	}
	fmt.Fprintf(&b, "context %v\n", w.Context.AsMap())
	return b.String()
}

// rewriteText prints a rewrite. Unlike the DSL it prints direct tuples anywhere.
func rewriteText(r *openfgav1.Userset, meta *openfgav1.RelationMetadata) string {
	both := func(op string, children ...*openfgav1.Userset) string {
		var parts []string
		for _, c := range children {
			parts = append(parts, rewriteText(c, meta))
		}
		return "(" + strings.Join(parts, " "+op+" ") + ")"
	}
	switch u := r.GetUserset().(type) {
	case *openfgav1.Userset_ComputedUserset:
		return u.ComputedUserset.GetRelation()
	case *openfgav1.Userset_TupleToUserset:
		return u.TupleToUserset.GetComputedUserset().GetRelation() + " from " + u.TupleToUserset.GetTupleset().GetRelation()
	case *openfgav1.Userset_Union:
		return both("or", u.Union.GetChild()...)
	case *openfgav1.Userset_Intersection:
		return both("and", u.Intersection.GetChild()...)
	case *openfgav1.Userset_Difference:
		return both("but not", u.Difference.GetBase(), u.Difference.GetSubtract())
	}
	var refs []string
	for _, ref := range meta.GetDirectlyRelatedUserTypes() {
		text := ref.GetType()
		if ref.GetWildcard() != nil {
			text += ":*"
		} else if ref.GetRelation() != "" {
			text += "#" + ref.GetRelation()
		}
		if ref.GetCondition() != "" {
			text += " with " + ref.GetCondition()
		}
		refs = append(refs, text)
	}
	return "[" + strings.Join(refs, ", ") + "]"
}

func tupleText(t *openfgav1.TupleKey) string {
	s := t.GetObject() + "#" + t.GetRelation() + "@" + t.GetUser()
	if c := t.GetCondition(); c != nil {
		s += fmt.Sprintf(" with %s %v", c.GetName(), c.GetContext().AsMap())
	}
	return s
}

// Sizes of worlds.
const (
	idsMax       = 3
	tuplesMax    = 40
	checksOf     = 14
	listsOf      = 3
	modelTries   = 500
	contextShare = 0.25 // of the tuples
)

// generator draws a world from a seed.
type generator struct {
	*rand.Rand
	types []string
	// relations by type; tuplesets begin with 'p'.
	relations map[string][]string
	// direct is set if the relation that is being built reads its own tuples.
	direct bool
	model  *openfgav1.AuthorizationModel
}

// Generate draws the world of a seed, always the same one. OpenFGA accepts its
// model.
func Generate(seed uint64) *World {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x6f70656e666761))}
	g.drawValid()
	w := &World{Seed: seed, Model: g.model, Context: g.requestContext()}
	seen := map[string]bool{}
	for n := 2 + g.IntN(tuplesMax-1); n > 0; n-- {
		t := g.drawTuple()
		if t == nil || seen[tupleText(&openfgav1.TupleKey{Object: t.Object, Relation: t.Relation, User: t.User})] {
			continue
		}
		seen[tupleText(&openfgav1.TupleKey{Object: t.Object, Relation: t.Relation, User: t.User})] = true
		if g.Float64() < contextShare {
			w.Contextual = append(w.Contextual, t)
		} else {
			w.Stored = append(w.Stored, t)
		}
	}
	w.Questions = g.questions(append(slices.Clone(w.Stored), w.Contextual...))
	return w
}

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// drawValid draws models until OpenFGA accepts one.
func (g *generator) drawValid() {
	for range modelTries {
		g.drawModel()
		if _, err := typesystem.NewAndValidate(context.Background(), g.model); err == nil {
			return
		}
	}
	panic(fmt.Sprintf("no valid model in %d tries", modelTries))
}

// drawModel draws types "user" and "bot" without relations, and one to three
// others with some.
func (g *generator) drawModel() {
	g.types = []string{"group", "folder", "doc"}[:1+g.IntN(3)]
	g.relations = map[string][]string{}
	for _, t := range g.types {
		for i := range 1 + g.IntN(2) {
			g.relations[t] = append(g.relations[t], fmt.Sprintf("p%d", i))
		}
		for i := range 2 + g.IntN(3) {
			g.relations[t] = append(g.relations[t], fmt.Sprintf("r%d", i))
		}
	}
	g.model = &openfgav1.AuthorizationModel{
		Id: "01ARZ3NDEKTSV4RRFFQ69G5FAV", SchemaVersion: "1.1", Conditions: conditions(),
		TypeDefinitions: []*openfgav1.TypeDefinition{{Type: "user"}, {Type: "bot"}},
	}
	for _, t := range g.types {
		d := &openfgav1.TypeDefinition{
			Type: t, Relations: map[string]*openfgav1.Userset{},
			Metadata: &openfgav1.Metadata{Relations: map[string]*openfgav1.RelationMetadata{}},
		}
		for _, r := range g.relations[t] {
			meta := &openfgav1.RelationMetadata{}
			if r[0] == 'p' {
				d.Relations[r] = this()
				meta.DirectlyRelatedUserTypes = g.tuplesetTypes()
			} else {
				g.direct = false
				d.Relations[r] = g.rewrite(t, r, 0)
				if g.direct {
					meta.DirectlyRelatedUserTypes = g.subjectTypes()
				}
			}
			d.Metadata.Relations[r] = meta
		}
		g.model.TypeDefinitions = append(g.model.TypeDefinitions, d)
	}
}

// conditions are the same in every world: one parameter, another, and both.
func conditions() map[string]*openfgav1.Condition {
	integer := &openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TYPE_NAME_INT}
	text := &openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING}
	return map[string]*openfgav1.Condition{
		"small": {Name: "small", Expression: "x < 5", Parameters: map[string]*openfgav1.ConditionParamTypeRef{"x": integer}},
		"named": {Name: "named", Expression: "s == 'a'", Parameters: map[string]*openfgav1.ConditionParamTypeRef{"s": text}},
		"both":  {Name: "both", Expression: "x < 5 || s == 'a'", Parameters: map[string]*openfgav1.ConditionParamTypeRef{"x": integer, "s": text}},
	}
}

func this() *openfgav1.Userset {
	return &openfgav1.Userset{Userset: &openfgav1.Userset_This{This: &openfgav1.DirectUserset{}}}
}

// rewrite draws a rewrite of at most three levels.
func (g *generator) rewrite(typ, self string, depth int) *openfgav1.Userset {
	if depth < 2 && g.chance(0.4) {
		children := []*openfgav1.Userset{g.rewrite(typ, self, depth+1), g.rewrite(typ, self, depth+1)}
		switch g.IntN(5) {
		case 0, 1, 2:
			return &openfgav1.Userset{Userset: &openfgav1.Userset_Union{Union: &openfgav1.Usersets{Child: children}}}
		case 3:
			return &openfgav1.Userset{Userset: &openfgav1.Userset_Intersection{Intersection: &openfgav1.Usersets{Child: children}}}
		}
		return &openfgav1.Userset{Userset: &openfgav1.Userset_Difference{Difference: &openfgav1.Difference{Base: children[0], Subtract: children[1]}}}
	}
	switch n := g.IntN(10); {
	case n < 6 && !g.direct:
		g.direct = true
		return this()
	case n < 8:
		return g.arrow(typ)
	}
	other := pick(g, g.relations[typ])
	if other == self || other[0] == 'p' {
		return g.arrow(typ)
	}
	return &openfgav1.Userset{Userset: &openfgav1.Userset_ComputedUserset{ComputedUserset: &openfgav1.ObjectRelation{Relation: other}}}
}

func (g *generator) arrow(typ string) *openfgav1.Userset {
	tupleset := "p0"
	if g.relations[typ][1] == "p1" && g.chance(0.3) {
		tupleset = "p1"
	}
	return &openfgav1.Userset{Userset: &openfgav1.Userset_TupleToUserset{TupleToUserset: &openfgav1.TupleToUserset{
		Tupleset:        &openfgav1.ObjectRelation{Relation: tupleset},
		ComputedUserset: &openfgav1.ObjectRelation{Relation: fmt.Sprintf("r%d", g.IntN(4))},
	}}}
}

func (g *generator) tuplesetTypes() []*openfgav1.RelationReference {
	var out []*openfgav1.RelationReference
	for range 1 + g.IntN(2) {
		ref := &openfgav1.RelationReference{Type: pick(g, g.types)}
		if g.chance(0.1) {
			ref.Condition = pick(g, []string{"small", "named", "both"})
		}
		out = append(out, ref)
	}
	return distinct(out)
}

func (g *generator) subjectTypes() []*openfgav1.RelationReference {
	var out []*openfgav1.RelationReference
	for range 1 + g.IntN(4) {
		ref := &openfgav1.RelationReference{Type: "user"}
		switch n := g.IntN(10); {
		case n < 3:
		case n < 4:
			ref.Type = "bot"
		case n < 6:
			if g.chance(0.2) {
				ref.Type = "bot"
			}
			ref.RelationOrWildcard = &openfgav1.RelationReference_Wildcard{Wildcard: &openfgav1.Wildcard{}}
		case n < 9:
			ref.Type = pick(g, g.types)
			r := pick(g, g.relations[ref.Type])
			ref.RelationOrWildcard = &openfgav1.RelationReference_Relation{Relation: r}
		default:
			ref.Type = pick(g, g.types)
		}
		if g.chance(0.15) {
			ref.Condition = pick(g, []string{"small", "named", "both"})
		}
		out = append(out, ref)
	}
	return distinct(out)
}

func distinct(refs []*openfgav1.RelationReference) []*openfgav1.RelationReference {
	var out []*openfgav1.RelationReference
	seen := map[string]bool{}
	for _, r := range refs {
		if key := r.String(); !seen[key] {
			seen[key] = true
			out = append(out, r)
		}
	}
	return out
}

func (g *generator) id() string { return fmt.Sprint(1 + g.IntN(idsMax)) }

// drawTuple draws one that the model admits, or nil.
func (g *generator) drawTuple() *openfgav1.TupleKey {
	d := g.model.GetTypeDefinitions()[2+g.IntN(len(g.types))]
	relation := pick(g, g.relations[d.GetType()])
	refs := d.GetMetadata().GetRelations()[relation].GetDirectlyRelatedUserTypes()
	if len(refs) == 0 {
		return nil
	}
	ref := pick(g, refs)
	t := &openfgav1.TupleKey{Object: d.GetType() + ":" + g.id(), Relation: relation, User: ref.GetType() + ":" + g.id()}
	switch {
	case ref.GetWildcard() != nil:
		t.User = ref.GetType() + ":*"
	case ref.GetRelation() != "":
		t.User += "#" + ref.GetRelation()
	}
	if t.User == t.Object+"#"+t.Relation {
		return nil // there already; the server refuses duplicates
	}
	if name := ref.GetCondition(); name != "" {
		t.Condition = &openfgav1.RelationshipCondition{Name: name, Context: g.values(name)}
	}
	return t
}

// values draws some of a condition's parameters.
func (g *generator) values(condition string) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	if condition != "named" && g.chance(0.3) {
		fields["x"] = structpb.NewNumberValue(float64(g.IntN(10)))
	}
	if condition != "small" && g.chance(0.3) {
		fields["s"] = structpb.NewStringValue(pick(g, []string{"a", "b"}))
	}
	return &structpb.Struct{Fields: fields}
}

// requestContext is whole in most worlds: missing values end a question early.
func (g *generator) requestContext() *structpb.Struct {
	fields := map[string]*structpb.Value{}
	if g.chance(0.8) {
		fields["x"] = structpb.NewNumberValue(float64(g.IntN(10)))
	}
	if g.chance(0.8) {
		fields["s"] = structpb.NewStringValue(pick(g, []string{"a", "b"}))
	}
	return &structpb.Struct{Fields: fields}
}

func (g *generator) user(tuples []*openfgav1.TupleKey) string {
	switch n := g.IntN(20); {
	case n < 12:
		return "user:" + g.id()
	case n < 14:
		return pick(g, []string{"user:*", "bot:1", "bot:2"})
	case n < 17 && len(tuples) > 0:
		return pick(g, tuples).GetUser()
	}
	t := pick(g, g.types)
	return t + ":" + g.id() + "#" + pick(g, g.relations[t])
}

// questions are mostly about objects that have tuples.
func (g *generator) questions(tuples []*openfgav1.TupleKey) []Question {
	var out []Question
	for i := range checksOf + 2*listsOf {
		t := pick(g, g.types)
		object := t + ":" + g.id()
		if len(tuples) > 0 && g.chance(0.7) {
			object = pick(g, tuples).GetObject()
			t, _, _ = strings.Cut(object, ":")
		}
		q := Question{Relation: pick(g, g.relations[t][1:])}
		user := g.user(tuples)
		switch {
		case i < checksOf:
			q.Object, q.User = object, user
		case i < checksOf+listsOf:
			q.Kind, q.Type, q.User = ListObjects, t, user
		default:
			q.Kind, q.Object = ListUsers, object
			user, q.UserRelation, _ = strings.Cut(user, "#")
			q.Type, _, _ = strings.Cut(user, ":")
		}
		out = append(out, q)
	}
	return out
}
