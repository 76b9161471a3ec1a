package language

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// prescanDSL refuses a DSL text of more than bytesMax bytes, and texts that the
// parser would take too long for or recurse too deep in.
func prescanDSL(src []byte, bytesMax int) error {
	if len(src) > bytesMax {
		return boundError("model text bytes", len(src), bytesMax)
	}
	if !utf8.Valid(src) {
		return &Error{Kind: ErrSyntax, Text: "the text is not UTF-8"}
	}
	p := prescan{}
	for text := range bytes.Lines(src) {
		p.line++
		if len(text) > lineBytesMax {
			return p.at(0, boundError("bytes of a line", len(text), lineBytesMax))
		}
		for _, step := range []func([]byte) error{p.definition, p.condition, p.parentheses} {
			if err := step(beforeComment(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// prescan reads a DSL text line by line and counts what the parser is slow at.
type prescan struct {
	line   int // counted from 1
	depth  int // open parentheses of the current definition
	weight int // see nestingWeightMax
	// open is set from a condition's first line to its closing brace, and size is
	// the condition's bytes so far.
	open       bool
	size       int
	conditions int
	quote      string // the quotation mark that is open inside a condition, or ""
	raw        bool   // in the open string, a backslash is no escape
}

func (p *prescan) at(column int, e *Error) *Error {
	e.Line, e.Column = p.line, column+1
	return e
}

// definition handles a line that starts a definition.
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
	p.depth = 0 // unclosed parentheses of the definition before do not count
	if p.open {
		return p.at(0, &Error{Kind: ErrSyntax, Text: "the condition before this line is not closed by }"})
	}
	if string(words[0]) != "condition" {
		return nil
	}
	p.open, p.size, p.quote = true, 0, ""
	if p.conditions++; p.conditions > conditionsMax {
		return p.at(0, boundError("conditions", p.conditions, conditionsMax))
	}
	return nil
}

// condition finds the closing brace of an open condition. Braces inside strings
// do not count.
func (p *prescan) condition(text []byte) error {
	if !p.open {
		return nil
	}
	if p.size += len(text) + 1; p.size > conditionBytesMax {
		return p.at(0, boundError("bytes of a condition", p.size, conditionBytesMax))
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
		p.quote = "" // a string with single quotation marks ends with its line
	}
	return nil
}

// parentheses bounds the nesting of parentheses.
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
		if p.depth > nestingMax {
			return p.at(i, boundError("nested parentheses", p.depth, nestingMax))
		}
		if p.weight > nestingWeightMax {
			return p.at(i, boundError("weight of nested parentheses", p.weight, nestingWeightMax))
		}
	}
	return nil
}

// beforeComment returns a line without its comment and trailing blanks.
func beforeComment(line []byte) []byte {
	if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#")) {
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte(" #"))
	return bytes.TrimRight(line, " \r\n")
}
