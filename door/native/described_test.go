package native_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
)

// TestDescribedRequests derives requests from the OpenAPI document: for each
// member of each request, at any depth, values that its schema admits and values
// that it does not, and objects with an unknown member, with too few or too many
// members, or without a required one. The first kind must not be malformed, the
// second must be.
func TestDescribedRequests(t *testing.T) {
	t.Parallel()
	d := description(t)
	w := open(t, ostiary.Options{Record: authz.RecordingOptions{Decisions: 100}})
	path := "/stores/" + w.do(t, "GET", w.acme(t), "")["id"].(string) // requests may change the alias
	valid, invalid := 0, 0
	for _, r := range w.door.Routes {
		body := d.Paths[r.Pattern][strings.ToLower(r.Method)].RequestBody.Content["application/json"]
		if body.Schema == nil || r.Streams {
			continue
		}
		send := func(v any) (code string, text string) {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			rec := w.send(t, r.Method, strings.NewReplacer("/ostiary/v1", "", "/stores/{store}", path, "{name}", "reports").Replace(r.Pattern), string(raw))
			if rec.Code/100 != 2 {
				code, _ = decode(t, rec.Body.Bytes())["code"].(string)
			}
			return code, fmt.Sprintf("%s %s: %d %s", r.Name, raw, rec.Code, rec.Body)
		}
		var example map[string]any
		if err := json.Unmarshal(body.Example, &example); err != nil {
			t.Fatal(err)
		}
		good, bad := d.variants(body.Schema, example)
		for _, v := range good {
			if code, text := send(v); code == "malformed" {
				t.Errorf("refused: %s", text)
			}
			valid++
		}
		for _, v := range bad {
			code, text := send(v)
			if !slices.Contains([]string{"malformed", "invalid_request", "invalid_schema"}, code) {
				t.Errorf("not refused: %s", text)
			}
			if strings.Contains(text, `"nothing":1`) && !strings.Contains(text, "unknown member") {
				t.Errorf("the unknown member is not named: %s", text)
			}
			invalid++
		}
	}
	if valid < 200 || invalid < 1000 {
		t.Errorf("sent %d valid and %d invalid requests", valid, invalid)
	}
}

// exclusive are members that exclude others of the same object.
var exclusive = map[string][]string{
	"match": {"match_certificate"}, "match_certificate": {"match"}, "recorded": {"questions"}, "model": {"dialect", "source"}, "source": {"model"}, "since": {"after"},
	"subject_plain": {"subject_relation"}, "subject_relation": {"subject_plain"},
}

// variants returns values near v: good ones that the schema s admits and bad ones
// that it does not. v itself is admitted.
func (d *document) variants(s *schemaOf, v any) (good, bad []any) {
	for s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	bad = []any{[]any{[]any{}}, "\x00", math.Pi}
	switch {
	case s.Type == "":
		return []any{v}, nil
	case s.Type == "string" && len(s.Enum) > 0:
		return s.Enum, append(bad, "", true)
	case s.Type == "string" && s.Pattern == "" && s.Format == "":
		return []any{v}, []any{true, 1, []any{}, map[string]any{}}
	case s.Type == "string":
		return []any{v}, append(bad, "", ":", "x", true)
	case s.Type == "boolean" && len(s.Enum) > 0:
		return []any{true}, append(bad, false, nil)
	case s.Type == "boolean":
		return []any{true, false}, append(bad, 1)
	case s.Type == "integer":
		if good = []any{*s.Minimum}; *s.Maximum < 1<<53 { // a revision that far ahead is waited for
			good = append(good, *s.Maximum)
		}
		return good, append(bad, *s.Minimum-1, *s.Maximum*2+1, true)
	case s.Type == "array":
		good, bad = []any{[]any{}}, append(bad[1:], map[string]any{})
		in, out := d.variants(s.Items, d.instance(s.Items))
		for _, x := range in {
			good = append(good, []any{x}, []any{x, x})
		}
		for _, x := range out {
			bad = append(bad, []any{x})
		}
		return good[s.MinItems:], bad
	}
	return d.objects(s, v.(map[string]any), bad)
}

// objects is variants for an object x.
func (d *document) objects(s *schemaOf, x map[string]any, other []any) (good, bad []any) {
	good, bad = []any{x}, other
	if string(s.AdditionalProperties) != "false" {
		return good, bad
	}
	bad = append(bad, with(x, "nothing", 1), with(x, "", map[string]any{}))
	if s.MinProperties == 1 && *s.MaxProperties == 1 {
		x = map[string]any{}
		bad = append(bad, x)
	}
	for _, name := range s.Required {
		less := maps.Clone(x)
		delete(less, name)
		bad = append(bad, less)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		value, ok := x[name]
		if !ok {
			value = d.instance(s.Properties[name])
		}
		base := maps.Clone(x)
		for _, other := range exclusive[name] {
			delete(base, other)
		}
		in, out := d.variants(s.Properties[name], value)
		for _, v := range in {
			good = append(good, with(base, name, v))
		}
		for _, v := range out {
			bad = append(bad, with(base, name, v))
		}
	}
	return good, bad
}

// with returns a copy of an object with one more member.
func with(x map[string]any, name string, v any) map[string]any {
	x = maps.Clone(x)
	x[name] = v
	return x
}

// instance returns a value that a schema admits.
func (d *document) instance(s *schemaOf) any {
	for s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	switch s.Type {
	case "string":
		switch {
		case s.Example != nil:
			return s.Example
		case s.Format == "date-time":
			return "2026-01-01T00:00:00Z"
		case len(s.Enum) > 0:
			return s.Enum[0]
		case strings.Contains(s.Pattern, ":"):
			return "document:1"
		case s.Format == "ulid" || s.Pattern != "":
			return "01ARZ3NDEKTSV4RRFFQ69G5FAV"
		}
		return "x"
	case "boolean":
		return true
	case "integer":
		return *s.Minimum
	case "array":
		return []any{d.instance(s.Items)}
	case "object":
		x := map[string]any{}
		for _, name := range s.Required {
			x[name] = d.instance(s.Properties[name])
		}
		if s.MinProperties == 1 {
			name := slices.Sorted(maps.Keys(s.Properties))[0]
			x[name] = d.instance(s.Properties[name])
		}
		return x
	}
	return 1
}

// TestContentTypes checks the header of each kind of response.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	path := w.acme(t)
	for url, want := range map[string]string{
		path: "application/json", path + "/none": "application/json", path + "/export": "application/x-ndjson", "/openapi.json": "application/json",
	} {
		if rec := w.send(t, http.MethodGet, url, ""); rec.Header().Get("Content-Type") != want {
			t.Errorf("%s: Content-Type %q, want %q", url, rec.Header().Get("Content-Type"), want)
		}
	}
}
