package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// operator is the kind of a node.
type operator uint8

const (
	opSequence      operator = iota // all children, one after the other
	opChoice                        // one of the children
	opSet                           // one character of a set
	opRepeat                        // the child, from least to most times
	opGroup                         // the child; what it matches has a number
	opBackReference                 // what the group with the number matched
	opBegin                         // the beginning of the text
	opEnd                           // the end of the text
)

// node is a part of a pattern.
type node struct {
	op       operator
	children []*node
	set      set
	least    int
	most     int // -1 means any number
	group    int // from 1; 0 for a group without a number
}

// parser reads a pattern.
type parser struct {
	text           string // the whole pattern, for errors
	rest           string // what is not read yet
	nesting        int
	groups         int    // number of groups that were opened
	closed         []bool // whether a group is closed, by its number - 1
	ranges         int    // ranges in all sets
	backReferences bool
}

// fail returns an error about the place that the parser has reached.
func (p *parser) fail(expected string) error {
	return status.Errorf(status.ProcessingError, "invalid pattern %s, at byte %d: expected %s",
		value.Quote(p.text), len(p.text)-len(p.rest)+1, expected)
}

// parse reads the whole pattern.
func (p *parser) parse() (*node, error) {
	if !utf8.ValidString(p.text) {
		return nil, p.fail("valid UTF-8")
	}
	root, err := p.choice()
	if err == nil && p.rest != "" {
		err = p.fail("no ) without a (")
	}
	return root, err
}

// next returns the next character without reading it; U+FFFD at the end.
func (p *parser) next() rune {
	r, _ := utf8.DecodeRuneInString(p.rest)
	return r
}

// skip reads prefix if it comes next.
func (p *parser) skip(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// take reads and returns the next character.
func (p *parser) take() rune {
	r, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	return r
}

// choice reads branches up to the end or a closing parenthesis.
func (p *parser) choice() (*node, error) {
	choice := &node{op: opChoice}
	for {
		branch := &node{op: opSequence}
		for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
			piece, err := p.piece()
			if err != nil {
				return nil, err
			}
			branch.children = append(branch.children, piece)
		}
		choice.children = append(choice.children, branch)
		if !p.skip("|") {
			return choice, nil
		}
	}
}

// piece reads an atom with an optional quantifier.
func (p *parser) piece() (*node, error) {
	atom, err := p.atom()
	if err != nil {
		return nil, err
	}
	repeat := &node{op: opRepeat, children: []*node{atom}, most: -1}
	switch {
	case p.skip("?"):
		repeat.most = 1
	case p.skip("*"):
	case p.skip("+"):
		repeat.least = 1
	case p.skip("{"):
		if err := p.quantity(repeat); err != nil {
			return nil, err
		}
	default:
		return atom, nil
	}
	p.skip("?") // a reluctant quantifier matches the same texts
	return repeat, nil
}

// quantity reads "n}", "n,}" or "n,m}".
func (p *parser) quantity(repeat *node) error {
	least, ok := p.number()
	if !ok {
		return p.fail("a number after {")
	}
	repeat.least, repeat.most = least, least
	if p.skip(",") {
		repeat.most = -1
		if most, ok := p.number(); ok {
			repeat.most = most
		}
	}
	switch {
	case least > RepeatMax || repeat.most > RepeatMax:
		return bound("pattern repeat", RepeatMax)
	case repeat.most >= 0 && repeat.most < least:
		return p.fail("a second number that is not less than the first")
	case !p.skip("}"):
		return p.fail("} after the numbers")
	}
	return nil
}

// number reads digits. A number beyond int is returned as one that is beyond
// RepeatMax.
func (p *parser) number() (int, bool) {
	rest := strings.TrimLeft(p.rest, "0123456789")
	digits := p.rest[:len(p.rest)-len(rest)]
	p.rest = rest
	n, err := strconv.Atoi(digits)
	if digits != "" && err != nil {
		return RepeatMax + 1, true
	}
	return n, digits != ""
}

// atom reads a character, a class, a group or an anchor.
func (p *parser) atom() (*node, error) {
	switch r := p.next(); r {
	case '(':
		return p.parenthesis()
	case '[':
		p.take()
		set, err := p.class()
		if err != nil {
			return nil, err
		}
		return p.of(set)
	case '\\':
		return p.escape()
	case '.':
		p.take()
		return p.of(newSet(span{'\n', '\n'}, span{'\r', '\r'}).negate())
	case '^':
		p.take()
		return &node{op: opBegin}, nil
	case '$':
		p.take()
		return &node{op: opEnd}, nil
	case '?', '*', '+', '{', '}', ']':
		return nil, p.fail(fmt.Sprintf("\\%c for the character %c", r, r))
	}
	r := p.take()
	return p.of(newSet(span{r, r}))
}

// of returns the node of a set.
func (p *parser) of(s set) (*node, error) {
	if p.ranges += len(s); p.ranges > RangesMax {
		return nil, bound("pattern ranges", RangesMax)
	}
	return &node{op: opSet, set: s}, nil
}

// parenthesis reads a group.
func (p *parser) parenthesis() (*node, error) {
	if p.nesting++; p.nesting > NestingMax {
		return nil, bound("pattern nesting", NestingMax)
	}
	p.take()
	group := &node{op: opGroup}
	switch {
	case p.skip("?:"):
	case strings.HasPrefix(p.rest, "?"):
		return nil, p.fail("no ? after (")
	default:
		p.groups++
		group.group = p.groups
		p.closed = append(p.closed, false)
	}
	child, err := p.choice()
	if err != nil {
		return nil, err
	}
	if !p.skip(")") {
		return nil, p.fail("a )")
	}
	if group.group > 0 {
		p.closed[group.group-1] = true
	}
	p.nesting--
	group.children = []*node{child}
	return group, nil
}

// escape reads a backslash and what follows, outside of a class.
func (p *parser) escape() (*node, error) {
	if len(p.rest) > 1 && p.rest[1] >= '1' && p.rest[1] <= '9' {
		p.take()
		return p.backReference()
	}
	set, _, err := p.escapedSet()
	if err != nil {
		return nil, err
	}
	return p.of(set)
}

// backReference reads the number of a group. It has as many digits as there are
// groups with such a number.
func (p *parser) backReference() (*node, error) {
	n := int(p.take() - '0')
	for p.rest != "" && p.rest[0] >= '0' && p.rest[0] <= '9' && n*10+int(p.rest[0]-'0') <= p.groups {
		n = n*10 + int(p.take()-'0')
	}
	if n > p.groups || !p.closed[n-1] {
		return nil, p.fail("the number of a group that is closed before")
	}
	p.backReferences = true
	return &node{op: opBackReference, group: n}, nil
}
