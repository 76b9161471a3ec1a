package served

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
)

const importedModel = `{"schema_version":"1.1","type_definitions":[{"type":"user"},
	{"type":"group","relations":{"member":{"this":{}}},"metadata":{"relations":{"member":{"directly_related_user_types":[{"type":"user"},{"type":"group","relation":"member"}]}}}},
	{"type":"document","relations":{"blocked":{"this":{}},"viewer":{"this":{}},"can_view":{"difference":{"base":{"computedUserset":{"relation":"viewer"}},"subtract":{"computedUserset":{"relation":"blocked"}}}}},
	 "metadata":{"relations":{"blocked":{"directly_related_user_types":[{"type":"user"}]},
		"viewer":{"directly_related_user_types":[{"type":"user"},{"type":"user","wildcard":{}},{"type":"group","relation":"member"},{"type":"user","condition":"below"}]}}}}],
	"conditions":{"below":{"name":"below","expression":"x < limit","parameters":{"x":{"type_name":"TYPE_NAME_INT"},"limit":{"type_name":"TYPE_NAME_INT"}}}}}`

// olderModel admits a relation that importedModel does not have.
const olderModel = `{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"document","relations":{"legacy":{"this":{}}},
	"metadata":{"relations":{"legacy":{"directly_related_user_types":[{"type":"user"}]}}}}]}`

// askJSON sends a request to a server and returns the decoded body of its answer.
func askJSON(t *testing.T, s *servers.Server, method, path string, in any) map[string]any {
	t.Helper()
	var body []byte
	if text, ok := in.(string); ok {
		body = []byte(text)
	} else if in != nil {
		body, _ = json.Marshal(in)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL(path), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil && resp.ContentLength != 0 {
		t.Fatalf("%s %s: %d, %v", method, path, resp.StatusCode, err)
	}
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %v", method, path, resp.StatusCode, out)
	}
	return out
}

type key = map[string]any

func tupleOf(user, relation, object string) key {
	return key{"user": user, "relation": relation, "object": object}
}

// fillImported creates a store with two models, tuples of both, and assertions.
func fillImported(t *testing.T, s *servers.Server, name string, documents int) (store, model string) {
	t.Helper()
	store = askJSON(t, s, "POST", "/stores", key{"name": name})["id"].(string)
	base := "/stores/" + store
	write := func(keys ...key) {
		askJSON(t, s, "POST", base+"/write", key{"writes": key{"tuple_keys": keys}})
	}
	askJSON(t, s, "POST", base+"/authorization-models", olderModel)
	write(tupleOf("user:old", "legacy", "document:1"))
	model = askJSON(t, s, "POST", base+"/authorization-models", importedModel)["authorization_model_id"].(string)
	below := tupleOf("user:bob", "viewer", "document:1")
	below["condition"] = key{"name": "below", "context": key{"limit": 10}}
	write(tupleOf("user:anne", "member", "group:a"), tupleOf("group:a#member", "member", "group:b"), below, tupleOf("user:*", "viewer", "document:2"), tupleOf("user:anne", "blocked", "document:2"))
	for i := range documents {
		write(tupleOf("group:b#member", "viewer", fmt.Sprint("document:", i)), tupleOf("user:carl", "viewer", fmt.Sprint("document:", 2*i)))
	}
	askJSON(t, s, "PUT", base+"/assertions/"+model, key{"assertions": []key{{"tuple_key": tupleOf("user:anne", "can_view", "document:1"), "expectation": true}}})
	return store, model
}

// TestImportFromOriginal fills OpenFGA, imports from it, and compares what both
// servers answer for the same store and model ids.
func TestImportFromOriginal(t *testing.T) {
	t.Parallel()
	original := servers.Original(t)
	type filled struct{ store, model string }
	var stores []filled
	for i, documents := range []int{130, 3} {
		store, model := fillImported(t, original, fmt.Sprint("imported ", i), documents)
		stores = append(stores, filled{store, model})
	}
	data := filepath.Join(t.TempDir(), "data")
	out, err := run(t, flowWait, t.TempDir(), servers.Program(t), "import", "--data", data, "--from", original.URL(""))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "2 models, 266 tuples, 1 assertion") || !strings.Contains(out, "imported 2 stores") {
		t.Errorf("the import printed:\n%s", out)
	}
	ours := servers.Alone(t, "--data", data)
	for _, s := range stores {
		base := "/stores/" + s.store
		same := func(method, path string, in any) {
			t.Helper()
			theirs, got := askJSON(t, original, method, path, in), askJSON(t, ours, method, path, in)
			for _, a := range []map[string]any{theirs, got} {
				for _, field := range []string{"created_at", "updated_at"} { // an imported store is new
					delete(a, field)
				}
			}
			if !reflect.DeepEqual(theirs, got) {
				t.Errorf("%s %s %v:\nOpenFGA %v\nours    %v", method, path, in, theirs, got)
			}
		}
		same("GET", base, nil)
		same("GET", base+"/authorization-models", nil)
		same("GET", base+"/assertions/"+s.model, nil)
		for _, user := range []string{"user:anne", "user:bob", "user:carl", "user:old", "group:a#member"} {
			for _, relation := range []string{"viewer", "blocked", "can_view"} {
				for document := range 6 {
					for _, x := range []int{5, 15} {
						same("POST", base+"/check", key{"tuple_key": tupleOf(user, relation, fmt.Sprint("document:", document)), "authorization_model_id": s.model, "context": key{"x": x}})
					}
				}
			}
		}
	}
}
