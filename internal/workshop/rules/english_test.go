package rules

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The house's limits for prose.
const (
	// idiomsMax is the number of idioms allowed in 10,000 words of comment.
	idiomsMax = 10
	// fieldsDocumentedMin is the percentage of exported struct fields that have a
	// comment.
	fieldsDocumentedMin = 80
)

// idiom matches words that make a technical comment hard to read: code does
// not say, tell or know, and values do not stand or hang on something. Good
// code bases use these words at most three times in 10,000.
var idiom = regexp.MustCompile(`\b(says?|said|tells?|told|nobody|somebody|whoever|for who|hangs? on|stands?|anew|for good|beside|wanted)\b|\bis [\w.]+'s[.,;]`)

// TestPlainEnglish counts idioms in the comments of the product's code, and
// allows none in the texts of its errors.
func TestPlainEnglish(t *testing.T) {
	words, idioms := 0, []string{}
	handwritten(t, func(file string, text []byte) {
		eachToken(t, file, text, func(line int, tok token.Token, literal string) {
			at := file + ":" + strconv.Itoa(line) + ": "
			switch tok {
			case token.COMMENT:
				words += len(strings.Fields(literal)) - strings.Count(literal, "//")
				for _, found := range idiom.FindAllString(literal, -1) {
					idioms = append(idioms, at+found)
				}
			case token.STRING:
				if value, err := strconv.Unquote(literal); err == nil && strings.Count(value, " ") > 1 && idiom.MatchString(value) {
					t.Errorf("%stext %q: expected plain words instead of %q", at, value, idiom.FindString(value))
				}
			}
		})
	})
	if words < 10_000 {
		t.Fatalf("read only %d words of comment", words)
	}
	t.Logf("%d idioms in %d words of comment", len(idioms), words)
	if len(idioms)*10_000 > idiomsMax*words {
		t.Errorf("%d idioms in %d words of comment, at most %d in 10,000 are allowed:\n%s",
			len(idioms), words, idiomsMax, strings.Join(idioms, "\n"))
	}
}

// notProse matches the parts of a page that are no sentences: code, links and file
// names.
var notProse = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\\]\\([^)]*\\)|\\b[\\w-]+\\.md\\b")

// TestPagesArePlainEnglish allows no idioms in the pages for users.
func TestPagesArePlainEnglish(t *testing.T) {
	pages := 0
	page := func(name string, text []byte) {
		pages++
		for i, line := range strings.Split(notProse.ReplaceAllStringFunc(string(text), keepLines), "\n") {
			if found := idiom.FindString(line); found != "" {
				t.Errorf("%s:%d: expected plain words instead of %q: %s", name, i+1, found, line)
			}
		}
	}
	err := filepath.WalkDir(filepath.Join("../../..", "docs"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(name)
		page(name, text)
		return err
	})
	for _, name := range []string{"README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		text, readErr := os.ReadFile(filepath.Join("../../..", name))
		err = errors.Join(err, readErr)
		page(name, text)
	}
	if err != nil || pages < 20 {
		t.Fatalf("read %d pages, %v", pages, err)
	}
}

// keepLines returns the line ends of a text.
func keepLines(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }

// TestFieldsAreDocumented counts the exported fields of exported structs that
// have a comment.
func TestFieldsAreDocumented(t *testing.T) {
	all, missing := 0, []string{}
	handwritten(t, func(file string, text []byte) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Name.Name == "main" {
			return
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					if !name.IsExported() {
						continue
					}
					all++
					if field.Doc == nil && field.Comment == nil {
						missing = append(missing, file+": "+spec.Name.Name+"."+name.Name)
					}
				}
			}
			return true
		})
	})
	documented := all - len(missing)
	t.Logf("%d of %d exported fields are documented", documented, all)
	if all == 0 || documented*100 < fieldsDocumentedMin*all {
		t.Errorf("%d of %d exported fields are documented, expected %d %%; missing:\n%s",
			documented, all, fieldsDocumentedMin, strings.Join(missing, "\n"))
	}
}

// handwritten calls f with each Go file that is neither a test nor generated.
func handwritten(t *testing.T, f func(file string, text []byte)) {
	t.Helper()
	sources(t, func(_, file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("\n"+string(text), "\n// Code generated ") {
			return
		}
		name, err := filepath.Rel("../../..", file)
		if err != nil {
			t.Fatal(err)
		}
		f(name, text)
	})
}

// eachToken calls f with each comment and string literal of a Go file.
func eachToken(t *testing.T, file string, text []byte, f func(line int, tok token.Token, literal string)) {
	t.Helper()
	files := token.NewFileSet()
	source := files.AddFile(file, files.Base(), len(text))
	var s scanner.Scanner
	s.Init(source, text, func(at token.Position, msg string) { t.Fatalf("%s: %s", at, msg) }, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			return
		case token.COMMENT, token.STRING:
			f(source.Line(pos), tok, literal)
		}
	}
}
