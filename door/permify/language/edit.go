package language

import (
	"fmt"
	"slices"
	"strings"
)

// Edit changes the statements of one entity.
type Edit struct {
	// Entity is the entity's name.
	Entity string
	// Write holds statements to add and Update statements to replace, as text.
	// Delete holds the names of statements to remove.
	Write, Update, Delete []string
}

// Kinds of errors of [Schema.Apply].
var (
	// ErrNoEntity means that an edit names an unknown entity.
	ErrNoEntity = fmt.Errorf("%w: no such entity", ErrSemantics)
	// ErrNoStatement means that an edit updates or deletes an unknown
	// statement.
	ErrNoStatement = fmt.Errorf("%w: no such statement", ErrSemantics)
	// ErrDuplicate means that an edit adds a statement that exists, or that
	// several edits change one statement.
	ErrDuplicate = fmt.Errorf("%w: statement exists", ErrSemantics)
)

// Apply returns the schema's text with the edits applied. Text that no edit
// touches stays as it is, including comments.
func (s *Schema) Apply(edits []Edit) (string, error) {
	var all []replacement
	for _, e := range edits {
		r, err := s.replacements(e)
		if err != nil {
			return "", err
		}
		all = append(all, r...)
	}
	slices.SortStableFunc(all, func(a, b replacement) int { return a.begin - b.begin })
	var b strings.Builder
	at := 0
	for _, r := range all {
		if r.begin < at {
			return "", fmt.Errorf("%w: several edits of one statement", ErrDuplicate)
		}
		b.WriteString(s.source[at:r.begin])
		b.WriteString(r.text)
		at = r.end
	}
	b.WriteString(s.source[at:])
	return b.String(), nil
}

// replacement replaces the bytes of the text from begin to end.
type replacement struct {
	begin, end int
	text       string
}

// replacements returns what one edit changes in the text.
func (s *Schema) replacements(edit Edit) ([]replacement, error) {
	e := s.Entity(edit.Entity)
	if e == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoEntity, edit.Entity)
	}
	var out []replacement
	for _, name := range edit.Delete {
		old := e.Statement(name)
		if old == nil {
			return nil, fmt.Errorf("%w: %s#%s", ErrNoStatement, e.Name, name)
		}
		out = append(out, replacement{old.begin, old.end, ""})
	}
	for _, text := range edit.Update {
		st, err := parseStatement(text)
		if err != nil {
			return nil, err
		}
		old := e.Statement(st.Name)
		if old == nil {
			return nil, fmt.Errorf("%w: %s#%s", ErrNoStatement, e.Name, st.Name)
		}
		out = append(out, replacement{old.begin, old.end, st.String()})
	}
	added := ""
	for _, text := range edit.Write {
		st, err := parseStatement(text)
		if err != nil {
			return nil, err
		}
		if e.Statement(st.Name) != nil && !slices.Contains(edit.Delete, st.Name) {
			return nil, fmt.Errorf("%w: duplication found for %s#%s", ErrDuplicate, e.Name, st.Name)
		}
		added += "\n    " + st.String()
	}
	if added != "" {
		out = append(out, replacement{e.end, e.end, added + "\n"})
	}
	return out, nil
}
