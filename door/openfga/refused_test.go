package openfga_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
)

// refusedModel is the model of the store in TestRefused.
const refusedModel = `{"schema_version":"1.1","type_definitions":[{"type":"user"},
	{"type":"group","relations":{"member":{"this":{}}},"metadata":{"relations":{"member":{"directly_related_user_types":[{"type":"user"},{"type":"group","relation":"member"}]}}}},
	{"type":"document","relations":{"parent":{"this":{}},"owner":{"this":{}},"viewer":{"union":{"child":[{"this":{}},{"computedUserset":{"relation":"owner"}},{"tupleToUserset":{"tupleset":{"relation":"parent"},"computedUserset":{"relation":"viewer"}}}]}},
		"reader":{"difference":{"base":{"computedUserset":{"relation":"viewer"}},"subtract":{"computedUserset":{"relation":"parent"}}}}},
		"metadata":{"relations":{"parent":{"directly_related_user_types":[{"type":"document"}]},"owner":{"directly_related_user_types":[{"type":"user"}]},
		"viewer":{"directly_related_user_types":[{"type":"user"},{"type":"user","wildcard":{}},{"type":"group","relation":"member"},{"type":"user","condition":"office"}]}}}}],
	"conditions":{"office":{"name":"office","expression":"ip == 'a' && names.all(n, n != ip)","parameters":{"ip":{"type_name":"TYPE_NAME_STRING"},"names":{"type_name":"TYPE_NAME_LIST","generic_types":[{"type_name":"TYPE_NAME_STRING"}]}}}}}`

// refusedTuples are what the store in TestRefused contains.
const refusedTuples = `{"writes":{"tuple_keys":[{"user":"user:a","relation":"owner","object":"document:1"},{"user":"group:g#member","relation":"viewer","object":"document:1"},
	{"user":"user:c","relation":"viewer","object":"document:1","condition":{"name":"office","context":{"ip":"a"}}},{"user":"user:b","relation":"member","object":"group:g"}]}}`

// validRequests are a valid request for each call with a body: the method and path
// below the store, and the body.
var validRequests = [][2]string{
	{"POST /check", `{"tuple_key":{"user":"user:a","relation":"viewer","object":"document:1"},"authorization_model_id":"","consistency":"HIGHER_CONSISTENCY","trace":true,"context":{"x":1},
		"contextual_tuples":{"tuple_keys":[{"user":"user:z","relation":"viewer","object":"document:2","condition":{"name":"office","context":{"ip":"a"}}}]}}`},
	{"POST /batch-check", `{"checks":[{"tuple_key":{"user":"user:a","relation":"viewer","object":"document:1"},"correlation_id":"1","context":{"x":1},
		"contextual_tuples":{"tuple_keys":[{"user":"user:z","relation":"viewer","object":"document:2"}]}}],"authorization_model_id":"","consistency":"MINIMIZE_LATENCY"}`},
	{"POST /expand", `{"tuple_key":{"relation":"viewer","object":"document:1"},"authorization_model_id":"","consistency":"UNSPECIFIED","contextual_tuples":{"tuple_keys":[{"user":"user:z","relation":"viewer","object":"document:2"}]}}`},
	{"POST /list-objects", `{"type":"document","relation":"viewer","user":"user:a","context":{"ip":"a"},"contextual_tuples":{"tuple_keys":[{"user":"user:z","relation":"viewer","object":"document:2"}]},"authorization_model_id":"","consistency":"UNSPECIFIED"}`},
	{"POST /streamed-list-objects", `{"type":"document","relation":"viewer","user":"user:a","context":{"ip":"a"},"contextual_tuples":{"tuple_keys":[{"user":"user:z","relation":"viewer","object":"document:2"}]},"authorization_model_id":"","consistency":"UNSPECIFIED"}`},
	{"POST /list-users", `{"object":{"type":"document","id":"1"},"relation":"viewer","user_filters":[{"type":"group","relation":"member"}],"context":{"ip":"a","names":[]},"contextual_tuples":[{"user":"user:z","relation":"viewer","object":"document:2"}],"authorization_model_id":"","consistency":"UNSPECIFIED"}`},
	{"POST /read", `{"tuple_key":{"user":"user:a","relation":"owner","object":"document:1"},"page_size":1,"continuation_token":"","consistency":"UNSPECIFIED"}`},
	{"POST /write", `{"writes":{"tuple_keys":[{"user":"user:n","relation":"viewer","object":"document:9","condition":{"name":"office","context":{"ip":"a"}}}],"on_duplicate":"ignore"},
		"deletes":{"tuple_keys":[{"user":"user:m","relation":"viewer","object":"document:9"}],"on_missing":"ignore"},"authorization_model_id":""}`},
	{"PUT /assertions/${model}", `{"assertions":[{"tuple_key":{"user":"user:a","relation":"viewer","object":"document:1"},"expectation":true,"contextual_tuples":[{"user":"user:z","relation":"viewer","object":"document:2"}],"context":{"ip":"a"}}]}`},
	{"POST /authorization-models", refusedModel},
	{"PATCH ", `{"name":"other"}`},
	{"POST /stores", `{"name":"other"}`},
}

