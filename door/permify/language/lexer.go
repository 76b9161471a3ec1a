package language

import (
	"fmt"
	"strings"
)

// kind is a token's: a character for signs, or one of these.
type kind uint8

const (
	end kind = iota
	newline
	ident
	keyword
	sign
	illegal
)

type token struct {
	kind kind
	text string
	// offset is where it begins in the text, place the same as line and column.
	offset int
	place  Position
}

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end of the text"
	case newline:
		return "a new line"
	}
	return fmt.Sprintf("%q", t.text)
}

func isKeyword(s string) bool {
	switch s {
	case "entity", "relation", "action", "permission", "rule", "attribute", "and", "or", "not", "in", "true", "false":
		return true
	}
	return false
}

// lexer cuts a text into tokens, one at a time.
type lexer struct {
	src    string
	offset int
	line   int
	// lineStart is the offset of the line's first byte.
	lineStart int
	err       *Error
}

func (l *lexer) place() Position { return Position{l.line, l.offset - l.lineStart + 1} }

// next returns the next token. After an error it returns the end for ever.
func (l *lexer) next() token {
	l.blanks()
	t := token{offset: l.offset, place: l.place()}
	if l.err != nil || l.offset >= len(l.src) {
		return t
	}
	c := l.src[l.offset]
	switch {
	case c == '\n' || c == ';':
		t.kind = newline
		l.advance(1)
	case letter(c):
		n := 1
		for l.offset+n < len(l.src) && letter(l.src[l.offset+n]) {
			n++
		}
		t.kind = ident
		l.advance(n)
	case strings.IndexByte("{}()[]@#.,=", c) >= 0:
		t.kind = sign
		l.advance(1)
	default:
		t.kind = illegal
		n := 1
		for l.offset+n < len(l.src) && l.src[l.offset+n] >= 0x80 && l.src[l.offset+n] < 0xc0 {
			n++ // the rest of a character of several bytes
		}
		l.advance(n)
	}
	t.text = l.src[t.offset:l.offset]
	if t.kind == ident && isKeyword(t.text) {
		t.kind = keyword
	}
	return t
}

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// advance goes on by n bytes and counts lines.
func (l *lexer) advance(n int) {
	for range n {
		if l.src[l.offset] == '\n' {
			l.line++
			l.lineStart = l.offset + 1
		}
		l.offset++
	}
}

// blanks skips white space within a line, and comments.
func (l *lexer) blanks() {
	for l.offset < len(l.src) && l.err == nil {
		rest := l.src[l.offset:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			l.advance(1)
		case strings.HasPrefix(rest, "//"):
			l.advance(lineLength(rest))
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				l.err = &Error{l.place(), "the comment has no end", ErrSyntax}
				return
			}
			l.advance(n + 4)
		default:
			return
		}
	}
}

func lineLength(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}

// body reads a rule's expression up to the brace that closes it, which it
// leaves. Braces within texts and comments do not count.
func (l *lexer) body() (text string, at Position, err *Error) {
	start, opened := l.offset, l.place()
	for depth := 0; l.offset < len(l.src); {
		rest := l.src[l.offset:]
		n := 1
		switch c := rest[0]; {
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			text, at = trimmed(l.src[start:l.offset], opened)
			return text, at, nil
		case c == '}':
			depth--
		case strings.HasPrefix(rest, "//"):
			n = lineLength(rest)
		case strings.HasPrefix(rest, "/*"):
			if n = strings.Index(rest[2:], "*/") + 4; n < 4 {
				return "", at, &Error{l.place(), "the comment has no end", ErrSyntax}
			}
		case c == '"' || c == '\'':
			raw := l.offset > 0 && l.src[l.offset-1]|0x20 == 'r'
			if n = quoted(rest, raw); n < 0 {
				return "", at, &Error{l.place(), "the text has no closing quote", ErrSyntax}
			}
		}
		l.advance(n)
	}
	return "", at, &Error{opened, "the rule has no closing brace", ErrSyntax}
}

// trimmed cuts white space off a body that begins at a place.
func trimmed(s string, at Position) (string, Position) {
	body := strings.TrimLeft(s, " \t\r\n")
	for _, c := range []byte(s[:len(s)-len(body)]) {
		at.Column++
		if c == '\n' {
			at.Line, at.Column = at.Line+1, 1
		}
	}
	return strings.TrimRight(body, " \t\r\n"), at
}

// quoted returns the length of the quoted text that s begins with, also in
// triple quotes; -1 where it does not end. Raw texts have no escapes.
func quoted(s string, raw bool) int {
	q := s[:1]
	if strings.HasPrefix(s, strings.Repeat(q, 3)) {
		q = s[:3]
	}
	for i := len(q); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], q):
			return i + len(q)
		case s[i] == '\n' && len(q) == 1:
			return -1
		}
	}
	return -1
}

// Expression returns the rule's body as an expression library reads it: the
// comments of this language that CEL does not have become blanks.
func (r *Rule) Expression() string {
	if !strings.Contains(r.Body, "/*") {
		return r.Body
	}
	var out strings.Builder
	for i := 0; i < len(r.Body); {
		rest, n := r.Body[i:], 1
		switch {
		case strings.HasPrefix(rest, "/*"):
			n = strings.Index(rest, "*/") + 2
			for _, c := range []byte(rest[:n]) {
				if c != '\n' {
					c = ' '
				}
				out.WriteByte(c)
			}
			i += n
			continue
		case strings.HasPrefix(rest, "//"):
			n = lineLength(rest)
		case rest[0] == '"' || rest[0] == '\'':
			n = quoted(rest, i > 0 && r.Body[i-1]|0x20 == 'r')
		}
		out.WriteString(rest[:n])
		i += n
	}
	return out.String()
}
