package language

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/policy"
)

// TextDepthMax is how deep policy sets and expressions in the text form may be
// nested.
const TextDepthMax = 256

// token is a word, a text in quotes, a number or a sign.
type token struct {
	kind   tokenKind
	text   string // a text in quotes without its quotes and escapes
	offset int
}

type tokenKind uint8

const (
	endToken tokenKind = iota
	wordToken
	stringToken
	numberToken
	signToken
)

// String returns the token for an error.
func (t token) String() string {
	if t.kind == endToken {
		return "end of the text"
	}
	return strconv.Quote(short(t.text))
}

// scanner splits a text into tokens. An error ends the text, until the parser goes
// on behind it.
type scanner struct {
	places
	progress
	next token // the token that is read next
	i    int   // what follows it
	err  error
	// failed is the offset of err. unreadable is true if the text cannot be split into
	// tokens from there on.
	failed     int
	unreadable bool
}

// fail stops the scanner at an offset. An earlier error stays.
func (s *scanner) fail(offset int, format string, args ...any) {
	if s.err == nil {
		s.err, s.failed = &policy.Error{Position: s.at(offset), Text: fmt.Sprintf(format, args...)}, offset
		s.next, s.i = token{}, len(s.text)
	}
}

// failScan stops the scanner at text that is no token.
func (s *scanner) failScan(offset int, format string, args ...any) {
	s.unreadable = true
	s.fail(offset, format, args...)
}

// failBound stops the scanner because a bound is exceeded.
func (s *scanner) failBound(offset int, bound string, largest int) {
	if s.err == nil {
		s.err, s.unreadable = boundError(s.at(offset), bound, largest), true
		s.next, s.i = token{}, len(s.text)
	}
}

// take returns the next token and scans the one after it.
func (s *scanner) take() token {
	t := s.next
	s.scan()
	return t
}

// scan reads the next token.
func (s *scanner) scan() {
	s.blank()
	from := s.i
	s.next = token{offset: from}
	if s.err != nil || from >= len(s.text) {
		return
	}
	if !s.step(stepsPerToken) {
		s.failScan(from, endedText)
		return
	}
	switch c := s.text[from]; {
	case c == '"':
		s.quoted()
		return
	case c >= '0' && c <= '9':
		s.number()
		s.next.kind = numberToken
	case isNameByte(c):
		for s.i < len(s.text) && (isNameByte(s.text[s.i]) || s.text[s.i] == '.' && s.i+1 < len(s.text) && isNameByte(s.text[s.i+1])) {
			s.i++
		}
		s.next.kind = wordToken
	default:
		s.sign()
	}
	if s.err == nil {
		s.next.text = string(s.text[from:s.i])
	}
}

// blank passes white space and comments.
func (s *scanner) blank() {
	for s.i < len(s.text) {
		rest := s.text[s.i:]
		switch {
		case bytes.HasPrefix(rest, []byte("//")):
			if n := bytes.IndexByte(rest, '\n'); n >= 0 {
				s.i += n
			} else {
				s.i = len(s.text)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			n := bytes.Index(rest[2:], []byte("*/"))
			if n < 0 {
				s.failScan(s.i, "a comment without an end: expected */")
				return
			}
			s.i += n + 4
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\n' || rest[0] == '\r':
			s.i++
		default:
			return
		}
	}
}

// number passes digits, and a fraction.
func (s *scanner) number() {
	digits := func() {
		for s.i < len(s.text) && s.text[s.i] >= '0' && s.text[s.i] <= '9' {
			s.i++
		}
	}
	digits()
	if s.i+1 < len(s.text) && s.text[s.i] == '.' && s.text[s.i+1] >= '0' && s.text[s.i+1] <= '9' {
		s.i++
		digits()
	}
	if s.i < len(s.text) && isNameByte(s.text[s.i]) {
		s.failScan(s.i, "unexpected %q after a number", s.text[s.i])
	}
}

func (s *scanner) sign() {
	s.next.kind = signToken
	for _, long := range []string{"==", "<=", ">=", "&&", "||"} {
		if bytes.HasPrefix(s.text[s.i:], []byte(long)) {
			s.i += len(long)
			return
		}
	}
	c, n := utf8.DecodeRune(s.text[s.i:])
	if !strings.ContainsRune("{}()[]=<>+-*/!,:", c) || n != 1 {
		s.failScan(s.i, "unexpected character %q", c)
		return
	}
	s.i++
}

// quoted reads a text in quotes, with the escapes of JSON.
func (s *scanner) quoted() {
	from := s.i
	for s.i++; s.i < len(s.text) && s.text[s.i] != '"' && s.text[s.i] != '\n'; s.i++ {
		if s.text[s.i] == '\\' {
			s.i++
		}
	}
	if s.i >= len(s.text) || s.text[s.i] != '"' {
		s.failScan(from, "a text without an end: expected a quote on the same line")
		return
	}
	s.i++
	text, err := unquote(s.text[from:s.i])
	if err != nil {
		s.failScan(from, "invalid text in quotes: %v", err)
		return
	}
	s.next.kind, s.next.text = stringToken, text
}
