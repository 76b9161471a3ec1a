package tuplefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
		for _, broken := range []string{"", "closed", "unreadable"} {
			var out bytes.Buffer
			c := newCSVWriter(&out)
			rows := 0
			for c.early.file == nil {
				if err := c.Write(plain); err != nil {
					t.Fatal(err)
				}
				rows++
			}
			if n := rows * len("user,anne,,viewer,doc,,,\n"+plain.Object.ID); n < earlyBytesMax || n > earlyBytesMax+8192 {
				t.Errorf("%d bytes of rows are in memory, expected %d", n, earlyBytesMax)
			}
			if _, err := os.Stat(c.early.file.Name()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the temporary file still has a name: %v", err)
			}
			switch broken {
			case "closed":
				c.early.file.Close()
			case "unreadable":
				file, err := os.OpenFile(filepath.Join(t.TempDir(), "rows"), os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				c.early.file.Close()
				c.early.file = file
			}
			var err error
			if last != nil {
				err = c.Write(*last)
				if (err != nil) != (broken != "") {
					t.Errorf("%s, the file is %q: %v", name, broken, err)
				}
				rows++
			}
			if err = errors.Join(err, c.Close()); (err != nil) != (broken != "") {
				t.Errorf("%s, the file is %q: %v when it is closed", name, broken, err)
			}
			if c.early.file != nil {
				t.Errorf("%s, the file is %q: it is still open", name, broken)
			}
			if n := bytes.Count(out.Bytes(), []byte("\n")); broken == "" && n != rows+1 {
				t.Errorf("%s: %d lines, expected %d", name, n, rows+1)
			}
		}
	}
}

// TestNoTemporaryFile writes more rows than are kept in memory where no temporary file
// can be created.
func TestNoTemporaryFile(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	var rows earlyRows
	if n, err := rows.Write(make([]byte, earlyBytesMax)); n != earlyBytesMax || err != nil {
		t.Errorf("as many bytes as are kept in memory: %d, %v", n, err)
	}
	if n, err := rows.Write([]byte{1}); n != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one more byte: %d, %v, expected the error of the directory", n, err)
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
