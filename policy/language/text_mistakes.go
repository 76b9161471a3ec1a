package language

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// The words that begin a statement, by where the statement is. After a mistake the
// parser goes on with the next of them.
const (
	declarations     = " namespace attribute category function rulecombinator policycombinator obligation advice policyset policy "
	commonStatements = " version description apply target on "
	setStatements    = commonStatements + " policyset policy policyref policysetref "
	policyStatements = commonStatements + " rule let "
	ruleStatements   = " description target condition permit deny on "
)

// errQuiet ends a statement whose mistake is a consequence of another one.
var errQuiet = errors.New("a consequence of another mistake")

// stop ends the statement without a mistake of its own.
func (p *textParser) stop() {
	if p.err == nil {
		p.err, p.failed = errQuiet, p.next.offset
		p.next, p.i = token{}, len(p.text)
	}
}

// add records a mistake. The text ends if there are [policy.ErrorsMax] of them.
func (p *textParser) add(e *policy.Error) {
	p.problems = append(p.problems, e)
	if len(p.problems) >= policy.ErrorsMax && p.err == nil {
		p.stop()
	}
}

// statement reads a statement. If it is wrong, its mistake is recorded, and the
// parser goes on behind it: at the end of the body, or at the next of the words
// that begin a statement.
func (p *textParser) statement(words string, read func()) {
	start := p.next
	read()
	switch {
	case p.err == nil || p.unreadable:
		return
	case start.kind == endToken && len(p.problems) > 0:
		p.err = errQuiet
		return
	case start.kind == endToken:
		return
	}
	var one *policy.Error
	if errors.As(p.err, &one) {
		p.problems = append(p.problems, one)
	}
	if p.err = errQuiet; len(p.problems) < policy.ErrorsMax {
		p.err = nil
		p.skip(start, words)
	}
}

// skip moves behind the statement that begins at start and has a mistake.
func (p *textParser) skip(start token, words string) {
	depth := 0
	p.i = start.offset
	p.scan()
	for ; p.err == nil && p.next.kind != endToken; p.scan() {
		switch {
		case p.is("{"):
			depth++
		case p.is("}") && depth == 0:
			return
		case p.is("}"):
			depth--
		case depth == 0 && p.resumes(start) && strings.Contains(words, " "+p.next.text+" "):
			return
		}
	}
	if p.err != nil { // the rest of the statement is unreadable, perhaps because of the mistake
		p.err = errQuiet
	}
}

// resumes reports whether the next token may begin the statement behind the one that
// begins at start and has a mistake: it follows the mistake, or it is the mistake and
// begins a line.
func (p *textParser) resumes(start token) bool {
	at := p.next.offset
	if at <= start.offset || at != p.failed {
		return at > max(start.offset, p.failed)
	}
	before := bytes.TrimRight(p.text[:at], " \t\r")
	return len(before) == 0 || before[len(before)-1] == '\n'
}

// problem returns the mistakes in the order of their places, or nil if there are
// none. A bound that is exceeded is returned alone.
func (p *textParser) problem() error {
	var bound *BoundError
	if errors.As(p.err, &bound) {
		return p.err
	}
	all := p.problems
	var one *policy.Error
	if errors.As(p.err, &one) {
		all = append(all, one)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	slices.SortStableFunc(all, func(a, b *policy.Error) int {
		return cmp.Or(a.Position.Line-b.Position.Line, a.Position.Column-b.Position.Column)
	})
	return all[:min(len(all), policy.ErrorsMax)]
}

// meant returns a question for an error text: whether the nearest of the known names
// is meant. It returns "" if none is near.
func meant(name string, known ...iter.Seq[string]) string {
	for _, some := range known {
		if found := quote.Nearest(name, sorted(some)); found != "" {
			return fmt.Sprintf(" (did you mean %q?)", found)
		}
	}
	return ""
}

// sorted yields names in their order, so that the first of equally near names is
// always the same.
func sorted(names iter.Seq[string]) iter.Seq[string] { return slices.Values(slices.Sorted(names)) }

// typeNames yields the short names of all data types.
func typeNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, t := range value.Types() {
			if !yield(t.String()) {
				return
			}
		}
	}
}

// failAttribute stops the statement because of an unknown attribute.
func (p *textParser) failAttribute(offset int, name string) {
	p.fail(offset, "unknown attribute %q%s: expected a declared name", short(name), meant(name, maps.Keys(p.attributes), maps.Keys(p.standard.attributes)))
}

// combining reads the name of a combining algorithm. rules is 1 for the algorithms
// of rules, otherwise 0.
func (p *textParser) combining(rules int) string {
	at := p.next.offset
	if name := p.next.text; p.next.kind == wordToken && p.algorithms[rules][name] == "" && p.standard.algorithms[rules][name] == "" {
		other := 1 - rules
		if p.algorithms[other][name] != "" || p.standard.algorithms[other][name] != "" {
			what := [...]string{"policies", "rules"}
			p.fail(at, "the combining algorithm %q combines %s: expected one that combines %s, for example denyOverrides", name, what[other], what[rules])
			return ""
		}
	}
	return p.lookup("combining algorithm", p.algorithms[rules], p.standard.algorithms[rules])
}
