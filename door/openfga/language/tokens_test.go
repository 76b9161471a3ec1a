package language

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/schema"
)

// token matches a word, a number of blanks, the end of a line or a sign.
var token = regexp.MustCompile(`[A-Za-z0-9_.]+| +|[^A-Za-z0-9_. ]`)

// changedTokens changes a text at each of its tokens: it leaves the token out, and unless
// it is blanks, writes it twice, writes a sign that is no token in its place, and ends the
// text before it. It prints what read returns for each of these texts: its first line,
// and of the others those that the result of the whole text lacks.
func changedTokens(out *strings.Builder, src string, read func(string) string) {
	whole := strings.Split(read(src), "\n")
	line := 1
	for _, at := range token.FindAllStringIndex(src, -1) {
		text, before, after := src[at[0]:at[1]], src[:at[0]], src[at[1]:]
		fmt.Fprintf(out, "%d:%d %q\n", line, at[0]-strings.LastIndex(before, "\n"), text)
		for _, c := range []struct{ name, text string }{
			{"without", before + after}, {"twice", before + text + " " + text + after}, {"?", before + "?" + after}, {"end", before},
		} {
			if strings.TrimSpace(text) == "" && c.name != "without" {
				continue
			}
			first, rest, _ := strings.Cut(read(c.text), "\n")
			lines := slices.DeleteFunc(strings.Split(rest, "\n"), func(s string) bool { return s == "" || slices.Contains(whole, s) })
			fmt.Fprintf(out, "\t%s: %s\n", c.name, strings.Join(append([]string{first}, lines...), "\n\t\t"))
		}
		line += strings.Count(text, "\n")
	}
}

// described returns the error, or the meaning of a model and its canonical JSON.
func described(m *schema.Model, _ []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return "accepted\n" + describe(m)
}

// TestTokens changes the model of testdata/tokens.fga at each of its tokens. The
// outcomes are in testdata/tokens.txt.
func TestTokens(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/tokens.fga")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	changedTokens(&out, string(src), func(text string) string { return described(ParseDSL([]byte(text))) })
	golden.Equal(t, "testdata/tokens.txt", out.String())
}

// TestModuleTokens changes each file of the modular model of testdata/moduletokens.ar at each of
// its tokens, and leaves each file out. The outcomes are in testdata/moduletokens.txt.
func TestModuleTokens(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/moduletokens.ar")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, f := range archive.Files {
		files[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	var out strings.Builder
	for _, f := range archive.Files {
		fmt.Fprintf(&out, "%s\n", f.Name)
		others := fstest.MapFS{}
		for name, file := range files {
			if name != f.Name {
				others[name] = file
			}
		}
		fmt.Fprintf(&out, "missing: %s\n", described(ParseModules(others)))
		changedTokens(&out, string(f.Data), func(text string) string {
			others[f.Name] = &fstest.MapFile{Data: []byte(text)}
			return described(ParseModules(others))
		})
	}
	golden.Equal(t, "testdata/moduletokens.txt", out.String())
}

// brokenFS is a file system with a file that cannot be read.
type brokenFS struct {
	fs.FS
	name string
	err  error
}

type brokenFile struct {
	fs.File
	err error
}

func (b brokenFS) Open(name string) (fs.File, error) {
	f, err := b.FS.Open(name)
	if err == nil && name == b.name {
		f = brokenFile{f, b.err}
	}
	return f, err
}

func (b brokenFile) Read(p []byte) (int, error) { return iotest.ErrReader(b.err).Read(p) }

// TestUnreadableModules checks the errors of a modular model with a file that is
// missing, cannot be read, or is too large.
func TestUnreadableModules(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/moduletokens.ar")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is gone")
	size := 0
	for _, f := range archive.Files {
		size += len(f.Data)
	}
	for i, f := range archive.Files {
		files := fstest.MapFS{}
		for _, f := range archive.Files {
			files[f.Name] = &fstest.MapFile{Data: f.Data}
		}
		check := func(what string, b Bounds, fsys fs.FS, kind, cause error) {
			m, text, err := b.ParseModules(fsys)
			var e *Error
			if !errors.As(err, &e) || e.Kind != kind || !errors.Is(err, cause) || !errors.Is(err, schema.ErrModel) || e.File != f.Name || m != nil || text != nil {
				t.Errorf("%s %s: %v, expected %v of this file", f.Name, what, err, cause)
			}
			if kind == ErrFile && !strings.Contains(err.Error(), cause.Error()) {
				t.Errorf("%s %s: %v, expected a text with %v", f.Name, what, err, cause)
			}
		}
		check("cannot be read", Bounds{}, brokenFS{files, f.Name, broken}, ErrFile, broken)
		if i == len(archive.Files)-1 {
			if _, _, err := (Bounds{SourceBytes: size}).ParseModules(files); err != nil {
				t.Errorf("all files have as many bytes as the bound: %v", err)
			}
			check("is one byte too large", Bounds{SourceBytes: size - 1}, files, ErrBound, schema.ErrBound)
		}
		delete(files, f.Name)
		check("is missing", Bounds{}, files, ErrFile, fs.ErrNotExist)
	}
}

