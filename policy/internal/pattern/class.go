package pattern

import (
	"fmt"
	"strings"
	"unicode"
)

// class reads a character class after its opening bracket: "a-z\d]",
// "^a]" or "a-z-[aeiou]]".
func (p *parser) class() (set, error) {
	if p.nesting++; p.nesting > NestingMax {
		return nil, bound("pattern nesting", NestingMax)
	}
	negative := p.skip("^")
	var members []span
	for first := true; ; first = false {
		switch {
		case p.rest == "":
			return nil, p.fail("a ]")
		case p.rest[0] == ']' && first:
			return nil, p.fail("a character in the class")
		case p.rest[0] == ']' || strings.HasPrefix(p.rest, "-[") && !first:
			return p.endClass(members, negative)
		}
		more, err := p.member(first)
		if err != nil {
			return nil, err
		}
		members = append(members, more...)
	}
}

// endClass reads the end of a class, with the class that is subtracted.
func (p *parser) endClass(members []span, negative bool) (set, error) {
	result := newSet(members...)
	if negative {
		result = result.negate()
	}
	if p.skip("-[") {
		without, err := p.class()
		if err != nil {
			return nil, err
		}
		result = result.subtract(without)
	}
	if !p.skip("]") {
		return nil, p.fail("a ]")
	}
	p.nesting--
	return result, nil
}

// member reads a character, a range or an escape of a class.
func (p *parser) member(first bool) ([]span, error) {
	from, single, err := p.bracketCharacter(first)
	if err != nil || !single || !strings.HasPrefix(p.rest, "-") || strings.HasPrefix(p.rest, "-]") || strings.HasPrefix(p.rest, "-[") {
		return from, err
	}
	p.take()
	to, single, err := p.bracketCharacter(false)
	if err != nil {
		return nil, err
	}
	if !single || to[0].low < from[0].low {
		return nil, p.fail("a range that ends with a character after its first")
	}
	return []span{{from[0].low, to[0].low}}, nil
}

// bracketCharacter reads one character of a class, or an escape for several. At the
// end of the pattern it returns a character, and the class lacks its end.
func (p *parser) bracketCharacter(first bool) (spans []span, single bool, err error) {
	switch r := p.next(); r {
	case '\\':
		return p.escapedSet()
	case '[', ']':
		return nil, false, p.fail(fmt.Sprintf("\\%c for the character %c", r, r))
	case '-':
		if !first && !strings.HasPrefix(p.rest, "-]") {
			return nil, false, p.fail("\\- for the character -")
		}
	}
	r := p.take()
	return []span{{r, r}}, true, nil
}

// escapedSet reads a backslash and what follows. single is true for one
// character.
func (p *parser) escapedSet() (s set, single bool, err error) {
	p.take()
	if p.rest == "" {
		return nil, false, p.fail("a character after \\")
	}
	r := p.take()
	switch {
	case r == 'n':
		return newSet(span{'\n', '\n'}), true, nil
	case r == 'r':
		return newSet(span{'\r', '\r'}), true, nil
	case r == 't':
		return newSet(span{'\t', '\t'}), true, nil
	case strings.ContainsRune(`\|.?*+(){}-[]^$`, r):
		return newSet(span{r, r}), true, nil
	case r == 'p' || r == 'P':
		s, err = p.property(r == 'P')
		return s, false, err
	}
	if s := shorthand(unicode.ToLower(r)); s != nil {
		if unicode.IsUpper(r) {
			s = s.negate()
		}
		return s, false, nil
	}
	return nil, false, p.fail(fmt.Sprintf("one of \\n \\r \\t \\s \\i \\c \\d \\w \\p or a special character after \\, instead of %c", r))
}

// property reads "{Lu}" or "{IsBasicLatin}".
func (p *parser) property(negative bool) (set, error) {
	end := strings.IndexByte(p.rest, '}')
	if !p.skip("{") || end < 0 {
		return nil, p.fail("a name in { }")
	}
	name := p.rest[:end-1]
	p.rest = p.rest[end:]
	s, ok := category(name)
	if block, isBlock := strings.CutPrefix(name, "Is"); isBlock {
		var b span
		b, ok = blocks()[block]
		s = newSet(b)
	}
	if !ok {
		return nil, p.fail(fmt.Sprintf("a Unicode category such as Lu or a block such as IsBasicLatin, instead of %.40q", name))
	}
	if negative {
		s = s.negate()
	}
	return s, nil
}
