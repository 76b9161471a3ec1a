package native_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/native"
)

// document is the part of an OpenAPI document that the tests need.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]*schemaOf }
}

type operation struct {
	OperationID string
	Parameters  []struct{ Name, In string }
	RequestBody struct{ Content map[string]media }
	Responses   map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]media
	}
	Security *[]any
}

type media struct {
	Schema  *schemaOf
	Example json.RawMessage
}

// schemaOf is a JSON schema, with the features that the document uses.
type schemaOf struct {
	Ref                  string `json:"$ref"`
	Type                 string
	Properties           map[string]*schemaOf
	Required             []string
	AdditionalProperties json.RawMessage
	Items                *schemaOf
	Enum                 []any
	Pattern, Format      string
	Example              any
	MinItems             int
	MaxLength            *int
	MinProperties        int
	MaxProperties        *int
	Minimum, Maximum     *float64
}

func description(t testing.TB) *document {
	t.Helper()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// validate returns an error if a value does not match a schema. at is the path
// to the value.
func (d *document) validate(s *schemaOf, v any, at string) error {
	if s.Ref != "" {
		named := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		if named == nil {
			return fmt.Errorf("%s: unknown schema %s", at, s.Ref)
		}
		return d.validate(named, v, at)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: %v is not one of %v", at, v, s.Enum)
	}
	switch x := v.(type) {
	case map[string]any:
		return d.object(s, x, at)
	case []any:
		if s.Type != "array" && s.Type != "" {
			return fmt.Errorf("%s: got an array, want %s", at, s.Type)
		}
		for i := range x {
			if s.Items != nil {
				if err := d.validate(s.Items, x[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		}
	case string:
		if s.Type != "string" && s.Type != "" || s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(x) || s.MaxLength != nil && len(x) > *s.MaxLength {
			return fmt.Errorf("%s: %q is not a %s that matches %s", at, x, s.Type, s.Pattern)
		}
	case bool:
		if s.Type != "boolean" && s.Type != "" {
			return fmt.Errorf("%s: got a boolean, want %s", at, s.Type)
		}
	case float64:
		if s.Type != "integer" && s.Type != "number" && s.Type != "" || s.Minimum != nil && x < *s.Minimum || s.Maximum != nil && x > *s.Maximum {
			return fmt.Errorf("%s: %v is not a valid %s", at, x, s.Type)
		}
	default:
		return fmt.Errorf("%s: unexpected value %v", at, v)
	}
	return nil
}

func (d *document) object(s *schemaOf, x map[string]any, at string) error {
	if s.Type != "object" && s.Type != "" {
		return fmt.Errorf("%s: got an object, want %s", at, s.Type)
	}
	for _, name := range s.Required {
		if _, ok := x[name]; !ok {
			return fmt.Errorf("%s: %s is missing", at, name)
		}
	}
	if len(x) < s.MinProperties || s.MaxProperties != nil && len(x) > *s.MaxProperties {
		return fmt.Errorf("%s: %d members", at, len(x))
	}
	for name, v := range x {
		p := s.Properties[name]
		if p == nil && string(s.AdditionalProperties) == "false" {
			return fmt.Errorf("%s: %s is not described", at, name)
		}
		if p == nil {
			continue
		}
		if err := d.validate(p, v, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

// TestOpenAPIRoutes compares the document with the routes: methods, paths,
// names, parameters and whether they are public.
func TestOpenAPIRoutes(t *testing.T) {
	t.Parallel()
	d := description(t)
	w := open(t, ostiary.Options{})
	seen := 0
	for _, r := range w.door.Routes {
		op, ok := d.Paths[r.Pattern][strings.ToLower(r.Method)]
		if !ok || op.OperationID != r.Name {
			t.Errorf("%s %s (%s) is described as %q", r.Method, r.Pattern, r.Name, op.OperationID)
			continue
		}
		seen++
		var params []string
		for _, p := range op.Parameters {
			if p.In == "path" {
				params = append(params, "{"+p.Name+"}")
			}
		}
		if want := regexp.MustCompile(`\{[^}]*\}`).FindAllString(r.Pattern, -1); !slices.Equal(params, want) {
			t.Errorf("%s: parameters %v, want %v", r.Name, params, want)
		}
		if (op.Security != nil && len(*op.Security) == 0) != r.Public {
			t.Errorf("%s: public is %v", r.Name, r.Public)
		}
	}
	described := 0
	for _, p := range d.Paths {
		described += len(p)
	}
	if described != seen {
		t.Errorf("the document has %d operations, the door %d", described, seen)
	}
}

// TestOpenAPIExamples sends every example of the document, in the order of the
// routes, and checks requests and responses against their schemas.
func TestOpenAPIExamples(t *testing.T) {
	t.Parallel()
	d := description(t)
	w := open(t, ostiary.Options{})
	played := 0
	for _, r := range w.door.Routes {
		if r.Method == "DELETE" || r.Streams || r.Name == "OpenAPI" {
			continue
		}
		op := d.Paths[r.Pattern][strings.ToLower(r.Method)]
		body := op.RequestBody.Content["application/json"]
		if r.Method != "GET" {
			if body.Example == nil {
				t.Errorf("%s has no example", r.Name)
				continue
			}
			var v any
			if err := json.Unmarshal(body.Example, &v); err != nil {
				t.Fatal(err)
			}
			if err := d.validate(body.Schema, v, r.Name); err != nil {
				t.Error(err)
			}
		}
		path := strings.TrimPrefix(r.Pattern, "/ostiary/v1")
		path = strings.NewReplacer("{store}", "acme", "{schema}", "current", "{key}", "position", "{name}", "reports").Replace(path)
		rec := w.send(t, r.Method, path, string(body.Example))
		response, ok := op.Responses[fmt.Sprint(rec.Code)]
		if !ok {
			t.Errorf("%s: %d %s", r.Name, rec.Code, rec.Body)
			continue
		}
		var v any
		if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if err := d.validate(response.Content["application/json"].Schema, v, r.Name); err != nil {
			t.Errorf("%v in %s", err, rec.Body)
		}
		played++
	}
	if played < 20 {
		t.Errorf("%d examples were played", played)
	}
}

// TestOpenAPIErrors checks that every error has the documented form.
func TestOpenAPIErrors(t *testing.T) {
	t.Parallel()
	d := description(t)
	w := open(t, ostiary.Options{})
	for _, r := range w.door.Routes {
		if r.Name == "OpenAPI" || r.Name == "Me" || r.Name == "ListStores" || r.Name == "ListKeys" || r.Name == "ListLimits" || r.Name == "Nodes" {
			continue
		}
		rec := w.send(t, r.Method, strings.NewReplacer("/ostiary/v1", "", "{store}", "none", "{schema}", "x", "{key}", "x", "{name}", "x").Replace(r.Pattern), `{"x":`)
		var v any
		if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil || rec.Code < 400 {
			t.Fatalf("%s: %d %s", r.Name, rec.Code, rec.Body)
		}
		if err := d.validate(d.Components.Schemas["Error"], v, r.Name); err != nil {
			t.Error(err)
		}
	}
	rec := w.send(t, "GET", "/openapi.json", "")
	if !json.Valid(rec.Body.Bytes()) || rec.Code != 200 || native.Name != "native" {
		t.Error(rec.Code)
	}
}
