package tuplefile

import (
	"encoding/json"
	"errors"
	"io"
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

// TestTemporaryFile writes more rows than are kept in memory, and breaks the file
// that has the others: before the end, and before the first tuple that expires.
func TestTemporaryFile(t *testing.T) {
	t.Parallel()
	plain := rel.Tuple{Object: rel.Object{Type: "doc", ID: strings.Repeat("x", 200)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
	expiring := plain
	expiring.Expires = 1
	for name, last := range map[string]*rel.Tuple{"the end": nil, "a tuple that expires": &expiring} {
		for _, broken := range []bool{false, true} {
			c := newCSVWriter(io.Discard)
			for c.early.file == nil {
				if err := c.Write(plain); err != nil {
					t.Fatal(err)
				}
			}
			if broken {
				c.early.file.Close()
			}
			var err error
			if last != nil {
				err = c.Write(*last)
				if (err != nil) != broken {
					t.Errorf("%s, broken %v: %v", name, broken, err)
				}
			}
			if err = errors.Join(err, c.Close()); (err != nil) != broken {
				t.Errorf("%s, broken %v: %v when it is closed", name, broken, err)
			}
			if c.early.file != nil {
				t.Errorf("%s, broken %v: the file is still open", name, broken)
			}
		}
	}
}

// TestInvalidContext writes a tuple whose context is not JSON.
func TestInvalidContext(t *testing.T) {
	t.Parallel()
	tuple := rel.Tuple{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}, Condition: "c", Context: "{"}
	for _, f := range []Format{JSON, JSONL, YAML} {
		w, err := NewWriter(io.Discard, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(tuple); !errors.Is(err, ErrTuple) {
			t.Errorf("%s: %v, expected ErrTuple", f, err)
		}
	}
}
