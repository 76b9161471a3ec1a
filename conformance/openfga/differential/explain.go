package differential

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
)

// Class is a reason for a difference between the two answers. README.md describes
// each.
type Class string

// The classes. "They" are OpenFGA.
const (
	// Unexplained fails the run.
	Unexplained Class = "unexplained"
	// Unstable: they answer differently when they are asked again.
	Unstable Class = "their answer is not stable"
	// OwnList: their list contradicts their own checks, which agree with ours.
	OwnList Class = "their list contradicts their checks"
	// SubtractedCycle: the subtracted side of an exclusion reaches a cycle, and their
	// check denies every user.
	SubtractedCycle Class = "cycle inside a subtracted set"
	// IdleContext: they fail for missing context although they give our answer with
	// every choice of the missing values.
	IdleContext Class = "they fail for context that does not matter"
	// LostToContext: with missing context they give another answer and no error,
	// although they give ours with every choice of the missing values.
	LostToContext Class = "they lose an answer to context that does not matter"
	// IdleContextOurs: we fail for missing context although they give the same answer
	// with every choice of the missing values.
	IdleContextOurs Class = "ours fails for context that does not matter to them"
	// OpenContext: they answer although their answer depends on the missing values; we
	// fail.
	OpenContext Class = "they answer though missing context matters"
	// RecursiveMix: their strategies for recursive relations follow a userset of
	// another relation, or a parent of another type, as if it belonged to the
	// recursive relation.
	RecursiveMix Class = "their recursion follows what is not recursive"
	// ContextualTuples: they give our answer if the contextual tuples are stored.
	ContextualTuples Class = "their contextual tuples are not as stored ones"
	// FilterRelation: their list of users has plain objects although the filter asks
	// for usersets. Without them it equals ours.
	FilterRelation Class = "their list ignores its filter's relation"
	// DepthCounted: they count computed relations as hops and reach their bound.
	DepthCounted Class = "their depth bound counts computed relations"
)

const (
	codeValidation = codes.Code(openfgav1.ErrorCode_validation_error)
	codeTooComplex = codes.Code(openfgav1.ErrorCode_authorization_model_resolution_too_complex)
	// repeats is how often they are asked again. Rare answers came once in 50 times.
	repeats = 200
)

// pair is a world loaded on both sides.
type pair struct {
	w            *World
	theirs, ours Side
	at, of       Place // where the world is: theirs, ours
}

// explain returns the class of a difference, and a detail.
func (p *pair) explain(ctx context.Context, q Question, theirs, ours Answer) (Class, string) {
	class, why := p.reason(ctx, q, theirs, ours)
	if class != Unexplained {
		return class, why
	}
	for range repeats {
		again := p.theirs.Ask(ctx, p.at, p.w, q)
		if !again.Equal(theirs) {
			return Unstable, fmt.Sprintf("%v, then %v", theirs, again)
		}
	}
	return class, why
}

// reason is like explain for answers that are stable.
func (p *pair) reason(ctx context.Context, q Question, theirs, ours Answer) (Class, string) {
	switch {
	case theirs.Code == codeTooComplex && ours.Code == 0:
		return DepthCounted, ""
	case theirs.Code == codeValidation && ours.Code == 0:
		if same, _ := p.whatever(ctx, q, ours); same {
			return IdleContext, theirs.Message
		}
	case ours.Code == codeValidation && theirs.Code == 0:
		if same, other := p.whatever(ctx, q, theirs); !same {
			return OpenContext, fmt.Sprintf("%v, but with other values %v", theirs, other)
		}
		return IdleContextOurs, ours.Message
	case theirs.Code == 0 && ours.Code == 0:
		return p.members(ctx, q, theirs, ours)
	}
	return Unexplained, ""
}

// members explains the difference of two answers without errors.
func (p *pair) members(ctx context.Context, q Question, theirs, ours Answer) (Class, string) {
	if q.Kind == Check {
		if p.mixes(ctx, q, theirs) {
			return RecursiveMix, ""
		}
		if p.stores(ctx, q, ours) {
			return ContextualTuples, ""
		}
		if p.lacks() {
			if same, _ := p.whatever(ctx, q, ours); same {
				return LostToContext, ""
			}
		}
		if dependenciesOf(p.w).subtractsCycle(q.Object + "#" + q.Relation) {
			return SubtractedCycle, ""
		}
		return Unexplained, ""
	}
	class := OwnList
	if q.Kind == ListUsers && q.UserRelation != "" {
		theirs.List = slices.DeleteFunc(slices.Clone(theirs.List), func(x string) bool { return !strings.Contains(x, "#") })
		class = FilterRelation
	}
	for _, x := range difference(theirs.List, ours.List) {
		check := Question{Kind: Check, Object: q.Object, Relation: q.Relation, User: x}
		if q.Kind == ListObjects {
			check.Object, check.User = x, q.User
		}
		own, mine := p.theirs.Ask(ctx, p.at, p.w, check), p.ours.Ask(ctx, p.of, p.w, check)
		if mine.Code != 0 || mine.Allowed != slices.Contains(ours.List, x) {
			return Unexplained, fmt.Sprintf("our list contradicts our %v: %v", check, mine)
		}
		if own.Equal(mine) {
			continue
		}
		c, why := p.explain(ctx, check, own, mine)
		if c == Unexplained {
			return c, fmt.Sprintf("%v: %v, ours %v %s", check, own, mine, why)
		}
		class = c
	}
	return class, ""
}

