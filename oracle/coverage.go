package oracle

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Coverage counts what random worlds have shown. It is used by one goroutine;
// Add joins several.
type Coverage struct {
	Worlds, Invalid int
	Checks, Lists   int
	Truths          [3]int // by expr.Truth
	Reasons         [reasonCount]int
	Cycles          [3]int // worlds, by the worst schema.CycleClass of a recursive relation
	Cells           [rewriteCount][featureCount]int
}

// rewrite numbers the rows of the table: a schema.Op, and a hidden expression
// under an arrow.
const (
	rewriteHidden = int(schema.OpRule) + 1
	rewriteCount  = rewriteHidden + 1
)

// The columns: what else the world of a question has.
const (
	featureAll = iota
	featureTrue
	featureUnknown
	featureWildcard
	featureUserset
	featureUsersetSubject
	featureCondition
	featureOpenCondition
	featureContextual
	featureReplaced
	featureExpired
	featureStale
	featureNegativeCycle
	featureNamespace
	featureStar
	featureZero
	featureFails
	featureVersions   // asked of a store with several schemas, once a question and turn
	featureNamespaces // asked there of another namespace than the world's
	featureCount
)

var featureNames = [featureCount]string{"all", "true", "unknown", "wildcard", "userset", "subject#", "condition",
	"open", "contextual", "replaced", "expired", "stale", "negcycle", "namespace", "star", "zero", "fails", "versions", "namespaces"}

// The reasons of unknown answers.
const (
	reasonMissing = iota
	reasonError
	reasonCycle
	reasonBound
	reasonCount
)

var reasonNames = [reasonCount]string{"missing", "error", "cycle", "bound"}

// Add adds o to c.
func (c *Coverage) Add(o *Coverage) {
	c.Worlds, c.Invalid, c.Checks, c.Lists = c.Worlds+o.Worlds, c.Invalid+o.Invalid, c.Checks+o.Checks, c.Lists+o.Lists
	for i := range c.Truths {
		c.Truths[i] += o.Truths[i]
		c.Cycles[i] += o.Cycles[i]
	}
	for i := range c.Reasons {
		c.Reasons[i] += o.Reasons[i]
	}
	for i := range c.Cells {
		for j := range c.Cells[i] {
			c.Cells[i][j] += o.Cells[i][j]
		}
	}
}

// String prints the table: a row for each rewrite, a column for each feature,
// and in the cell the checks.
func (c *Coverage) String() string {
	var b strings.Builder
	total := max(1, c.Checks)
	fmt.Fprintf(&b, "%d worlds (and %d models that do not compile), %d checks, %d lists\n", c.Worlds, c.Invalid, c.Checks, c.Lists)
	fmt.Fprintf(&b, "answers: %.1f %% true, %.1f %% false, %.1f %% unknown\n", 100*float64(c.Truths[expr.True])/float64(total),
		100*float64(c.Truths[expr.False])/float64(total), 100*float64(c.Truths[expr.Unknown])/float64(total))
	fmt.Fprintf(&b, "unknown because of:")
	for i, n := range c.Reasons {
		fmt.Fprintf(&b, " %s %d", reasonNames[i], n)
	}
	fmt.Fprintf(&b, "\nworlds by the worst cycle of their schema: unions %d, intersection or base %d, subtracted %d\n",
		c.Cycles[schema.CyclePlain], c.Cycles[schema.CycleMixed], c.Cycles[schema.CycleNegative])
	fmt.Fprintf(&b, "%-14s", "checks")
	for _, name := range featureNames {
		fmt.Fprintf(&b, "%11s", name)
	}
	for op := int(schema.OpDirect); op < rewriteCount; op++ {
		name := "hidden"
		if op != rewriteHidden {
			name = schema.Op(op).String()
		}
		fmt.Fprintf(&b, "\n%-14s", name)
		for _, n := range c.Cells[op] {
			fmt.Fprintf(&b, "%11d", n)
		}
	}
	return b.String() + "\n"
}

// Holes names the cells that are empty though they need not be.
func (c *Coverage) Holes() []string {
	var holes []string
	for op := int(schema.OpDirect); op < rewriteCount; op++ {
		for f, n := range c.Cells[op] {
			if n == 0 {
				holes = append(holes, fmt.Sprintf("%d × %s", op, featureNames[f]))
			}
		}
	}
	return holes
}

