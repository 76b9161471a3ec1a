package authz

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

func timeText(t rel.Time) string { return t.Time().Format("2006-01-02T15:04:05.999999999Z07:00") }

func joinSubjects(list []rel.Subject) string {
	parts := make([]string, len(list))
	for i, sub := range list {
		parts[i] = sub.String()
	}
	return strings.Join(parts, ", ")
}

var marks = [...]string{expr.False: "✗", expr.Unknown: "?", expr.True: "✓"}

func searchedText(found []Searched) string {
	if len(found) == 0 {
		return "no tuple"
	}
	var parts []string
	for _, f := range found {
		for _, sub := range f.First {
			parts = append(parts, sub.String())
		}
		if more := f.Count - len(f.First); more > 0 {
			parts = append(parts, fmt.Sprintf("%d more %s", more, f.Subjects))
		}
	}
	return "no match among " + strings.Join(parts, ", ")
}

func valueText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