// ids matches identifiers that differ in each run.
var ids = regexp.MustCompile(`[0-7][0-9A-HJKMNP-TV-Z]{25}`)

// TestRefused sends variants of valid requests.
func TestRefused(t *testing.T) {
	t.Parallel()
	doortest.Variants{File: "testdata/refused.txt", Requests: validRequests,
		Skip: func(path string) bool {
			return strings.HasSuffix(path, ".context") && !strings.HasPrefix(path, ".tuple")
		},
		Open: func(t *testing.T, call string) func([]byte) string {
			w := openRefused(t)
			method, path, _ := strings.Cut(call, " ")
			if path != "/stores" {
				path = "/stores/" + w.store + strings.Replace(path, "${model}", w.model, 1)
			}
			return func(body []byte) string { return w.send(t, method, path, body) }
		},
	}.Run(t)
}

// refusedWorld is a door with a store that has a model and tuples.
type refusedWorld struct {
	router       *door.Router
	store, model string
}

func openRefused(t *testing.T) *refusedWorld {
	t.Helper()
	router, err := door.NewRouter(open(t, openfga.Options{}).Routes)
	if err != nil {
		t.Fatal(err)
	}
	w := &refusedWorld{router: router}
	read := func(path, body, member string) string {
		rec := w.serve(http.MethodPost, path, []byte(body))
		var out map[string]any
		if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil || rec.Code/100 != 2 {
			t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
		}
		text, _ := out[member].(string)
		return text
	}
	w.store = read("/stores", `{"name":"acme"}`, "id")
	w.model = read("/stores/"+w.store+"/authorization-models", refusedModel, "authorization_model_id")
	read("/stores/"+w.store+"/write", refusedTuples, "")
	return w
}

func (w *refusedWorld) serve(method, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	var p door.Params
	route, _ := w.router.Find(method, path, &p)
	route.Serve(rec, r, p)
	return rec
}

// send returns the status, and the code and message of an error.
func (w *refusedWorld) send(t *testing.T, method, path string, body []byte) string {
	t.Helper()
	rec := w.serve(method, path, body)
	text := rec.Body.String()
	var out struct {
		Code, Message string
		Error         struct{ Message string }
		Result        map[string]struct {
			Error *struct{ Message string }
		}
	}
	line, _, _ := strings.Cut(text, "\n")
	_ = json.Unmarshal([]byte(line), &out) // a response of another form has no error
	message := out.Message + out.Error.Message
	for _, item := range out.Result {
		if item.Error != nil {
			message += "item: " + item.Error.Message
		}
	}
	if strings.Contains(message, "syntax error (line ") || strings.Contains(message, "invalid value for ") {
		message = "malformed JSON" // the rest comes from the protobuf library
	}
	message = strings.Join(strings.Fields(ids.ReplaceAllString(message, "<id>")), " ")
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", rec.Code, out.Code, message))
}
