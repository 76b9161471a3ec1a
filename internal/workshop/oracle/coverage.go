package oracle

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Coverage counts what random worlds have shown. It belongs to one goroutine;
// [Coverage.Add] joins several.
type Coverage struct {
	// Worlds counts worlds that were tried, Invalid those whose model does not
	// compile.
	Worlds, Invalid int
	// Checks and Lists count questions.
	Checks, Lists int
	Truths        [3]int                          // checks by expr.Tristate
	Reasons       [reasonCount]int                // unknown answers by reason
	Cycles        [3]int                          // worlds by the worst schema.CycleClass of a recursive relation
	Cells         [rewriteCount][featureCount]int // checks by rewrite and feature
}

// The rows of the table are each schema.Op, and an expression under an arrow
// that is more than a relation's name.
const (
	rewriteHidden = int(schema.OpRule) + 1
	rewriteCount  = rewriteHidden + 1
)

// The columns of the table are features of the question and its world.
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
	featureVersions   // asked of a store with several schemas
	featureNamespaces // asked in a namespace other than the world's
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

// Add adds the counts of o.
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

// String returns the counts as a table with a row for each rewrite and a column
// for each feature.
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

// Holes returns the names of the cells that are 0. Each of them can be reached.
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

// survey holds the counts of the questions of one world.
type survey struct {
	features [featureCount]bool
	// rewrites has, for each relation, a bit for each row that its meaning
	// depends on. The node's object has only a type.
	rewrites map[node]uint32
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
		s.addTuple(o, t)
	}
	for _, t := range w.Contextual {
		s.addTuple(o, t)
		f[featureContextual] = true
		f[featureReplaced] = f[featureReplaced] || stored[t.Key()]
	}
	for _, edges := range o.tuples {
		for _, e := range edges {
			f[featureOpenCondition] = f[featureOpenCondition] || e.holds == expr.Unknown
		}
	}
	s.spreadRewrites(o)
	return s
}

func (s *survey) addTuple(o *Oracle, t rel.Tuple) {
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

// spreadRewrites adds the bits of each relation to those of the relations that
// use it.
func (s *survey) spreadRewrites(o *Oracle) {
	for changed := true; changed; {
		changed = false
		for name, t := range o.types {
			for i := range t.Relations {
				r := &t.Relations[i]
				n := node{rel.Object{Type: name}, r.Name}
				bits := s.rewriteBits(o, name, r, r.Rewrite)
				if bits|s.rewrites[n] != s.rewrites[n] {
					s.rewrites[n] |= bits
					changed = true
				}
			}
		}
	}
}

func (s *survey) rewriteBits(o *Oracle, typ string, def *schema.RelationDef, r schema.Rewrite) uint32 {
	bits := uint32(1) << r.Op
	switch r.Op {
	case schema.OpDirect:
		for _, st := range def.Subjects {
			bits |= s.rewrites[node{rel.Object{Type: o.fullName(st.Type)}, st.Relation}]
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
			bits |= s.rewriteBits(o, o.fullName(st.Type), def, r.Children[0])
		}
		return bits
	}
	for _, c := range r.Children {
		bits |= s.rewriteBits(o, typ, def, c)
	}
	return bits
}

// addWorld counts one world.
func (c *Coverage) addWorld(b *Bench) {
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

// addCheck counts one check.
func (c *Coverage) addCheck(s *survey, q Question, truth expr.Tristate) {
	c.Checks++
	c.Truths[truth]++
	f := s.features
	f[featureTrue], f[featureUnknown] = truth == expr.True, truth == expr.Unknown
	f[featureUsersetSubject] = q.Subject.Relation != ""
	for i, on := range f {
		if on {
			c.addCell(s, q, i)
		}
	}
}

// addCell counts one check in one column, in the rows of its relation.
func (c *Coverage) addCell(s *survey, q Question, feature int) {
	bits := s.rewrites[node{rel.Object{Type: q.Object.Type}, q.Relation}]
	for op := range c.Cells {
		if bits&(1<<op) != 0 {
			c.Cells[op][feature]++
		}
	}
}
