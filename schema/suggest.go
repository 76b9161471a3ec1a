package schema

import (
	"fmt"

	"github.com/ostiary/ostiary/internal/tool/quote"
)

// Suggestion returns the part of an error text that suggests a name for one that
// the schema lacks, for example ` (did you mean "viewer"?)`. It returns "" if no
// name is similar. With relation "" the name is the type's, otherwise that of the
// relation of the type.
func (s *Schema) Suggestion(typ, relation string) string {
	found := ""
	if relation == "" {
		found = quote.Nearest(typ, func(yield func(string) bool) {
			for i := range s.Types {
				if !yield(s.Types[i].Name) {
					return
				}
			}
		})
	} else if t, ok := s.Type(typ); ok {
		found = quote.Nearest(relation, func(yield func(string) bool) {
			for _, id := range s.RelationsOf(t) {
				if !yield(s.Relations[id].Name) {
					return
				}
			}
		})
	}
	if found == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", found)
}
