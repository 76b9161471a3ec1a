package content

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a token of XPath (section 3.7).
type tokenKind uint8

const (
	endToken tokenKind = iota
	numberToken
	literalToken
	nameToken     // a name test: "a", "p:a", "p:*" or "*"
	functionToken // the name of a function before "("
	typeToken     // node, text, comment or processing-instruction before "("
	axisToken     // the name of an axis before "::"
	symbolToken   // an operator or a punctuation mark
)

// token is a token of XPath.
type token struct {
	kind   tokenKind
	text   string // the text; a literal is without its quotes
	prefix string // the prefix of a name
	at     int    // where it begins, in bytes
}

// lexer splits an expression into tokens.
type lexer struct {
	text   string
	at     int
	tokens []token
}

// lex returns the tokens of an expression, the last of which is an endToken.
func lex(text string) ([]token, error) {
	l := lexer{text: text}
	for {
		l.skipSpace()
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		l.tokens = append(l.tokens, t)
		if t.kind == endToken {
			return l.tokens, nil
		}
	}
}

func (l *lexer) skipSpace() {
	l.at = len(l.text) - len(strings.TrimLeft(l.text[l.at:], " \t\r\n"))
}

// symbols are the operators and punctuation marks, the longest first.
var symbols = []string{
	"//", "..", "::", "!=", "<=", ">=", "(", ")", "[", "]", "@", ",", "/", "|", "+", "-", "=", "<", ">", "*", ".", "$",
}

func (l *lexer) next() (token, error) {
	rest, at := l.text[l.at:], l.at
	switch {
	case rest == "":
		return token{kind: endToken, at: at}, nil
	case rest[0] == '"' || rest[0] == '\'':
		end := strings.IndexByte(rest[1:], rest[0])
		if end < 0 {
			return token{}, l.fail(at, "the end of the text in quotes")
		}
		l.at += end + 2
		return token{kind: literalToken, text: rest[1 : end+1], at: at}, nil
	case isDigit(rest[0]) || len(rest) > 1 && rest[0] == '.' && isDigit(rest[1]):
		return l.number(), nil
	}
	if r, _ := utf8.DecodeRuneInString(rest); isNameStart(r) {
		return l.name()
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s) {
			l.at += len(s)
			if s == "*" && !l.afterOperand() {
				return token{kind: nameToken, text: "*", at: at}, nil
			}
			return token{kind: symbolToken, text: s, at: at}, nil
		}
	}
	return token{}, l.fail(at, "an expression of XPath 1.0")
}

func (l *lexer) fail(at int, expected string) error { return invalidPath(l.text, at, expected) }

// number reads digits with an optional point.
func (l *lexer) number() token {
	begin := l.at
	for l.at < len(l.text) && isDigit(l.text[l.at]) {
		l.at++
	}
	if l.at < len(l.text) && l.text[l.at] == '.' {
		l.at++
		for l.at < len(l.text) && isDigit(l.text[l.at]) {
			l.at++
		}
	}
	return token{kind: numberToken, text: l.text[begin:l.at], at: begin}
}

// afterOperand reports whether the previous token ends an operand, so that a
// name or * is an operator.
func (l *lexer) afterOperand() bool {
	if len(l.tokens) == 0 {
		return false
	}
	last := l.tokens[len(l.tokens)-1]
	return last.kind != symbolToken && last.kind != axisToken ||
		last.text == ")" || last.text == "]" || last.text == "." || last.text == ".."
}

// name reads an operator's name, a name test, or the name of a function, a node
// type or an axis.
func (l *lexer) name() (token, error) {
	t := token{kind: nameToken, at: l.at}
	t.text = l.ncName()
	if l.afterOperand() {
		switch t.text {
		case "and", "or", "mod", "div":
			t.kind = symbolToken
			return t, nil
		}
		return token{}, l.fail(t.at, "an operator")
	}
	if rest := l.text[l.at:]; strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "::") {
		l.at++
		t.prefix = t.text
		r, _ := utf8.DecodeRuneInString(l.text[l.at:])
		switch {
		case strings.HasPrefix(l.text[l.at:], "*"):
			l.at++
			t.text = "*"
			return t, nil
		case !isNameStart(r):
			return token{}, l.fail(l.at, "a name after the prefix")
		}
		t.text = l.ncName()
	}
	l.skipSpace()
	rest := l.text[l.at:]
	switch {
	case strings.HasPrefix(rest, "::"):
		l.at += 2
		t.kind = axisToken
	case strings.HasPrefix(rest, "(") && t.prefix == "" && isNodeType(t.text):
		t.kind = typeToken
	case strings.HasPrefix(rest, "("):
		t.kind = functionToken
	}
	return t, nil
}

func isNodeType(name string) bool {
	return name == "node" || name == "text" || name == "comment" || name == "processing-instruction"
}

// ncName reads a name without a colon.
func (l *lexer) ncName() string {
	begin := l.at
	for l.at < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[l.at:])
		if !isNameStart(r) && !unicode.IsDigit(r) && r != '-' && r != '.' && r != 0xB7 && !unicode.Is(unicode.M, r) {
			break
		}
		l.at += size
	}
	return l.text[begin:l.at]
}

func isNameStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
