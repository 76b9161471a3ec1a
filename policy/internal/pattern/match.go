package pattern

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// states returns the number of states of a matcher of the node, which the bound
// limits: each {n,m} repeats its part.
func (n *node) states() int {
	sum := 1
	for _, c := range n.children {
		sum = min(sum+c.states(), StatesMax+1)
	}
	if n.op == opRepeat {
		sum *= max(n.least, n.most, 1)
	}
	return min(sum, StatesMax+1)
}

// re2 returns the node in the syntax of package regexp.
func (n *node) re2() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	switch n.op {
	case opBegin:
		b.WriteString(`\A`)
	case opEnd:
		b.WriteString(`\z`)
	case opSet:
		writeSet(b, n.set)
	case opRepeat:
		b.WriteString("(?:")
		n.children[0].write(b)
		b.WriteByte(')')
		if n.most < 0 {
			fmt.Fprintf(b, "{%d,}", n.least)
		} else {
			fmt.Fprintf(b, "{%d,%d}", n.least, n.most)
		}
	default:
		b.WriteString("(?:")
		for i, c := range n.children {
			if i > 0 && n.op == opChoice {
				b.WriteByte('|')
			}
			c.write(b)
		}
		b.WriteByte(')')
	}
}

func writeSet(b *strings.Builder, s set) {
	if len(s) == 0 {
		b.WriteString(`[^\x{0}-\x{10FFFF}]`)
		return
	}
	b.WriteByte('[')
	for _, r := range s {
		fmt.Fprintf(b, `\x{%X}-\x{%X}`, r.low, r.high)
	}
	b.WriteByte(']')
}

// backtracker matches a pattern with back references, which no linear matcher
// can. It counts its steps.
type backtracker struct {
	text   string
	steps  int
	depth  int   // calls of match that are in progress
	failed error // the bound that was reached
	begins []int // where a group begins, by its number - 1; -1 if it matched nothing
	ends   []int
}

func newBacktracker(text string, groups int) *backtracker {
	return &backtracker{text: text, begins: make([]int, groups), ends: make([]int, groups)}
}

// find reports whether a pattern matches a part of the text.
func (b *backtracker) find(root *node) (bool, error) {
	for at := 0; at <= len(b.text); at++ {
		if at < len(b.text) && !utf8.RuneStart(b.text[at]) {
			continue
		}
		for i := range b.begins {
			b.begins[i] = -1
		}
		matched := b.match(root, at, func(int) bool { return true })
		if b.failed != nil {
			return false, b.failed
		}
		if matched {
			return true, nil
		}
	}
	return false, nil
}

// match matches a node at a place and calls next with the place after it, for
// each way in which it matches, until next returns true. It returns false, too,
// if a bound is reached.
func (b *backtracker) match(n *node, at int, next func(int) bool) bool {
	b.depth++
	defer func() { b.depth-- }()
	if !b.count(1) {
		return false
	}
	switch n.op {
	case opBegin:
		return at == 0 && next(at)
	case opEnd:
		return at == len(b.text) && next(at)
	case opSet:
		r, size := utf8.DecodeRuneInString(b.text[at:])
		return size > 0 && n.set.has(r) && next(at+size)
	case opSequence:
		return b.sequence(n.children, at, next)
	case opChoice:
		for _, c := range n.children {
			if b.match(c, at, next) {
				return true
			}
		}
		return false
	case opRepeat:
		return b.repeat(n, 0, at, next)
	case opGroup:
		return b.inGroup(n, at, next)
	}
	return b.again(n.group, at, next)
}

// count counts steps. It returns false if a bound is reached.
func (b *backtracker) count(steps int) bool {
	b.steps += steps
	switch {
	case b.steps > StepsMax:
		b.failed = bound("pattern steps", StepsMax)
	case b.depth > DepthMax:
		b.failed = bound("pattern depth", DepthMax)
	}
	return b.failed == nil
}

func (b *backtracker) sequence(nodes []*node, at int, next func(int) bool) bool {
	if len(nodes) == 0 {
		return next(at)
	}
	return b.match(nodes[0], at, func(after int) bool {
		return b.sequence(nodes[1:], after, next)
	})
}

// repeat matches the child as often as possible, and then less often. A
// repetition that matches nothing is not repeated.
func (b *backtracker) repeat(n *node, done, at int, next func(int) bool) bool {
	if n.most < 0 || done < n.most {
		matched := b.match(n.children[0], at, func(after int) bool {
			if after == at && done >= n.least {
				return false
			}
			return b.repeat(n, done+1, after, next)
		})
		if matched {
			return true
		}
	}
	return done >= n.least && next(at)
}

// inGroup matches a group and remembers its place while the rest is matched.
func (b *backtracker) inGroup(n *node, at int, next func(int) bool) bool {
	if n.group == 0 {
		return b.match(n.children[0], at, next)
	}
	i := n.group - 1
	begin, end := b.begins[i], b.ends[i]
	matched := b.match(n.children[0], at, func(after int) bool {
		b.begins[i], b.ends[i] = at, after
		return next(after)
	})
	if !matched {
		b.begins[i], b.ends[i] = begin, end
	}
	return matched
}

// again matches what a group matched; nothing if it matched nothing.
func (b *backtracker) again(group, at int, next func(int) bool) bool {
	begin, end := b.begins[group-1], b.ends[group-1]
	if begin < 0 {
		return next(at)
	}
	part := b.text[begin:end]
	return b.count(len(part)/64) && strings.HasPrefix(b.text[at:], part) && next(at+len(part))
}
