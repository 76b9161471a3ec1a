package language

import (
	"fmt"
	"slices"
	"strings"
)

// Edit is a change of one entity's statements.
type Edit struct {
	Entity string
	// Write and Update are statements as text, Delete names.
	Write, Update, Delete []string
}

// Kinds of errors of Apply.
var (
	ErrNoEntity    = fmt.Errorf("%w: no such entity", ErrMeaning)
	ErrNoStatement = fmt.Errorf("%w: no such statement", ErrMeaning)
	ErrDuplicate   = fmt.Errorf("%w: there already", ErrMeaning)
)

// Apply returns the schema's text with edits made: what they do not touch,
// comments included, stays as it is written.
func (s *Schema) Apply(edits []Edit) (string, error) {
	var cuts []cut
	for _, e := range edits {
		c, err := s.cuts(e)
		if err != nil {
			return "", err
		}
		cuts = append(cuts, c...)
	}
	slices.SortStableFunc(cuts, func(a, b cut) int { return a.begin - b.begin })
	var b strings.Builder
	at := 0
	for _, c := range cuts {
		if c.begin < at {
			return "", fmt.Errorf("%w: a statement is changed twice", ErrDuplicate)
		}
		b.WriteString(s.source[at:c.begin])
		b.WriteString(c.text)
		at = c.end
	}
	b.WriteString(s.source[at:])
	return b.String(), nil
}

// cut replaces a part of the text.
type cut struct {
	begin, end int
	text       string
}

func (s *Schema) cuts(edit Edit) ([]cut, error) {
	e := s.Entity(edit.Entity)
	if e == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoEntity, edit.Entity)
	}
	var out []cut
	for _, name := range edit.Delete {
		old := e.Statement(name)
		if old == nil {
			return nil, fmt.Errorf("%w: %s#%s", ErrNoStatement, e.Name, name)
		}
		out = append(out, cut{old.begin, old.end, ""})
	}
	for _, text := range edit.Update {
		st, err := ParseStatement(text)
		if err != nil {
			return nil, err
		}
		old := e.Statement(st.Name)
		if old == nil {
			return nil, fmt.Errorf("%w: %s#%s", ErrNoStatement, e.Name, st.Name)
		}
		out = append(out, cut{old.begin, old.end, st.String()})
	}
	added := ""
	for _, text := range edit.Write {
		st, err := ParseStatement(text)
		if err != nil {
			return nil, err
		}
		if e.Statement(st.Name) != nil && !slices.Contains(edit.Delete, st.Name) {
			return nil, fmt.Errorf("%w: duplication found for %s#%s", ErrDuplicate, e.Name, st.Name)
		}
		added += "\n    " + st.String()
	}
	if added != "" {
		out = append(out, cut{e.end, e.end, added + "\n"})
	}
	return out, nil
}
