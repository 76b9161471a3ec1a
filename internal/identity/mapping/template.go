package mapping

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// template is a text with references {0}, {1} to values. {{ and }} are braces.
type template string

// errBraces is the error of a text with other braces.
var errBraces = errors.New("expected {0}, {1} and so on, or {{ and }} for braces")

// part is a part of a template: a text or a reference.
type part struct {
	text  string
	place int // number of the value; -1 for a text
}

// parts splits a template.
func (t template) parts() (all []part, err error) {
	rest := string(t)
	text := func(s string) {
		if s != "" {
			all = append(all, part{s, -1})
		}
	}
	for {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			text(rest)
			return all, nil
		}
		text(rest[:i])
		brace := rest[i]
		if rest = rest[i+1:]; rest != "" && rest[0] == brace {
			text(string(brace))
			rest = rest[1:]
			continue
		}
		number, after, closed := strings.Cut(rest, "}")
		place, err := strconv.Atoi(number)
		if brace == '}' || !closed || err != nil || place < 0 || strconv.Itoa(place) != number {
			return nil, errBraces
		}
		all, rest = append(all, part{place: place}), after
	}
}

// check fails if the template is malformed, or refers to a value that does not
// exist.
func (t template) check(places int) error {
	parts, err := t.parts()
	if err != nil {
		return fmt.Errorf("invalid text %.64q: %w", string(t), err)
	}
	for _, p := range parts {
		if p.place >= places {
			return fmt.Errorf("invalid text %.64q: {%d} refers to none of the %d values of the rule", string(t), p.place, places)
		}
	}
	return nil
}

// one returns the text with all references replaced. It fails if an attribute has
// not exactly one value.
func (t template) one(values [][]string) (string, error) {
	parts, err := t.parts()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range parts {
		if p.place < 0 {
			b.WriteString(p.text)
			continue
		}
		if v := values[p.place]; len(v) == 1 {
			b.WriteString(v[0])
		} else {
			return "", fmt.Errorf("value {%d} of %.64q has %d values: expected one", p.place, string(t), len(v))
		}
	}
	return b.String(), nil
}

// several returns the values of a template that is one reference, or otherwise its
// text.
func (t template) several(values [][]string) ([]string, error) {
	if t == "" {
		return nil, nil
	}
	if parts, err := t.parts(); err == nil && len(parts) == 1 && parts[0].place >= 0 {
		return values[parts[0].place], nil
	}
	text, err := t.one(values)
	return []string{text}, err
}
