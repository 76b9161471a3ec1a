package language

import (
	"fmt"
	"strings"
)

// kind is the kind of a token.
type kind uint8

const (
	// end is the end of the text.
	end kind = iota
	// newline is a line break or ";".
	newline
	// ident is a name.
	ident
	// keyword is a name that the language reserves.
	keyword
	// sign is a character of the syntax, such as "{".
	sign
	// illegal is any other character.
	illegal
)

// token is a word or sign of a text.
type token struct {
	kind kind
	// text is the token as it is written.
	text string
	// offset is the token's offset in the text, and position the same as line
	// and column.
	offset   int
	position Position
}

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end of the text"
	case newline:
		return "a line break"
	}
	return fmt.Sprintf("%q", t.text)
}

// isKeyword reports whether the language reserves s.
func isKeyword(s string) bool {
	switch s {
	case "entity", "relation", "action", "permission", "rule", "attribute", "and", "or", "not", "in", "true", "false":
		return true
	}
	return false
}

// lexer splits a text into tokens.
type lexer struct {
	// src is the text.
	src string
	// offset is the offset of the next byte, and line its line, from 1.
	offset, line int
	// lineStart is the offset of the current line's first byte.
	lineStart int
	// err is the first error.
	err *Error
}

// position returns the position of the next byte.
func (l *lexer) position() Position { return Position{l.line, l.offset - l.lineStart + 1} }

// next returns the next token. After an error it returns only end tokens.
func (l *lexer) next() token {
	l.skipSpace()
	t := token{offset: l.offset, position: l.position()}
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
			n++ // continuation bytes of a UTF-8 character
		}
		l.advance(n)
	}
	t.text = l.src[t.offset:l.offset]
	if t.kind == ident && isKeyword(t.text) {
		t.kind = keyword
	}
	return t
}

// letter reports whether c may occur in a name.
func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// advance moves forward by n bytes and counts lines.
func (l *lexer) advance(n int) {
	for range n {
		if l.src[l.offset] == '\n' {
			l.line++
			l.lineStart = l.offset + 1
		}
		l.offset++
	}
}

// skipSpace skips comments and white space other than line breaks.
func (l *lexer) skipSpace() {
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
				l.err = &Error{l.position(), "comment without closing */", ErrSyntax}
				return
			}
			l.advance(n + 4)
		default:
			return
		}
	}
}

// lineLength returns the length of the first line of s, without its line break.
func lineLength(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}

// body reads the expression of a rule up to the closing brace, which it leaves
// to next. Braces within strings and comments do not count. It returns the text
// without surrounding white space, and the text's position.
func (l *lexer) body() (text string, at Position, err *Error) {
	start, opened := l.offset, l.position()
	for depth := 0; l.offset < len(l.src); {
		rest := l.src[l.offset:]
		n := 1
		switch c := rest[0]; {
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			text, at = trimSpace(l.src[start:l.offset], opened)
			return text, at, nil
		case c == '}':
			depth--
		case strings.HasPrefix(rest, "//"):
			n = lineLength(rest)
		case strings.HasPrefix(rest, "/*"):
			if n = strings.Index(rest[2:], "*/") + 4; n < 4 {
				return "", at, &Error{l.position(), "comment without closing */", ErrSyntax}
			}
		case c == '"' || c == '\'':
			raw := l.offset > 0 && l.src[l.offset-1]|0x20 == 'r'
			if n = quotedLength(rest, raw); n < 0 {
				return "", at, &Error{l.position(), "string without closing quote", ErrSyntax}
			}
		}
		l.advance(n)
	}
	return "", at, &Error{opened, "rule without closing }", ErrSyntax}
}

// trimSpace removes the white space around a body, and returns the position of
// the remaining text. at is the position of s.
func trimSpace(s string, at Position) (string, Position) {
	body := strings.TrimLeft(s, " \t\r\n")
	for _, c := range []byte(s[:len(s)-len(body)]) {
		at.Column++
		if c == '\n' {
			at.Line, at.Column = at.Line+1, 1
		}
	}
	return strings.TrimRight(body, " \t\r\n"), at
}

// quotedLength returns the length of the string literal at the start of s,
// including its quotes; -1 if it has no end. The quotes may be triple quotes. A
// raw literal has no escapes.
func quotedLength(s string, raw bool) int {
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

// Expression returns the rule's body as CEL. CEL has no /* */ comments, so
// these become spaces. Line breaks stay, so that positions do not change.
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
			n = quotedLength(rest, i > 0 && r.Body[i-1]|0x20 == 'r')
		}
		out.WriteString(rest[:n])
		i += n
	}
	return out.String()
}
