package tuplefile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/rel"
)

// TestChangesMax reads the last change that a file may have, and one more.
func TestChangesMax(t *testing.T) {
	t.Parallel()
	const change = `{"operation":"TUPLE_OPERATION_WRITE","tuple_key":{"object":"d:1","relation":"v","user":"u:1"}}`
	for count, want := range map[int]error{ChangesMax - 1: nil, ChangesMax: ErrBound} {
		j := &jsonReader{in: &budget{}, dec: json.NewDecoder(strings.NewReader(change)), changes: &changes{at: map[rel.Key]int{}, count: count}}
		if err := j.change(); !errors.Is(err, want) {
			t.Errorf("after %d changes: %v, want %v", count, err, want)
		}
	}
}