// TestPrescan checks what the check of a text before it is parsed counts in comments, in
// strings, and after an error of the definition before.
func TestPrescan(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("( ", nestingMax)
	closed := strings.Repeat(") ", nestingMax)
	for text, want := range map[string]string{
		"condition c() { x == R\"\\\" }\ndefine a: b":            "",
		"condition c() { x == r\"\\\" }\ndefine a: b":            "",
		"condition c() { x == R'\\' }\ndefine a: b":              "",
		"condition c() { x == b\"\\\" }\ndefine a: b":            "line 2, column 1: syntax error: the condition before this line is not closed by }",
		"condition c() { x == '''}''' }\ndefine a: b":            "",
		"condition c() { x == '''}'' }\ndefine a: b":             "line 2, column 1: syntax error: the condition before this line is not closed by }",
		"condition c() { x == ''''} }\ntype a":                   "line 2, column 1: syntax error: the condition before this line is not closed by }",
		"condition c() {\nx == 1 # }\ntype a":                    "line 3, column 1: syntax error: the condition before this line is not closed by }",
		"condition c() {\n   # }\nextend type a":                 "line 3, column 1: syntax error: the condition before this line is not closed by }",
		"condition c() {\n#}\ncondition d() {\n}":                "line 3, column 1: syntax error: the condition before this line is not closed by }",
		"condition c() {\nx#}\ntype a":                           "",
		"condition c() {\n}\ntype a\ncondition d() {\n}\ntype b": "",
		"condition c() {\nx == \"\"\"\n}\ntype a":                "line 4, column 1: syntax error: the condition before this line is not closed by }",
		"condition c() {\nx == \"\n}\ncondition d() {}\ntype a":  "",
		"condition c() {\nx == \"\"\"a\"\"\"\"\n}\ntype a":       "",
		"define a: " + deep + "b" + closed:                       "",
		"define a: " + deep + "(b" + closed:                      "line 1, column 61: bound exceeded: 26 nested parentheses, the maximum is 25",
		"define a: " + deep + "b#(":                              "line 1, column 63: bound exceeded: 26 nested parentheses, the maximum is 25",
		"define a: " + deep + "b #(":                             "",
		"define a: " + deep + "b # (":                            "",
		"define a: " + deep + "b\ndefine c: (":                   "",
		"define a: " + deep + "b\n (":                            "line 2, column 2: bound exceeded: 26 nested parentheses, the maximum is 25",
		"define a: " + strings.Repeat(")", 99) + deep:            "",
		"define a: " + closed + ") " + deep + "(":                "line 1, column 113: bound exceeded: 26 nested parentheses, the maximum is 25",
		"type a\xff": "syntax error: the text is not UTF-8",
		strings.Repeat("define a: (((((((((b\n", 70):          "",
		strings.Repeat("define a: (((((((((b\n", 71):          "line 71, column 17: bound exceeded: 20019 weight of nested parentheses",
		strings.Repeat("define a: ( (\t(((((((b\n", 71):       "line 71, column 19: bound exceeded: 20019 weight of nested parentheses",
		strings.Repeat("define a: (x(x(x(x(x(x(x(x(b\n", 99):  "",
		strings.Repeat("condition c() {}\n", conditionsMax):   "",
		strings.Repeat("condition c() {}\n", conditionsMax+1): "line 26, column 1: bound exceeded: 26 conditions, the maximum is 25",
	} {
		err := prescanDSL([]byte(text), SourceBytesMax)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%.99q: %v, expected %q", text, err, want)
		}
	}
}

