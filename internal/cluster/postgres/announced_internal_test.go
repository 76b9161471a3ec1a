package postgres

import (
	"slices"
	"testing"
)

// TestAnnounced gives announcements of this log, of one in another schema, of an earlier
// version, and malformed ones: any user of the database can send some.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]uint64{
		"0 7 own":          {7},
		"3 8 own":          nil,
		"0 7 other":        nil,
		"0 7 own schema":   nil,
		"":                 {0},
		"x":                nil,
		"0 -1 own":         nil,
		"4294967296 1 own": nil,
	} {
		var got []uint64
		announced(text, "own", func(sequence uint64) { got = append(got, sequence) })
		if !slices.Equal(got, want) {
			t.Errorf("%q: sequence %d, want %d", text, got, want)
		}
	}
	var got []uint64
	announced("0 7 own schema", "own schema", func(sequence uint64) { got = append(got, sequence) })
	if !slices.Equal(got, []uint64{7}) {
		t.Errorf("a schema with a blank: sequence %d, want 7", got)
	}
}
