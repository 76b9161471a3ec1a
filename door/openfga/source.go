package openfga

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/openfga/language/pkg/go/transformer"
)

// sourceBounds refuses a DSL text before the parser's recursion meets it.
func sourceBounds(src []byte) error {
	if len(src) > SourceBytesMax {
		return boundError("model text bytes", len(src), SourceBytesMax)
	}
	if !utf8.Valid(src) {
		return &Error{Kind: ErrSyntax, Text: "the text is not UTF-8"}
	}
	p := prescan{}
	for text := range bytes.Lines(src) {
		p.line++
		if len(text) > LineBytesMax {
			return p.at(0, boundError("bytes of a line", len(text), LineBytesMax))
		}
		for _, step := range []func([]byte) error{p.definition, p.condition, p.parentheses} {
			if err := step(beforeComment(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// prescan looks at a DSL text line by line for what the parser is slow at.
type prescan struct {
	line, depth, weight int
	// open is set from a condition's first line until its closing brace; size is
	// what it has of bytes so far.
	open       bool
	size       int
	conditions int
	quote      string // the quotation mark that is open inside a condition
	raw        bool
}

func (p *prescan) at(column int, e *Error) *Error {
	e.Line, e.Column = p.line, column+1
	return e
}

// definition looks for a line that starts one.
func (p *prescan) definition(text []byte) error {
	words := bytes.Fields(text)
	if len(words) == 0 {
		return nil
	}
	switch string(words[0]) {
	case "define", "type", "extend", "condition":
	default:
		return nil
	}
	p.depth = 0 // parentheses that are never closed must not spoil the rest
	if p.open {
		return p.at(0, &Error{Kind: ErrSyntax, Text: "the condition before this line is not closed by }"})
	}
	if string(words[0]) != "condition" {
		return nil
	}
	p.open, p.size, p.quote = true, 0, ""
	if p.conditions++; p.conditions > ConditionsMax {
		return p.at(0, boundError("conditions", p.conditions, ConditionsMax))
	}
	return nil
}

// condition follows a condition to its closing brace, past texts in quotes.
func (p *prescan) condition(text []byte) error {
	if !p.open {
		return nil
	}
	if p.size += len(text) + 1; p.size > ConditionBytesMax {
		return p.at(0, boundError("bytes of a condition", p.size, ConditionBytesMax))
	}
	for i := 0; i < len(text); i++ {
		rest := string(text[i:])
		switch {
		case p.quote != "" && text[i] == '\\' && !p.raw:
			i++
		case p.quote != "" && strings.HasPrefix(rest, p.quote):
			i += len(p.quote) - 1
			p.quote = ""
		case p.quote != "":
		case text[i] == '"' || text[i] == '\'':
			p.raw = i > 0 && (text[i-1] == 'r' || text[i-1] == 'R')
			p.quote = rest[:1]
			if strings.HasPrefix(rest, strings.Repeat(p.quote, 3)) {
				p.quote = rest[:3]
			}
			i += len(p.quote) - 1
		case text[i] == '}':
			p.open = false
			return nil
		}
	}
	if len(p.quote) == 1 {
		p.quote = "" // it ends with its line
	}
	return nil
}

func (p *prescan) parentheses(text []byte) error {
	last := byte(0)
	for i, c := range text {
		switch c {
		case '(':
			if p.depth++; last == '(' {
				p.weight += p.depth * p.depth
			}
		case ')':
			p.depth = max(p.depth-1, 0)
		}
		if c != ' ' && c != '\t' {
			last = c
		}
		if p.depth > NestingMax {
			return p.at(i, boundError("parentheses in each other", p.depth, NestingMax))
		}
		if p.weight > NestingWeightMax {
			return p.at(i, boundError("weight of nested parentheses", p.weight, NestingWeightMax))
		}
	}
	return nil
}

func beforeComment(line []byte) []byte {
	if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#")) {
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte(" #"))
	return bytes.TrimRight(line, " \r\n")
}

// jsonNesting is how deep objects and lists nest, as far as JSONNestingMax+1.
func jsonNesting(src []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(src) && deepest <= JSONNestingMax; i++ {
		switch c := src[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// unifyNewlines gives lines that end in CR LF the ending that the parser
// knows.
func unifyNewlines(src []byte) []byte { return bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n")) }

// parse runs the library's parser, which walks broken trees too and may panic
// on them: that is a syntax error like any other.
func parse(run func() (*openfgav1.AuthorizationModel, error)) (m *openfgav1.AuthorizationModel, err error) {
	defer func() {
		if r := recover(); r != nil {
			m, err = nil, &Error{Kind: ErrSyntax, Text: "the text is not a model"}
		}
	}()
	if m, err = run(); err != nil {
		return nil, syntaxErrors(err)
	}
	return m, nil
}

// syntaxErrorsMax is how many of a text's syntax errors are told.
const syntaxErrorsMax = 20

// syntaxErrors translates the library's errors, whose places are in their
// texts alone.
func syntaxErrors(err error) error {
	list := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		list = several.Unwrap()
	}
	var out []error
	for _, e := range list[:min(len(list), syntaxErrorsMax)] {
		in := syntaxError(e.Error())
		if at, ok := e.(*transformer.ModuleTransformationSingleError); ok {
			in.File = at.File
		}
		out = append(out, in)
	}
	if len(out) == 0 {
		return syntaxError(err.Error())
	}
	if len(out) == 1 {
		return out[0]
	}
	return errors.Join(out...)
}

func syntaxError(text string) *Error {
	e := &Error{Kind: ErrSyntax}
	if i := strings.Index(text, "line="); i >= 0 {
		n, _ := fmt.Sscanf(text[i:], "line=%d, column=%d:", &e.Line, &e.Column)
		if n == 2 {
			// Places in the library's errors count from 0.
			e.Line, e.Column = e.Line+1, e.Column+1
			_, text, _ = strings.Cut(text[i:], ": ")
		}
	}
	e.Text = clip(text)
	return e
}

// clip keeps an error's text short: it may quote the whole input.
func clip(s string) string {
	const most = 300
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\u00a0", " "), "?")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// limited reads at most left bytes and then says EOF.
type limited struct {
	r    io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, io.EOF
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