// survey says, once a world, what its questions will count for.
type survey struct {
	features [featureCount]bool
	// rewrites are the bits of the rows that a relation's meaning runs through.
	rewrites map[node]uint32 // by type (as the object's type) and relation
}

func surveyOf(o *Oracle) *survey {
	w := &o.world
	s := &survey{rewrites: map[node]uint32{}}
	f := &s.features
	f[featureAll] = true
	opts := w.Model.Options
	f[featureNamespace], f[featureStar] = w.Model.Namespace != "", opts.StarIsOrdinary
	f[featureZero], f[featureFails] = opts.UnsetAttributeIsZero, opts.MissingContextFails
	stored := map[rel.Key]bool{}
	for _, t := range w.Stored {
		stored[t.Key()] = true
		s.tuple(o, t)
	}
	for _, t := range w.Contextual {
		s.tuple(o, t)
		f[featureContextual] = true
		f[featureReplaced] = f[featureReplaced] || stored[t.Key()]
	}
	for _, edges := range o.tuples {
		for _, e := range edges {
			f[featureOpenCondition] = f[featureOpenCondition] || e.holds == expr.Unknown
		}
	}
	s.closure(o)
	return s
}

func (s *survey) tuple(o *Oracle, t rel.Tuple) {
	f := &s.features
	f[featureExpired] = f[featureExpired] || t.Expires != 0 && t.Expires <= o.world.Now
	if !o.admitted(t) {
		f[featureStale] = true
		return
	}
	f[featureWildcard] = f[featureWildcard] || t.Subject.IsWildcard()
	f[featureUserset] = f[featureUserset] || t.Subject.Relation != ""
	f[featureCondition] = f[featureCondition] || t.Condition != ""
}

// closure spreads the operators of each relation to those that read it.
func (s *survey) closure(o *Oracle) {
	for changed := true; changed; {
		changed = false
		for name, t := range o.types {
			for i := range t.Relations {
				r := &t.Relations[i]
				n := node{rel.Object{Type: name}, r.Name}
				bits := s.bits(o, name, r, r.Rewrite)
				if bits|s.rewrites[n] != s.rewrites[n] {
					s.rewrites[n] |= bits
					changed = true
				}
			}
		}
	}
}

func (s *survey) bits(o *Oracle, typ string, def *schema.RelationDef, r schema.Rewrite) uint32 {
	bits := uint32(1) << r.Op
	switch r.Op {
	case schema.OpDirect:
		for _, st := range def.Subjects {
			bits |= s.rewrites[node{rel.Object{Type: o.full(st.Type)}, st.Relation}]
		}
	case schema.OpComputed:
		bits |= s.rewrites[node{rel.Object{Type: typ}, r.Relation}]
	case schema.OpArrow:
		if r.Children[0].Op != schema.OpComputed {
			bits |= 1 << rewriteHidden
		}
		first := o.relation(typ, r.Relation)
		if first == nil {
			return bits
		}
		for _, st := range first.Subjects {
			bits |= s.bits(o, o.full(st.Type), def, r.Children[0])
		}
		return bits
	}
	for _, c := range r.Children {
		bits |= s.bits(o, typ, def, c)
	}
	return bits
}

// world adds one world.
func (c *Coverage) world(b *Bench) {
	c.Worlds++
	worst := schema.CyclePlain
	for _, r := range b.Schema.Relations {
		if r.Recursive {
			worst = max(worst, r.Cycle)
		}
	}
	c.Cycles[worst]++
	b.survey.features[featureNegativeCycle] = worst == schema.CycleNegative
}

// count adds one check.
func (c *Coverage) count(s *survey, q Question, truth expr.Tristate) {
	c.Checks++
	c.Truths[truth]++
	f := s.features
	f[featureTrue], f[featureUnknown] = truth == expr.True, truth == expr.Unknown
	f[featureUsersetSubject] = q.Subject.Relation != ""
	for i, on := range f {
		if on {
			c.cell(s, q, i)
		}
	}
}

// cell adds one check to a column, in the rows of its relation's rewrites.
func (c *Coverage) cell(s *survey, q Question, feature int) {
	bits := s.rewrites[node{rel.Object{Type: q.Object.Type}, q.Relation}]
	for op := range c.Cells {
		if bits&(1<<op) != 0 {
			c.Cells[op][feature]++
		}
	}
}
