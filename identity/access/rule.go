package access

import (
	"fmt"
	"strings"
)

// question is the input of a rule: the caller and the target.
type question struct {
	policy      *Policy
	credentials *Credentials
	target      Target
}

// check is a parsed rule.
type check interface {
	holds(q *question) bool
}

type (
	constant bool               // "@" and "!"
	not      struct{ of check } // not X
	all      []check            // X and Y
	some     []check            // X or Y
	refers   string             // rule:NAME
	role     string             // role:NAME, in lower case or with a reference to the target
	// compares is KIND:MATCH: a credential, or a literal in quotes, and the value
	// that it must have.
	compares struct{ kind, match string }
)

func (c constant) holds(*question) bool { return bool(c) }
func (c not) holds(q *question) bool    { return !c.of.holds(q) }

func (c all) holds(q *question) bool {
	for _, x := range c {
		if !x.holds(q) {
			return false
		}
	}
	return true
}

func (c some) holds(q *question) bool {
	for _, x := range c {
		if x.holds(q) {
			return true
		}
	}
	return false
}

func (c refers) holds(q *question) bool { return q.policy.rules[string(c)].check.holds(q) }

// holds compares names of roles without case.
func (c role) holds(q *question) bool {
	name, ok := q.fill(string(c))
	if !ok {
		return false
	}
	for _, r := range q.credentials.Roles {
		if strings.EqualFold(r, name) {
			return true
		}
	}
	return false
}

func (c compares) holds(q *question) bool {
	match, ok := q.fill(c.match)
	if !ok {
		return false
	}
	if literal, quoted := unquote(c.kind); quoted {
		return literal == match
	}
	if c.kind == "None" {
		return match == Null
	}
	value, known := q.credentials.value(c.kind)
	// "None" means an absent value only if the rule itself contains it.
	return known && value == match && (match != "None" || c.match == "None")
}

// fill replaces %(NAME)s by the target's attribute. The second result is false if
// the target has no such attribute.
func (q *question) fill(match string) (string, bool) {
	name, found := strings.CutPrefix(match, "%(")
	if !found {
		return match, true
	}
	value, ok := q.target[strings.TrimSuffix(name, ")s")]
	return value, ok
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
	if rest, reference := strings.CutPrefix(match, "%("); reference && (!strings.HasSuffix(rest, ")s") || len(rest) == 2) {
		return nil, fmt.Errorf("invalid check %.64q: expected %%(NAME)s after the colon", word)
	}
	if literal, quoted := unquote(match); quoted {
		match = literal
	}
	switch kind {
	case "rule":
		return refers(match), nil
	case "role":
		return role(match), nil
	case "http", "https":
		return nil, fmt.Errorf("check %.64q asks another server, which is not supported", word)
	}
	return compares{kind, match}, nil
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
