package language_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ostiary/ostiary/door/openfga/language"
)

// TestConditionMetadata checks that the module and the file of a condition are kept
// when a model in JSON is read and written.
func TestConditionMetadata(t *testing.T) {
	t.Parallel()
	const text = `{"schema_version":"1.2","type_definitions":[{"type":"user"}],"conditions":{"late":{"name":"late","expression":"hour > 17",` +
		`"parameters":{"hour":{"type_name":"TYPE_NAME_INT"},"tags":{"type_name":"TYPE_NAME_LIST","generic_types":[{"type_name":"TYPE_NAME_STRING"}]}},` +
		`"metadata":{"module":"clock","source_info":{"file":"clock.fga"}}}}}`
	m, _, err := language.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Conditions[0]; c.Module != "clock" || c.File != "clock.fga" {
		t.Errorf("%+v", c)
	}
	out, err := language.FormatJSON(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"module":"clock"`, `"file":"clock.fga"`, `"TYPE_NAME_LIST"`} {
		if !strings.Contains(strings.ReplaceAll(string(out), " ", ""), part) {
			t.Errorf("%s is lost: %s", part, out)
		}
	}
}

// TestBrokenModules checks the places that errors of modular models name.
func TestBrokenModules(t *testing.T) {
	t.Parallel()
	const list = "schema: '1.2'\ncontents:\n  - a.fga\n"
	for want, files := range map[string]fstest.MapFS{
		"fga.mod":                       {},
		"invalid model: fga.mod:1:1: ":  {"fga.mod": {Data: []byte("contents:\n  - a.fga\n")}, "a.fga": {Data: []byte("module a\n")}},
		"invalid model: fga.mod:1:9: ":  {"fga.mod": {Data: []byte("schema: '1.0'\ncontents:\n  - a.fga\n")}, "a.fga": {Data: []byte("module a\n")}},
		"a.fga":                         {"fga.mod": {Data: []byte(list)}},
		"begins with its module's name": {"fga.mod": {Data: []byte(list)}, "a.fga": {Data: []byte("# text\n\nmodel\n  schema 1.1\n")}},
		"invalid model: a.fga:3:":       {"fga.mod": {Data: []byte(list)}, "a.fga": {Data: []byte("module a\ntype user\ntype\n")}},
		"mapping":                       {"fga.mod": {Data: []byte("[")}},
	} {
		_, _, err := language.ParseModules(files)
		if want == "mapping" {
			want = "fga.mod"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	good := fstest.MapFS{"fga.mod": {Data: []byte(list)}, "a.fga": {Data: []byte("# a comment\n\n  # another\nmodule a\ntype user\n")}}
	if m, _, err := language.ParseModules(good); err != nil || len(m.Types) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
}
