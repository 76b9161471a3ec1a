package storetest

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestScripts runs the store tests (".fga.yaml") of testdata/*.txtar and compares
// their reports or errors with the file "want". The other files are those that store
// tests name. The engine has small bounds: pages of two items and the depth 5.
func TestScripts(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/*.txtar", 1, func(t *testing.T, script string) {
		golden.Script(t, script, func(text []byte) string { return play(t, txtar.Parse(text).Files) })
	})
}

// opened is a file system that counts its open files.
type opened struct {
	fstest.MapFS
	files *int
}

func (o opened) Open(name string) (fs.File, error) {
	f, err := o.MapFS.Open(name)
	if err == nil {
		*o.files++
	}
	return openFile{f, o.files}, err
}

// openFile is an open file of [opened].
type openFile struct {
	fs.File
	files *int
}

func (f openFile) Close() error {
	*f.files--
	return f.File.Close()
}

// play returns the reports or errors of the store tests among files.
func play(t *testing.T, files []txtar.File) string {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{}), Bounds: authz.Bounds{PageItems: 2, Depth: 5}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	fsys := opened{MapFS: fstest.MapFS{}, files: new(int)}
	for _, f := range files {
		fsys.MapFS[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	var out strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file.Name, ".fga.yaml") {
			continue
		}
		fmt.Fprintf(&out, "# %s\n", file.Name)
		var report *Report
		f, err := Parse(file.Data)
		if err == nil {
			report, err = Run(t.Context(), e, f, fsys)
		}
		if *fsys.files != 0 {
			t.Errorf("%s: %d files are left open", file.Name, *fsys.files)
		}
		if err != nil {
			fmt.Fprintf(&out, "error: %v\n", err)
			continue
		}
		fmt.Fprintf(&out, "%q, passed %t\n", report.Name, report.Passed())
		for _, r := range report.Tests {
			fmt.Fprintf(&out, "%q %q: %d of %d questions are checks, %d and %d lists\n", r.Name, r.Description, r.Checks, r.Asked(), r.ListObjects, r.ListUsers)
			for _, failure := range r.Failures {
				fmt.Fprintf(&out, "\t%s: want %s, got %s\n", failure.Question, failure.Want, failure.Got)
			}
		}
	}
	return regexp.MustCompile(`[0-9A-Z]{26}`).ReplaceAllString(out.String(), "STORE")
}
