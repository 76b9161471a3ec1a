// Package pattern implements the regular expressions of XPath's fn:matches,
// which XACML's regexp-match functions use (XQuery 1.0 and XPath 2.0 functions,
// section 7.6.1; XML Schema part 2, appendix F). Its main type is [Pattern]. It
// bounds the work of every pattern and text, and never uses Perl's syntax.
package pattern

import (
	"regexp"

	"github.com/ostiary/ostiary/policy/status"
)

// The bounds of patterns.
const (
	// BytesMax is the bound "pattern bytes": the length of a pattern.
	BytesMax = 4096
	// NestingMax is the bound "pattern nesting": the number of groups around a part
	// of a pattern.
	NestingMax = 100
	// RepeatMax is the bound "pattern repeat": the largest number in {n,m}, and the
	// largest product of such numbers inside each other.
	RepeatMax = 1000
	// StatesMax is the bound "pattern states": the number of characters, classes
	// and groups, counted as often as {n,m} repeats them.
	StatesMax = 10_000
	// RangesMax is the bound "pattern ranges": the number of ranges of characters
	// in all classes. \w has about 800.
	RangesMax = 1 << 17
	// StepsMax is the bound "pattern steps": the product of the states of a pattern
	// and the bytes of a text, or the steps of a pattern with back references.
	StepsMax = 1 << 24
	// DepthMax is the bound "pattern depth": how many parts of a pattern with back
	// references may be matched inside each other.
	DepthMax = 50_000
)

// Pattern is a compiled regular expression. It is immutable and may be used
// concurrently.
type Pattern struct {
	text   string
	states int
	// Exactly one is set: linear for a pattern without back references, which is
	// matched in time linear in the text, and root for every other one.
	linear *regexp.Regexp
	root   *node
	groups int
}

// Compile compiles a pattern. Its error is a *status.Error with the code
// processing-error, also if a bound is reached.
func Compile(text string) (*Pattern, error) {
	if len(text) > BytesMax {
		return nil, bound("pattern bytes", BytesMax)
	}
	p := parser{rest: text, text: text}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	states := root.states()
	if states > StatesMax {
		return nil, bound("pattern states", StatesMax)
	}
	compiled := &Pattern{text: text, states: states, groups: p.groups}
	if p.backReferences {
		compiled.root = root
		return compiled, nil
	}
	if compiled.linear, err = regexp.Compile(root.re2()); err != nil {
		return nil, bound("pattern repeat", RepeatMax) // the product of nested repeats
	}
	return compiled, nil
}

// String returns the text that the pattern was compiled from.
func (p *Pattern) String() string { return p.text }

// Cost returns about how many nanoseconds it takes to match a text of so many bytes,
// without back references.
func (p *Pattern) Cost(bytes int) int { return (bytes + 1) * p.states }

// Match reports whether a part of text matches the pattern. It fails with a
// *status.Error if the bound pattern steps is reached.
func (p *Pattern) Match(text string) (bool, error) {
	if p.linear == nil {
		return newBacktracker(text, p.groups).find(p.root)
	}
	if p.Cost(len(text)) > StepsMax {
		return false, bound("pattern steps", StepsMax)
	}
	return p.linear.MatchString(text), nil
}

func bound(name string, most int) error {
	return status.Reached(status.ProcessingError, name, most)
}
