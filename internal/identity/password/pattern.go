package password

import (
	"fmt"
	"regexp"
	"strings"
)

// Pattern is a regular expression that new passwords must match, in Python's
// syntax as far as it can be matched in linear time: lookaheads may be at the
// beginning only, as in "^(?=.*\d)(?=.*[a-zA-Z]).{7,}$". There are no references
// to groups. A Pattern may be used concurrently.
type Pattern struct {
	parts []patternPart
}

// patternPart is a lookahead, or the rest of the expression.
type patternPart struct {
	expression *regexp.Regexp
	negative   bool // the password must not match
}

// patternBytesMax bounds the text of a pattern.
const patternBytesMax = 4096

// ParsePattern parses the text of a pattern. It fails if the text is malformed, or
// longer than 4,096 bytes.
func ParsePattern(text string) (*Pattern, error) {
	if len(text) > patternBytesMax {
		return nil, fmt.Errorf("invalid pattern of %d bytes: expected at most %d", len(text), patternBytesMax)
	}
	p := &Pattern{}
	rest := strings.TrimPrefix(text, "^") // as in Python, a match begins at the first character
	for {
		negative := strings.HasPrefix(rest, "(?!")
		if !negative && !strings.HasPrefix(rest, "(?=") {
			return p, p.add(rest, false)
		}
		end := groupEnd(rest)
		if end < 0 {
			return nil, fmt.Errorf("invalid pattern %.64q: expected a closing parenthesis after the lookahead", rest)
		}
		if err := p.add(rest[len("(?="):end], negative); err != nil {
			return nil, err
		}
		rest = rest[end+1:]
	}
}

// add appends an expression that is matched from the first character.
func (p *Pattern) add(text string, negative bool) error {
	text = pythonEnd(text)
	_, err := regexp.Compile(text) // alone, so that it cannot close the group below
	var x *regexp.Regexp
	if err == nil {
		x, err = regexp.Compile("^(?:" + text + ")")
	}
	if err != nil {
		return fmt.Errorf("invalid pattern %.64q: expected a regular expression with lookaheads at its beginning only: %w", text, err)
	}
	p.parts = append(p.parts, patternPart{x, negative})
	return nil
}

// pythonEnd replaces Python's \Z, the end of the text, by \z.
func pythonEnd(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			c := text[i+1]
			if c == 'Z' {
				c = 'z'
			}
			b.Write([]byte{'\\', c})
			i++
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// groupEnd returns the index of the parenthesis that closes the group at the
// beginning of text, or -1.
func groupEnd(text string) int {
	depth, class := 0, -1 // class is the index of an open bracket
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case class >= 0:
			// The first character of a class is never its end.
			if c == ']' && i > class+1 && (text[class+1] != '^' || i > class+2) {
				class = -1
			}
		case c == '[':
			class = i
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// Match returns whether a password matches the pattern from its first character.
func (p *Pattern) Match(password string) bool {
	for _, x := range p.parts {
		if x.expression.MatchString(password) == x.negative {
			return false
		}
	}
	return true
}
