package tuplefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/tools/txtar"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
)

// readableFile is a file of testdata/files.txtar without a mistake.
type readableFile struct {
	txtar.File
	format Format
	tuples []rel.Tuple
}

// readable returns the files of testdata/files.txtar that can be read.
func readable(t *testing.T) (out []readableFile) {
	t.Helper()
	for _, file := range readArchive(t) {
		f, err := FormatOf(file.Name)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := ReadAll(bytes.NewReader(file.Data), f); err == nil {
			out = append(out, readableFile{file, f, all})
		}
	}
	return out
}

// readArchive returns the files of testdata/files.txtar.
func readArchive(t *testing.T) []txtar.File {
	t.Helper()
	text, err := os.ReadFile("testdata/files.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := txtar.Parse(text).Files
	if len(files) == 0 {
		t.Fatal("testdata/files.txtar has no files")
	}
	return files
}

// outcome reads a file and returns its tuples, the places where they begin, and the
// error.
func outcome(text []byte, f Format) string {
	var out strings.Builder
	n := 0
	for tuple, err := range Read(bytes.NewReader(text), f) {
		if n++; err == nil {
			line, column := Locate(bytes.NewReader(text), f, n)
			fmt.Fprintf(&out, "\t%d:%d %s\n", line, column, tuple)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrTuple) && !errors.Is(err, ErrBound) && !errors.Is(err, rel.ErrName) {
			fmt.Fprintf(&out, "\tNOT AN ERROR OF THE PACKAGE: %T\n", err)
		}
		line, column := Locate(bytes.NewReader(text), f, n)
		fmt.Fprintf(&out, "\t%d:%d error: %s\n", line, column, strings.ReplaceAll(err.Error(), "\n", "\n\t"))
	}
	return out.String()
}

// TestFiles compares the tuples and errors of the files in testdata/files.txtar with
// testdata/files.txt. A file without its last byte, and one with CR LF, are compared
// too, if they give something else.
func TestFiles(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, file := range readArchive(t) {
		f, err := FormatOf(file.Name)
		if err != nil {
			t.Fatal(err)
		}
		whole := outcome(file.Data, f)
		fmt.Fprintf(&out, "%s\n%s", file.Name, whole)
		if other := outcome(bytes.TrimRight(file.Data, "\n"), f); other != whole {
			fmt.Fprintf(&out, "    without the last line end\n%s", other)
		}
		if other := outcome(bytes.ReplaceAll(file.Data, []byte("\n"), []byte("\r\n")), f); other != whole {
			fmt.Fprintf(&out, "    with CR LF\n%s", other)
		}
	}
	golden.Equal(t, "testdata/files.txt", out.String())
}

// TestBrokenFiles reads each file through a reader that fails after each number of
// bytes: the tuples before it must be those of the whole file, and then the error
// must come. Then it writes the tuples through a writer that fails, and through one that
// does not: the tuples of the new file must be the same.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for _, file := range readable(t) {
		f, all := file.format, file.tuples
		for n := range file.Data {
			i := 0
			var last error
			for tuple, err := range Read(io.MultiReader(bytes.NewReader(file.Data[:n]), iotest.ErrReader(broken)), f) {
				if last = err; err == nil {
					if i >= len(all) || tuple != all[i] {
						t.Errorf("%s, first %d bytes: tuple %d is %s", file.Name, n, i, tuple)
					}
					i++
				}
			}
			var e *Error
			if !errors.Is(last, broken) || !errors.As(last, &e) {
				t.Errorf("%s, first %d bytes: error %v, expected the one of the reader", file.Name, n, last)
			} else if lines := 1 + bytes.Count(file.Data[:n], []byte("\n")); e.Line < min(i, 1) || f == CSV && e.Line > lines {
				t.Errorf("%s, first %d bytes: line %d of %d", file.Name, n, e.Line, lines)
			} else if after, _ := Locate(bytes.NewReader(file.Data), f, max(i, 1)); f == CSV && i > 0 && e.Line <= after {
				t.Errorf("%s, first %d bytes: line %d, expected one after line %d of the last tuple", file.Name, n, e.Line, after)
			}
			if line, column := Locate(io.MultiReader(bytes.NewReader(file.Data[:n]), iotest.ErrReader(broken)), f, len(all)+1); f == YAML && (line != 0 || column != 0) {
				t.Errorf("%s, first %d bytes: a tuple at %d:%d", file.Name, n, line, column)
			}
		}
		for _, f := range []Format{CSV, JSON, JSONL, YAML} {
			testBrokenWriter(t, f, all)
			if again, err := ReadAll(strings.NewReader(write(t, f, all)), f); err != nil || fmt.Sprint(again) != fmt.Sprint(all) {
				t.Errorf("%s, written as %s: %v, %v, want %v", file.Name, f, again, err, all)
			}
		}
	}
}

