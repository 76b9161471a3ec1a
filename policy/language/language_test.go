package language_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
)

// script plays a txtar file whose files come in pairs: a text, and what play
// returns for it. The name of the second one is the kind of the result.
func script(t *testing.T, file string, play func(text []byte) (kind, result string)) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) == 0 || len(archive.Files)%2 != 0 {
		t.Fatalf("%s has %d files: expected pairs", file, len(archive.Files))
	}
	for i := 0; i < len(archive.Files); i += 2 {
		in, want := archive.Files[i], &archive.Files[i+1]
		text := strings.TrimSuffix(strings.ReplaceAll(string(in.Data), "$X", language.Namespace), "\n")
		kind, result := play([]byte(text))
		if result = strings.ReplaceAll(result, language.Namespace, "$X"); !strings.HasSuffix(result, "\n") {
			result += "\n"
		}
		switch {
		case golden.Rewrite():
			want.Name, want.Data = kind, []byte(result)
		case want.Name != kind || string(want.Data) != result:
			t.Errorf("%s: %s\ngot %s:\n%s\nexpected %s:\n%s", file, in.Name, kind, result, want.Name, want.Data)
		}
	}
	if golden.Rewrite() {
		if err := os.WriteFile(file, txtar.Format(archive), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefusedXML(t *testing.T) {
	t.Parallel()
	script(t, "testdata/refused_xml.txtar", func(text []byte) (string, string) {
		e, err := language.ParseXML(t.Context(), text, "policy.xml")
		if err == nil {
			return "accepted", "a policy"
		}
		if e != nil {
			t.Errorf("ParseXML returned a policy and %v", err)
		}
		var at *policy.Error
		if !errors.As(err, &at) || at.Position.Line < 1 || at.Position.Column < 1 {
			t.Errorf("%v has no position", err)
		}
		return "error", err.Error()
	})
}

func TestJSON(t *testing.T) {
	t.Parallel()
	script(t, "testdata/json.txtar", func(text []byte) (string, string) {
		e, err := language.ParseJSON(t.Context(), text, "policy.json")
		if err == nil {
			return "printed", string(reprint(t, e))
		}
		var at *policy.Error
		if e != nil || !errors.As(err, &at) || at.Position.Line < 1 {
			t.Errorf("a policy %v and %#v", e, err)
		}
		return "error", err.Error()
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	script(t, "testdata/text.txtar", func(text []byte) (string, string) {
		e, err := language.ParseText(t.Context(), text, "policy.alfa")
		if err == nil {
			return "printed", string(reprint(t, e)) + reprintText(t, e)
		}
		var at *policy.Error
		if e != nil || !errors.As(err, &at) || at.Position.Line < 1 {
			t.Errorf("a policy %v and %#v", e, err)
		}
		return "error", err.Error()
	})
}

// TestInexpressible prints policies that the text form cannot express.
func TestInexpressible(t *testing.T) {
	t.Parallel()
	script(t, "testdata/inexpressible.txtar", func(text []byte) (string, string) {
		e, err := language.ParseXML(t.Context(), text, "policy.xml")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := language.PrintText(e); err == nil {
			return "printed", string(text)
		} else {
			return "error", err.Error()
		}
	})
}

// reprintText prints a policy as text and checks that an equal tree is read from
// it. It returns "" if the text form cannot express the policy.
func reprintText(t *testing.T, e policy.Element) string {
	t.Helper()
	text, err := language.PrintText(e)
	if err != nil {
		if !strings.HasPrefix(err.Error(), "the text form has no ") {
			t.Error(err)
		}
		return ""
	}
	again, err := language.ParseText(t.Context(), text, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !equal(e, again) {
		t.Errorf("the policy printed as text differs from the tree:\n%s", text)
	}
	return string(text)
}

func TestXMLRoundTrip(t *testing.T) {
	t.Parallel()
	script(t, "testdata/accepted_xml.txtar", func(text []byte) (string, string) {
		e, err := language.ParseXML(t.Context(), text, "")
		if err != nil {
			return "error", err.Error()
		}
		return "printed", string(reprint(t, e))
	})
}

// reprint prints a policy as XML and checks that an equal tree is read from it.
func reprint(t *testing.T, e policy.Element) []byte {
	t.Helper()
	text, err := language.PrintXML(e)
	if err != nil {
		t.Fatal(err)
	}
	again, err := language.ParseXML(t.Context(), text, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !equal(e, again) {
		t.Errorf("the printed policy differs from the tree:\n%s", text)
	}
	reprintJSON(t, e)
	return text
}

// reprintJSON does the same in JSON.
func reprintJSON(t *testing.T, e policy.Element) []byte {
	t.Helper()
	text, err := language.PrintJSON(e)
	if err != nil {
		t.Fatal(err)
	}
	again, err := language.ParseJSON(t.Context(), text, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !equal(e, again) {
		t.Errorf("the policy printed as JSON differs from the tree:\n%s", text)
	}
	return text
}

// equal compares two trees without their positions.
func equal(a, b any) bool { return reflect.DeepEqual(withoutPositions(a), withoutPositions(b)) }

// withoutPositions returns a copy of a tree with zero positions.
func withoutPositions(tree any) any { return unplaced(reflect.ValueOf(tree)).Interface() }

func unplaced(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return v
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(unplaced(v.Elem()))
		return out
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		return unplaced(v.Elem())
	case reflect.Slice:
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(unplaced(v.Index(i)))
		}
		return out
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch {
			case field.Type == reflect.TypeFor[policy.Position]():
				out.Field(i).SetZero()
			case field.IsExported():
				out.Field(i).Set(unplaced(v.Field(i)))
			}
		}
		return out
	}
	return v
}

// conformance returns the folder of the conformance data of XACML 3.0, or skips
// the test if there is none.
func conformance(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("OSTIARY_XACML_CONFORMANCE")
	if folder == "" {
		folder = "../../../shared/xacml-conformance"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no conformance data: set OSTIARY_XACML_CONFORMANCE to their folder (%v)", err)
	}
	return folder
}

// TestConformancePolicies reads and prints every policy of the conformance data.
func TestConformancePolicies(t *testing.T) {
	t.Parallel()
	policies, texts := 0, 0
	err := filepath.WalkDir(conformance(t), func(file string, d fs.DirEntry, err error) error {
		folder := filepath.Base(filepath.Dir(file))
		if err != nil || !strings.HasSuffix(file, ".xml") || d.Name() != "Policy.xml" && folder != "Policies" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		e, err := language.ParseXML(t.Context(), text, file)
		if err != nil {
			t.Errorf("%v", err)
			return nil
		}
		policies++
		reprint(t, e)
		if reprintText(t, e) != "" {
			texts++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d policies read and printed, %d of them as text", policies, texts); texts == 0 {
		t.Error("the folder has no policies")
	}
}
