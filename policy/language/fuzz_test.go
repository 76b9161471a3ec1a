package language_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/policy/language"
)

// seed adds the texts of scripts to a corpus.
func seed(f *testing.F, files ...string) {
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for i := 0; i < len(archive.Files); i += 2 {
			f.Add([]byte(strings.ReplaceAll(string(archive.Files[i].Data), "$X", language.Namespace)))
		}
	}
}

// FuzzParseXML checks that every policy that is read can be printed and read
// again.
func FuzzParseXML(f *testing.F) {
	seed(f, "testdata/accepted_xml.txtar", "testdata/refused_xml.txtar")
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := language.ParseXML(t.Context(), text, ""); err == nil {
			reprint(t, e)
		} else if e != nil {
			t.Fatalf("a policy and %v", err)
		}
	})
}

// FuzzParseJSON checks that every policy that is read can be printed and read
// again.
func FuzzParseJSON(f *testing.F) {
	seed(f, "testdata/json.txtar")
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := language.ParseJSON(t.Context(), text, ""); err == nil {
			reprintJSON(t, e)
		} else if e != nil {
			t.Fatalf("a policy and %v", err)
		}
	})
}

// FuzzParseText checks that every policy that is read can be printed as text and
// read again.
func FuzzParseText(f *testing.F) {
	seed(f, "testdata/text.txtar")
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := language.ParseText(t.Context(), text, ""); err == nil {
			if reprintText(t, e) == "" {
				t.Fatal("the policy cannot be printed again")
			}
		} else if e != nil {
			t.Fatalf("a policy and %v", err)
		}
	})
}

// BenchmarkParseXML reads a policy with one target and one rule, of which a large
// domain has many thousands.
func BenchmarkParseXML(b *testing.B) {
	text, err := os.ReadFile("../message/testdata/policy.xml")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := language.ParseXML(b.Context(), text, ""); err != nil {
			b.Fatal(err)
		}
	}
}