// failingWriter fails after a number of bytes.
type failingWriter struct{ remaining int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.remaining -= len(p); w.remaining < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// testBrokenWriter checks that a file which cannot be written whole gives an error.
func testBrokenWriter(t *testing.T, f Format, tuples []rel.Tuple) {
	t.Helper()
	text := write(t, f, tuples)
	for n := range len(text) {
		w, err := NewWriter(&failingWriter{n}, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, tuple := range tuples {
			err = errors.Join(err, w.Write(tuple))
		}
		if err = errors.Join(err, w.Close()); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %d of %d bytes are written, error %v", f, n, len(text), err)
		}
	}
}

// TestFormats finds formats by the names of files and of formats.
func TestFormats(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Format{"a.csv": CSV, "a.CSV": CSV, "b/a.json": JSON, "a.jsonl": JSONL, "a.yaml": YAML, "a.yml": YAML, "a.fga.YAML": YAML} {
		if got, err := FormatOf(name); err != nil || got != want {
			t.Errorf("%s: %q, %v, expected %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", "a", "csv", "a.txt", "a.csv.gz", "a."} {
		if got, err := FormatOf(name); got != "" || !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %q, %v, expected ErrFormat", name, got, err)
		}
	}
	for tuple, err := range Read(strings.NewReader(""), "xml") {
		var e *Error
		if tuple != (rel.Tuple{}) || !errors.Is(err, ErrFormat) || !errors.As(err, &e) || e.Line != 1 {
			t.Errorf("a file of xml: %v, %v, expected ErrFormat at line 1", tuple, err)
		}
	}
	if _, err := NewWriter(io.Discard, "xml"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("a writer of xml: %v, expected ErrFormat with the name", err)
	}
}

// TestBounds reads a record, a context and a file at each bound, and above it.
func TestBounds(t *testing.T) {
	t.Parallel()
	json := func(n int) string { // of n bytes
		return `{"user":"user:1","relation":"r",` + strings.Repeat(" ", n-49) + `"object":"doc:1"}`
	}
	values := func(n int) string { // the context and the list are values too
		return "- user: user:1\n  relation: r\n  object: doc:1\n  condition: {name: c, context: {a: [" + strings.TrimSuffix(strings.Repeat("1,", n-2), ",") + "]}}\n"
	}
	for _, c := range []struct {
		name, at, above string
		f               Format
	}{
		{"values of a context", values(10_000), values(10_001), YAML},
		{"values of an alias", strings.Replace(values(8_999), "a: [", "b: &b ["+strings.TrimSuffix(strings.Repeat("1,", 499), ",")+"], c: *b, a: [", 1), strings.Replace(values(9_000), "a: [", "b: &b ["+strings.TrimSuffix(strings.Repeat("1,", 499), ",")+"], c: *b, a: [", 1), YAML},
	} {
		if _, err := ReadAll(strings.NewReader(c.at), c.f); err != nil {
			t.Errorf("%s at the bound: %v", c.name, err)
		}
		if _, err := ReadAll(strings.NewReader(c.above), c.f); !errors.Is(err, ErrBound) {
			t.Errorf("%s above the bound: %v", c.name, err)
		}
	}
	for n, above := range map[int]bool{67_108_864: false, 67_108_865: true} {
		// The parser refuses the first byte, so that it need not read the others.
		_, err := ReadAll(strings.NewReader("\x00"+strings.Repeat("#", n-1)), YAML)
		if err == nil || errors.Is(err, ErrBound) != above {
			t.Errorf("a YAML file of %d bytes: %v", n, err)
		}
	}
	// A response of OpenFGA is recognized within the first 256 bytes.
	for blanks, want := range map[int]string{247: "", 248: "unknown field"} {
		text := "{" + strings.Repeat(" ", blanks) + `"tuples":[{"key":{"user":"user:a","relation":"r","object":"doc:1"}}]}`
		if _, err := ReadAll(strings.NewReader(text), JSON); fmt.Sprint(err) != "<nil>" && want == "" || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("a response after %d blanks: %v, expected %q", blanks, err, want)
		}
		if line, column := Locate(strings.NewReader(text), JSON, 1); line+column > 0 != (want != "") {
			t.Errorf("a response after %d blanks: a tuple at %d:%d", blanks, line, column)
		}
	}
	// What the decoder reads ahead counts for a record, so its bound is not exact.
	for _, f := range []Format{JSON, JSONL} {
		if _, err := ReadAll(strings.NewReader(json(250<<10)), f); err != nil {
			t.Errorf("a record of 250 KiB: %v", err)
		}
		if _, err := ReadAll(strings.NewReader(json(262_144+8_192)), f); !errors.Is(err, ErrBound) {
			t.Errorf("a record of 264 KiB: %v", err)
		}
	}
}

// TestStop stops to read each file after each of its tuples: no more tuples and no error
// may follow.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, file := range readable(t) {
		f, all := file.format, file.tuples
		for stop := range all {
			i := 0
			Read(bytes.NewReader(file.Data), f)(func(tuple rel.Tuple, err error) bool {
				if err != nil || i > stop || tuple != all[i] {
					t.Errorf("%s, stopped at tuple %d: tuple %d is %v, error %v", file.Name, stop, i, tuple, err)
				}
				i++
				return i <= stop
			})
			if i != stop+1 {
				t.Errorf("%s, stopped at tuple %d: %d tuples", file.Name, stop, i)
			}
		}
	}
}