// mixes reports whether we give their answer in the world as their recursive
// strategies see it.
func (p *pair) mixes(ctx context.Context, q Question, theirs Answer) bool {
	w := recursiveMix(p.w)
	if w == nil {
		return false
	}
	at, err := p.ours.Load(ctx, w)
	return err == nil && p.ours.Ask(ctx, at, w, q).Equal(theirs)
}

// stores reports whether they give our answer when all tuples are stored.
func (p *pair) stores(ctx context.Context, q Question, ours Answer) bool {
	if len(p.w.Contextual) == 0 {
		return false
	}
	w := *p.w
	w.Stored, w.Contextual = slices.Concat(w.Stored, w.Contextual), nil
	at, err := p.theirs.Load(ctx, &w)
	return err == nil && p.theirs.Ask(ctx, at, &w, q).Equal(ours)
}

func difference(a, b []string) []string {
	var out []string
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			out = append(out, x)
		}
	}
	return out
}

// whatever asks them with each choice of the values that the request lacks. It
// reports whether the answer always is want, and if not, returns one that is
// not. A different answer counts as want if ours is want and the difference has
// another class, which does not depend on context.
func (p *pair) whatever(ctx context.Context, q Question, want Answer) (bool, Answer) {
	for _, x := range []float64{0, 9} {
		for _, s := range []string{"a", "b"} {
			w := *p.w
			w.Context = &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewNumberValue(x), "s": structpb.NewStringValue(s)}}
			for name, v := range p.w.Context.GetFields() {
				w.Context.Fields[name] = v
			}
			got := p.theirs.Ask(ctx, p.at, &w, q)
			if got.Equal(want) {
				continue
			}
			whole := *p
			whole.w = &w
			ours := p.ours.Ask(ctx, p.of, &w, q)
			if class, _ := whole.members(ctx, q, got, ours); !ours.Equal(want) || got.Code != 0 || class == Unexplained {
				return false, got
			}
		}
	}
	return true, Answer{}
}

// lacks reports whether the request lacks a value of the two parameters.
func (p *pair) lacks() bool { return len(p.w.Context.GetFields()) < 2 }

// Report counts questions and differences of a run.
type Report struct {
	// Worlds and Questions count what was asked, and ByKind the questions by call.
	Worlds, Questions int
	ByKind            map[Kind]int
	// Allowed counts their answers that are true or a list with members, and Failed
	// their errors.
	Allowed, Failed int
	// Classes counts the differences.
	Classes map[Class]int
	// Examples has one difference of each class.
	Examples map[Class]string
	// Each, if not nil, is called with every difference.
	Each func(c Class, text string)
}

// String is the table of a report.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d worlds, %d questions", r.Worlds, r.Questions)
	for k := Check; k <= ListUsers; k++ {
		fmt.Fprintf(&b, ", %d %v", r.ByKind[k], k)
	}
	fmt.Fprintf(&b, "\nthey answered %.1f %% with yes or members, %.1f %% with an error\n",
		100*float64(r.Allowed)/float64(max(r.Questions, 1)), 100*float64(r.Failed)/float64(max(r.Questions, 1)))
	var classes []Class
	total := 0
	for c, n := range r.Classes {
		classes = append(classes, c)
		total += n
	}
	slices.Sort(classes)
	fmt.Fprintf(&b, "%d differences\n", total)
	for _, c := range classes {
		fmt.Fprintf(&b, "  %6d  %s (such as %s)\n", r.Classes[c], c, r.Examples[c])
	}
	return b.String()
}

// Play asks both sides all questions of a world and adds to r. It returns the
// unexplained differences.
func (r *Report) Play(ctx context.Context, w *World, theirs, ours Side) ([]string, error) {
	p := &pair{w: w, theirs: theirs, ours: ours}
	var err error
	if p.at, err = theirs.Load(ctx, w); err != nil {
		return nil, fmt.Errorf("theirs: %w", err)
	}
	if p.of, err = ours.Load(ctx, w); err != nil {
		return nil, fmt.Errorf("ours: %w", err)
	}
	var bad []string
	r.Worlds++
	for _, q := range w.Questions {
		a, b := theirs.Ask(ctx, p.at, w, q), ours.Ask(ctx, p.of, w, q)
		r.Questions++
		r.ByKind[q.Kind]++
		if a.Code != 0 {
			r.Failed++
		} else if a.Allowed || len(a.List) > 0 {
			r.Allowed++
		}
		if a.Equal(b) {
			continue
		}
		class, why := p.explain(ctx, q, a, b)
		r.Classes[class]++
		text := fmt.Sprintf("seed %d, %v: theirs %v, ours %v %s", w.Seed, q, a, b, why)
		if r.Examples[class] == "" {
			r.Examples[class] = text
		}
		if r.Each != nil {
			r.Each(class, text)
		}
		if class == Unexplained {
			bad = append(bad, text)
		}
	}
	return bad, nil
}
