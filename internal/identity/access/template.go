package access

import (
	"fmt"
	"strings"
)

// template is a text with references to attributes of the target, %(NAME)s. Texts and
// references take turns: texts[i] comes before names[i].
type template struct{ texts, names []string }

// constant returns whether the template has no references.
func (t template) constant() bool { return len(t.names) == 0 }

// fill replaces the references by the target's attributes. The verdict is no if the target
// lacks one, and unsure if one is not a text. The result is [Null] if the whole template is
// one attribute that is null; inside of a text, null is None.
func (t template) fill(from Attributes) (string, verdict) {
	if t.constant() {
		return t.texts[0], yes
	}
	var out strings.Builder
	for i, name := range t.names {
		value, found := "", false
		if from != nil {
			value, found = from.Attribute(name)
		}
		switch {
		case !found:
			return "", no
		case value == Other:
			return "", unsure
		case len(t.names) == 1 && t.texts[0] == "" && t.texts[1] == "":
			return value, yes
		case value == Null:
			value = "None"
		}
		out.WriteString(t.texts[i] + value)
	}
	return out.String() + t.texts[len(t.names)], yes
}

// parseTemplate reads a template. "%%" is a percent sign.
func parseTemplate(text string) (t template, err error) {
	var literal strings.Builder
	for text != "" {
		before, rest, found := strings.Cut(text, "%")
		literal.WriteString(before)
		if !found {
			break
		}
		if after, percent := strings.CutPrefix(rest, "%"); percent {
			literal.WriteByte('%')
			text = after
			continue
		}
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "("), ")s")
		if !strings.HasPrefix(rest, "(") || !closed || name == "" || strings.ContainsAny(name, "()%") {
			return t, fmt.Errorf("expected %%(NAME)s, or %%%% for a percent sign")
		}
		t.texts, t.names = append(t.texts, literal.String()), append(t.names, name)
		literal.Reset()
		text = after
	}
	t.texts = append(t.texts, literal.String())
	return t, nil
}