// TestWritten compares the files that are written in each format, without tuples, with
// one, and with several, with testdata/written.txt.
func TestWritten(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	expiring := sample(t)
	for _, f := range []Format{CSV, JSON, JSONL, YAML} {
		for _, tuples := range [][]rel.Tuple{nil, expiring[:1], expiring[:4], expiring} {
			fmt.Fprintf(&out, "%s, %d tuples\n%s", f, len(tuples), strings.ReplaceAll("\t"+write(t, f, tuples), "\n", "\n\t"))
			fmt.Fprintln(&out)
		}
	}
	golden.Equal(t, "testdata/written.txt", out.String())
}

// TestIsResponse recognizes responses of OpenFGA by their beginning.
func TestIsResponse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		start string
		f     Format
		want  bool
	}{
		{`{"tuples":[`, JSON, true},
		{"\n\t\r { \"changes\":[", JSON, true},
		{`{"continuation_token":""`, JSONL, true},
		{`{"user":"user:a"`, JSON, false},
		{`[{"tuples":[`, JSON, false},
		{`x{"tuples":[`, JSON, false},
		{"continuation_token: x\ntuples:\n", YAML, true},
		{"tuples:\n  - key:\n      user: user:a\n", YAML, true},
		{"tuples:\n  - user: user:a\n", YAML, false},
		{`{"tuples":[`, YAML, false},
		{"continuation_token: x\n", JSON, false},
		{"user_type,user_id\n", CSV, false},
		{`{"tuples":[`, CSV, false},
		{"", JSON, false},
		{"", YAML, false},
	} {
		if got := IsResponse([]byte(c.start), c.f); got != c.want {
			t.Errorf("%s %q: %v, expected %v", c.f, c.start, got, c.want)
		}
	}
}
