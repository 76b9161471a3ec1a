package door_test

import (
	"net/http/httptest"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// TestCallMedia checks which media types are those that a door accepts.
func TestCallMedia(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                  "",
		"application/json":                  "application/json",
		"Application/JSON":                  "application/json",
		" application/json ;charset=latin1": "application/json",
		"text/yaml":                         "text/yaml",
		"text/csv":                          `unsupported Content-Type: "text/csv", expected application/json or text/yaml`,
		"application/jsonx":                 `unsupported Content-Type: "application/jsonx", expected application/json or text/yaml`,
		"application/json, text/yaml":       `unsupported Content-Type: "application/json, text/yaml", expected application/json or text/yaml`,
		";":                                 `unsupported Content-Type: ";", expected application/json or text/yaml`,
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", header)
		c := door.Call{R: r}
		got, err := c.Media("application/json", "text/yaml")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Content-Type %q: %s, expected %s", header, got, want)
		}
	}
}

// TestCallQuery checks which queries QueryOf refuses, and that Query accepts any names.
func TestCallQuery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, every, of string }{
		{"", "", ""},
		{"a=1&b=2", "", ""},
		{"b=1&b=2", "", ""},
		{"a=1&a=2", "", "invalid query: the parameter a comes twice"},
		{"c=1", "", `invalid query: unknown parameter "c"`},
		{"a=%zz", `invalid query: invalid URL escape "%zz"`, `invalid query: invalid URL escape "%zz"`},
		{"a=1;b=2", "invalid query: invalid semicolon separator in query", "invalid query: invalid semicolon separator in query"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = c.query
		call := door.Call{R: r}
		_, every := call.Query()
		_, of := call.QueryOf("a", "b...")
		for what, x := range map[string]struct {
			err  error
			want string
		}{"Query": {every, c.every}, "QueryOf": {of, c.of}} {
			got := ""
			if x.err != nil {
				got = x.err.Error()
			}
			if got != x.want {
				t.Errorf("%s of %q: %s, expected %s", what, c.query, got, x.want)
			}
		}
	}
}
