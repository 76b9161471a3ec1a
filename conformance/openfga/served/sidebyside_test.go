package served

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
)

// request is one line of the comparison. In path and body, {store} and {model}
// are replaced by ids of the server, {empty} by the id of a store without a
// model, {token:NAME} for the continuation token that the request of that name
// got.
type request struct {
	name, method, path, body string
	// contentType is application/json where it is "", absent where it is "-".
	contentType string
}

// answer has the parts of a response that are compared.
type answer struct {
	status      int
	contentType string
	ids         string // which of the protocol's own headers are there
	body        any    // normalized
	token       string
	raw         string
}

// side is one of the two servers, with a store.
type side struct {
	*servers.Server
	words  *strings.Replacer
	tokens map[string]string
}

// TestSideBySide sends the same requests to the original and to ours, one after
// the other, and compares status, headers, codes, texts and JSON. Each difference
// is in the table of differences with its reason. An entry of the table without a
// difference is an error as well.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	theirs, ours := prepared(t, servers.Original(t)), prepared(t, servers.Alone(t))
	known, used := differences(), make([]int, len(differences()))
	counted := map[string]int{}
	for _, r := range requests() {
		a, b := theirs.ask(t, r), ours.ask(t, r)
		kind := a.unlike(b)
		counted[kind]++
		if kind == "" {
			continue
		}
		i := slices.IndexFunc(known, func(d difference) bool { return d.kind == kind && d.names.MatchString(r.name) })
		if i >= 0 {
			used[i]++
			continue
		}
		t.Errorf("%s %s: %s %s %s\ntheirs %d %s %s %s\nours   %d %s %s %s", kind, r.name, r.method, r.path, clip(r.body),
			a.status, a.contentType, a.ids, clip(a.raw), b.status, b.contentType, b.ids, clip(b.raw))
	}
	for i, d := range known {
		if used[i] == 0 {
			t.Errorf("nothing differs any more: %s %s: %s", d.kind, d.names, d.why)
		}
		t.Logf("%3d × %-7s %s", used[i], d.kind, d.why)
	}
	t.Logf("%d requests: %d answered alike; of the others differ: %d in status, %d in headers, %d in JSON, %d in text alone",
		len(requests()), counted[""], counted[inStatus], counted[inHeaders], counted[inJSON], counted[inText])
}

func clip(s string) string { return s[:min(len(s), 600)] }

// prepared creates the flow's store on a server.
func prepared(t *testing.T, s *servers.Server) *side {
	t.Helper()
	x := &side{Server: s, words: strings.NewReplacer(), tokens: map[string]string{}}
	must := func(path, body, name string) string {
		t.Helper()
		a := x.ask(t, request{method: http.MethodPost, path: path, body: body})
		if a.status/100 != 2 {
			t.Fatalf("%s: %d %s", path, a.status, a.raw)
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(a.raw), &fields); err != nil {
			t.Fatal(err)
		}
		id, _ := fields[name].(string)
		return id
	}
	model, err := os.ReadFile("testdata/model.json")
	if err != nil {
		t.Fatal(err)
	}
	empty, store := must("/stores", `{"name":"empty"}`, "id"), must("/stores", `{"name":"story"}`, "id")
	id := must("/stores/"+store+"/authorization-models", string(model), "authorization_model_id")
	x.words = strings.NewReplacer("{store}", store, "{empty}", empty, "{model}", id)
	tuples, err := json.Marshal(story())
	if err != nil {
		t.Fatal(err)
	}
	must("/stores/"+store+"/write", `{"writes":{"tuple_keys":`+string(tuples)+`}}`, "")
	return x
}

func (x *side) fill(s string) string {
	s = x.words.Replace(s)
	for name, token := range x.tokens {
		s = strings.ReplaceAll(s, "{token:"+name+"}", token)
	}
	return s
}

func (x *side) ask(t *testing.T, r request) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, x.URL(x.fill(r.path)), strings.NewReader(x.fill(r.body)))
	if err != nil {
		t.Fatal(err)
	}
	switch r.contentType {
	case "":
		req.Header.Set("Content-Type", "application/json")
	case "-":
	default:
		req.Header.Set("Content-Type", r.contentType)
	}
	res, err := http.DefaultTransport.RoundTrip(req) // no redirects
	if err != nil {
		t.Fatalf("%s: %s: %v", x.Name, r.name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s: %s: %v", x.Name, r.name, err)
	}
	a := answer{status: res.StatusCode, contentType: res.Header.Get("Content-Type"), raw: string(body)}
	for _, name := range []string{"Openfga-Store-Id", "Openfga-Authorization-Model-Id", "Allow"} {
		if res.Header.Get(name) != "" {
			a.ids += name + " "
		}
	}
	a.body, a.token = normalized(body)
	x.tokens[r.name] = a.token
	return a
}

var (
	ulids = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
)

// normalized reads a body, line by line if it is a stream. It removes what differs
// between any two servers: ids, times, tokens, and the order of unordered lists.
func normalized(body []byte) (all []any, token string) {
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		var v any
		err := d.Decode(&v)
		if err == io.EOF {
			return all, token
		}
		if err != nil {
			return []any{"not JSON: " + string(body)}, ""
		}
		if m, ok := v.(map[string]any); ok {
			token, _ = m["continuation_token"].(string)
		}
		all = append(all, plain("", v))
	}
}

func plain(name string, v any) any {
	switch x := v.(type) {
	case string:
		if name == "continuation_token" && x != "" {
			return "<token>"
		}
		return times.ReplaceAllString(ulids.ReplaceAllString(x, "<id>"), "<time>")
	case map[string]any:
		for k, e := range x {
			x[k] = plain(k, e)
		}
	case []any:
		for i, e := range x {
			x[i] = plain("", e)
		}
		switch name {
		case "stores": // those of one millisecond have no order
			for _, e := range x {
				e.(map[string]any)["name"] = "<name>"
			}
		case "objects", "users", "tuples", "authorization_models":
			slices.SortFunc(x, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return v
}

// The kinds of differences between two answers.
const (
	inStatus  = "status"
	inHeaders = "headers"
	inJSON    = "JSON"
	inText    = "text"
)

// unlike returns the first kind of difference, "" for none.
func (a answer) unlike(b answer) string {
	switch {
	case a.status != b.status:
		return inStatus
	case a.contentType != b.contentType || a.ids != b.ids:
		return inHeaders
	case reflect.DeepEqual(a.body, b.body):
		return ""
	case reflect.DeepEqual(silent(a.body), silent(b.body)):
		return inText
	}
	return inJSON
}

// silent removes messages that are not empty.
func silent(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			if s, ok := e.(string); ok && k == "message" {
				e = s != ""
			}
			out[k] = silent(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = silent(e)
		}
		return out
	}
	return v
}
