package oracle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scripts returns the scripts of a folder by name.
func scripts(t testing.TB, dir string) map[string]Script {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in testdata/%s: %v", dir, err)
	}
	all := map[string]Script{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseScript(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".txt")] = s
	}
	return all
}

// TestSemanticsOfOracle checks the oracle against each row of the table in
// docs/semantics.md, and against what the page states in prose.
func TestSemanticsOfOracle(t *testing.T) {
	t.Parallel()
	all := scripts(t, "semantics")
	if len(all) < 15 {
		t.Fatalf("%d scripts in testdata/semantics", len(all))
	}
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := New(s.World, Conditions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range s.Asks {
				if got := o.Check(a.Question); got != a.Want {
					t.Errorf("%s = %s, want %s", a.Question, got, a.Want)
				}
			}
		})
	}
}

func TestScriptRoundTrip(t *testing.T) {
	t.Parallel()
	for name, s := range scripts(t, "semantics") {
		roundTrip(t, name, s.String())
	}
}

// roundTrip checks that reading a text and printing it gives the same text.
func roundTrip(t testing.TB, name, text string) {
	t.Helper()
	back, err := ParseScript(text)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	if again := back.String(); again != text {
		t.Fatalf("%s: printed\n%s\nread back and printed\n%s", name, text, again)
	}
}

func FuzzParseScript(f *testing.F) {
	for _, s := range scripts(f, "semantics") {
		f.Add(s.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScript(text)
		if err != nil {
			return
		}
		if printed := s.String(); len(s.World.Model.Types) > 0 {
			if back, err := ParseScript(printed); err == nil {
				roundTrip(t, "printed", back.String())
			}
		}
	})
}
