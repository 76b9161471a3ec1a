package access

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// question is the input of a rule: the caller and the target.
type question struct {
	policy      *Policy
	credentials *Credentials
	target      Attributes
}

// verdict is the result of a check. A check that compares something that cannot be compared
// is unsure, and so is its negation. Only a rule that is certain to hold allows an operation.
type verdict int8

// The verdicts, in the order of "and" and "or".
const (
	no verdict = iota - 1
	unsure
	yes
)

func verdictOf(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

// check is a parsed rule.
type check interface {
	holds(q *question) verdict
}

type (
	constant bool               // "@" and "!"
	not      struct{ of check } // not X
	all      []check            // X and Y
	some     []check            // X or Y
	refers   string             // rule:NAME
	role     struct{ name template }
	// compares is KIND:MATCH: a credential, or a literal, and the value that it must
	// have.
	compares struct {
		kind  string
		match template
	}
)

func (c constant) holds(*question) verdict { return verdictOf(bool(c)) }
func (c not) holds(q *question) verdict    { return -c.of.holds(q) }

func (c all) holds(q *question) verdict {
	v := yes
	for _, x := range c {
		if v = min(v, x.holds(q)); v == no {
			break
		}
	}
	return v
}

func (c some) holds(q *question) verdict {
	v := no
	for _, x := range c {
		if v = max(v, x.holds(q)); v == yes {
			break
		}
	}
	return v
}

func (c refers) holds(q *question) verdict { return q.policy.rules[string(c)].check.holds(q) }

// holds compares names of roles without case.
func (c role) holds(q *question) verdict {
	name, v := c.name.fill(q.target)
	if v != yes {
		return v
	}
	return verdictOf(slices.ContainsFunc(q.credentials.Roles, func(r string) bool { return strings.EqualFold(r, name) }))
}

func (c compares) holds(q *question) verdict {
	match, v := c.match.fill(q.target)
	if v != yes {
		return v
	}
	if literal, ok := literalOf(c.kind); ok {
		switch {
		case c.kind == "None":
			return verdictOf(match == Null) // a text, even "None", is not null
		case match == Null:
			match = "None"
		}
		return verdictOf(literal == match)
	}
	value, known := q.credentials.value(c.kind)
	switch {
	case !known:
		return no
	case value == "None" && (match == Null || match == "None" && !c.match.constant()):
		return unsure // both are absent, or the text is the word for absent
	}
	return verdictOf(value == match)
}

// literalOf returns the text that a literal of Python stands for: a text in quotes, None,
// True, False or a whole number.
func literalOf(kind string) (string, bool) {
	if text, quoted := unquote(kind); quoted {
		return text, true
	}
	if kind == "None" || kind == "True" || kind == "False" {
		return kind, true
	}
	_, err := strconv.ParseInt(kind, 10, 64)
	return kind, err == nil
}

func unquote(text string) (string, bool) {
	if len(text) >= 2 && (text[0] == '\'' || text[0] == '"') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1], true
	}
	return "", false
}

// references returns the names of the rules that a check refers to.
func references(c check) (names []string) {
	switch c := c.(type) {
	case refers:
		return []string{string(c)}
	case not:
		return references(c.of)
	case all:
		for _, x := range c {
			names = append(names, references(x)...)
		}
	case some:
		for _, x := range c {
			names = append(names, references(x)...)
		}
	}
	return names
}

// ruleBytesMax bounds the text of a rule, and depthMax its parentheses.
const (
	ruleBytesMax = 16 << 10
	depthMax     = 50
)

// parse reads a rule of oslo.policy. "and" binds more tightly than "or", and
// "not" more tightly than both. An empty rule is always true.
func parse(text string) (check, error) {
	if len(text) > ruleBytesMax {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(text), ruleBytesMax)
	}
	words := split(text)
	if len(words) == 0 {
		return constant(true), nil
	}
	p := &parser{words: words}
	c, err := p.or()
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("unexpected %.64q: expected and, or, or the end of the rule", p.words[0])
	}
	return c, err
}

// split returns the words and parentheses of a rule. A parenthesis inside of
// "%(name)s" belongs to its word.
func split(text string) (words []string) {
	for _, field := range strings.Fields(text) {
		for strings.HasPrefix(field, "(") {
			words, field = append(words, "("), field[1:]
		}
		closing := 0
		for strings.HasSuffix(field, ")") {
			field, closing = field[:len(field)-1], closing+1
		}
		if field != "" {
			words = append(words, field)
		}
		for range closing {
			words = append(words, ")")
		}
	}
	return words
}

// parser reads the words of a rule.
type parser struct {
	words []string
	depth int
}

// accept consumes the next word if it is the expected one, in any case.
func (p *parser) accept(word string) bool {
	if len(p.words) > 0 && strings.EqualFold(p.words[0], word) {
		p.words = p.words[1:]
		return true
	}
	return false
}

func (p *parser) or() (check, error) {
	c, err := p.and()
	if err != nil {
		return nil, err
	}
	out := some{c}
	for p.accept("or") {
		if c, err = p.and(); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 1 {
		return out[0], nil
	}
	return out, nil
}

func (p *parser) and() (check, error) {
	c, err := p.unary()
	if err != nil {
		return nil, err
	}
	out := all{c}
	for p.accept("and") {
		if c, err = p.unary(); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 1 {
		return out[0], nil
	}
	return out, nil
}

func (p *parser) unary() (check, error) {
	if p.depth++; p.depth > depthMax {
		return nil, fmt.Errorf("more than %d nested parentheses or negations", depthMax)
	}
	defer func() { p.depth-- }()
	switch {
	case p.accept("not"):
		c, err := p.unary()
		return not{c}, err
	case p.accept("("):
		c, err := p.or()
		if err == nil && !p.accept(")") {
			err = fmt.Errorf("expected a closing parenthesis")
		}
		return c, err
	case len(p.words) == 0:
		return nil, fmt.Errorf("expected a check at the end of the rule")
	}
	word := p.words[0]
	p.words = p.words[1:]
	return leaf(word)
}

// leaf reads a single check.
func leaf(word string) (check, error) {
	switch word {
	case "@":
		return constant(true), nil
	case "!":
		return constant(false), nil
	}
	kind, match, found := cut(word)
	if !found || kind == "" || match == "" {
		return nil, fmt.Errorf("invalid check %.64q: expected KIND:MATCH, @ or !", word)
	}
	if literal, quoted := unquote(match); quoted {
		match = literal
	}
	switch kind {
	case "rule":
		return refers(match), nil
	case "http", "https":
		return nil, fmt.Errorf("check %.64q asks another server, which is not supported", word)
	}
	t, err := parseTemplate(match)
	switch {
	case err != nil:
		return nil, fmt.Errorf("invalid check %.64q: %w", word, err)
	case kind == "role":
		return role{t}, nil
	}
	return compares{kind, t}, nil
}

// cut splits a check at its first colon outside of quotes.
func cut(word string) (kind, match string, found bool) {
	if word[0] == '\'' || word[0] == '"' {
		if end := strings.IndexByte(word[1:], word[0]); end >= 0 && strings.HasPrefix(word[end+2:], ":") {
			return word[:end+2], word[end+3:], true
		}
		return "", "", false
	}
	return strings.Cut(word, ":")
}
