package tosca_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestScripts plays testdata/*.txt: a text, a line of "----", and the template
// that is read as JSON, or the error. A text whose first line is "yaml" is YAML.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for i, step := range strings.Split(string(text), "====\n") {
			if i > 0 {
				out.WriteString("====\n")
			}
			in, want, ok := strings.Cut(step, "----\n")
			if !ok {
				t.Fatalf("%s: step %d has no line of ----", file, i+1)
			}
			got := parseStep(in)
			fmt.Fprintf(&out, "%s----\n%s\n", in, got)
			if !golden.Rewrite() && got != strings.TrimSuffix(want, "\n") {
				t.Errorf("%s: step %d:\n%s\ngot  %s\nwant %s", file, i+1, in, got, want)
			}
		}
		if golden.Rewrite() {
			if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// parseStep returns the template of a text, with the ids of its entities, or the
// error.
func parseStep(in string) string {
	for strings.HasPrefix(in, "#") {
		_, in, _ = strings.Cut(in, "\n")
	}
	rest, yaml := strings.CutPrefix(in, "yaml\n")
	t, err := tosca.Parse([]byte(rest), yaml)
	if err != nil {
		return "error: " + err.Error()
	}
	var ids []string
	for i := range t.Entities {
		ids = append(ids, t.Entities[i].Section.String()+" "+t.Entities[i].ID())
	}
	return strings.Join(ids, ", ") + "\n" + string(tosca.AppendJSON(nil, &t.Root))
}

// TestBounds checks each bound at its value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n-1), ",") + "]" }
	named := func(n int) string {
		return `{"policy_types":{"` + strings.Repeat("x", n) + `":{"version":"1.0.0"}}}`
	}
	versioned := func(n int) string {
		return fmt.Sprintf(`{"policy_types":{"x":{"version":"1.0.%d"}}}`, n)
	}
	for _, c := range []struct {
		name     string
		yaml     bool
		template bool
		at, over string
	}{
		{"DepthMax JSON", false, false, nested(tosca.DepthMax), nested(tosca.DepthMax + 1)},
		{"DepthMax YAML", true, false, nested(tosca.DepthMax), nested(tosca.DepthMax + 1)},
		{"ValuesMax JSON", false, false, list(tosca.ValuesMax), list(tosca.ValuesMax + 1)},
		{"ValuesMax YAML", true, false, list(tosca.ValuesMax), list(tosca.ValuesMax + 1)},
		{"NumberBytesMax", false, false, "0." + strings.Repeat("3", tosca.NumberBytesMax-2), "0." + strings.Repeat("3", tosca.NumberBytesMax-1)},
		{"YAMLBytesMax", true, false, "#" + strings.Repeat("x", tosca.YAMLBytesMax-1), "#" + strings.Repeat("x", tosca.YAMLBytesMax)},
		{"NameBytesMax", false, true, named(tosca.NameBytesMax), named(tosca.NameBytesMax + 1)},
		{"VersionPartMax", false, true, versioned(tosca.VersionPartMax), versioned(tosca.VersionPartMax + 1)},
	} {
		parse := func(text string) (err error) {
			var v tosca.Value
			if c.yaml {
				v, err = tosca.ParseYAML([]byte(text))
			} else {
				v, err = tosca.ParseJSON([]byte(text))
			}
			if err == nil && c.template {
				_, err = tosca.ReadTemplate(&v)
			}
			return err
		}
		if err := parse(c.at); err != nil {
			t.Errorf("%s: %.200v", c.name, err)
		}
		if err := parse(c.over); err == nil || len(err.Error()) > 500 {
			t.Errorf("%s, one above: %.600v", c.name, err)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "1", "1.0", "1.0.0.0", "1.0.x", "01.0.0", "1.-1.0", "1.+1.0", "1..0", " 1.0.0"} {
		if _, ok := tosca.ParseVersion(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"1.0.0", "1.0.0", 0}, {"1.0.0", "1.0.1", -1}, {"1.10.0", "1.9.9", 1}, {"10.0.0", "9.0.0", 1}, {"bad", "0.0.1", -1}} {
		if got := tosca.CompareVersions(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	parse := func(text string) *tosca.Value {
		v, err := tosca.ParseJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return &v
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[true,null]}`, ` {"b": [true, null], "a": 1}`, true},
		{`{"a":1}`, `{"a":"1"}`, false}, {`{"a":1}`, `{"b":1}`, false}, {`[1,2]`, `[2,1]`, false},
		{`{"a":1}`, `{"a":1,"b":1}`, false}, {`"true"`, `true`, false}, {`5`, `5.0`, false}, {`{"a":{"b":1}}`, `{"a":{"b":2}}`, false},
	} {
		if got := tosca.Equal(parse(c.a), parse(c.b)); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// FuzzParse checks that what is read prints and reads back as the same value, in
// both forms.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"x",null,true]}`, "a: 1\nb: [x, 'y', 2026-01-02]\n", "- &a x", "a: 0x1F\nb: .5\nc: ~", `{"\u0000":"\ud83d\ude00"}`, "? [a]\n: b", "!!binary x", "1e999", strings.Repeat("3", 400)} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, yaml bool) {
		parse := tosca.ParseJSON
		if yaml {
			parse = tosca.ParseYAML
		}
		v, err := parse(text)
		if err != nil {
			if _, ok := errors.AsType[*tosca.Error](err); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		json := tosca.AppendJSON(nil, &v)
		again, err := tosca.ParseJSON(json)
		if err != nil || !tosca.Equal(&v, &again) {
			t.Fatalf("%q became %q: %v", text, json, err)
		}
		printed, err := tosca.PrintYAML(&v)
		if err != nil {
			t.Fatal(err)
		}
		if len(printed) > tosca.YAMLBytesMax {
			return
		}
		again, err = tosca.ParseYAML(printed)
		if err != nil || !tosca.Equal(&v, &again) {
			t.Fatalf("%q became %q: %v", json, printed, err)
		}
		if template, err := tosca.ReadTemplate(&v); err == nil {
			if second, err := tosca.ReadTemplate(&template.Root); err != nil || !tosca.Equal(&second.Root, &template.Root) {
				t.Fatalf("the template %q is read as another one: %v", json, err)
			}
		}
	})
}