// TestErrorTexts checks the texts of errors, and the errors that they are.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	for _, c := range []struct {
		err  Error
		want string
		is   []error
	}{
		{Error{Kind: ErrSyntax}, "syntax error", []error{schema.ErrModel}},
		{Error{Kind: ErrSyntax, Text: "x"}, "syntax error: x", nil},
		{Error{Kind: ErrFile, File: "a.fga", Text: "x", cause: cause}, "a.fga: file cannot be read: x", []error{cause, schema.ErrModel}},
		{Error{Kind: ErrSyntax, File: "a.fga", Line: 1}, "a.fga:1:1: syntax error", nil},
		{Error{Kind: ErrSyntax, File: "a.fga", Line: 3, Column: 4}, "a.fga:3:4: syntax error", nil},
		{Error{Kind: ErrSyntax, Line: 1}, "line 1, column 1: syntax error", nil},
		{Error{Kind: ErrSyntax, Line: 2, Column: 2}, "line 2, column 2: syntax error", nil},
		{Error{Kind: ErrBound, Type: "t"}, "type t: bound exceeded", []error{schema.ErrBound, schema.ErrModel}},
		{Error{Kind: ErrCycle, Type: "t", Relation: "r"}, "t#r: relations defined by each other", nil},
		{Error{Kind: ErrCondition, Condition: "c", Type: "t", Relation: "r"}, "condition c: invalid condition", nil},
	} {
		if got := c.err.Error(); got != "invalid model: "+c.want {
			t.Errorf("%q, expected %q", got, c.want)
		}
		for _, is := range append(c.is, c.err.Kind) {
			if !errors.Is(&c.err, is) {
				t.Errorf("%v is not %v", &c.err, is)
			}
		}
		if errors.Is(&c.err, schema.ErrBound) != (c.err.Kind == ErrBound) {
			t.Errorf("%v is the error of a bound", &c.err)
		}
	}
	for n, want := range map[int]int{300: 300, 301: 303} {
		if got := clip(strings.Repeat("x", n)); len(got) != want {
			t.Errorf("a text of %d bytes is clipped to %d, expected %d", n, len(got), want)
		}
	}
	if got := clip("a\u00a0b\xffc" + strings.Repeat("ä", 200)); !strings.HasPrefix(got, "a b?c") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("clipped to %q", got)
	}
}

// TestPlaces finds each definition of testdata/tokens.fga and of an extension.
func TestPlaces(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile(filepath.Join("testdata", "tokens.fga"))
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[[3]string]string{
		{"user"}: "3:6", {"doc"}: "4:6", {"doc", "owner"}: "6:12", {"doc", "viewer"}: "7:12", {"", "", "late"}: "15:11", {"user", "owner"}: "0:0",
		{"", "", "none"}: "0:0", {"doc", "none"}: "0:0", {"", "owner"}: "0:0", {}: "0:0", {"folder", "viewer"}: "14:12", {"folder", "owner"}: "0:0",
	} {
		line, column := Locate(src, part[0], part[1], part[2])
		if got := fmt.Sprint(line, ":", column); got != want {
			t.Errorf("%q: %s, expected %s", part, got, want)
		}
	}
	const extension = "module m\ntype t\n  relations\nextend type  type\n  relations\n    define define : a\ntype\ncondition(x)\ncondition condition(x: int) {"
	for part, want := range map[[3]string]string{{"type"}: "4:14", {"type", "define"}: "6:12", {"", "", "condition"}: "9:11", {"t", "define"}: "0:0"} {
		line, column := Locate([]byte(extension), part[0], part[1], part[2])
		if got := fmt.Sprint(line, ":", column); got != want {
			t.Errorf("%q of the extension: %s, expected %s", part, got, want)
		}
	}
}
