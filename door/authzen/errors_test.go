package authzen_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// TestErrors checks that an error of any call is an error response, never a
// denial, an empty list or a part of one.
func TestErrors(t *testing.T) {
	t.Parallel()
	w := open(t, readFile(t, "testdata/certification.txt"))
	empty, err := w.engine.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "empty"})
	if err != nil {
		t.Fatal(err)
	}
	const subject, action, resource = `"subject":{"type":"user","id":"alice"}`, `"action":{"name":"read"}`, `"resource":{"type":"record","id":"record-1"}`
	calls := map[string]string{
		"evaluation":      `{` + subject + `,` + action + `,` + resource + `}`,
		"evaluations":     `{` + subject + `,` + action + `,"evaluations":[{` + resource + `}]}`,
		"evaluations ":    `{` + subject + `,` + action + `,` + resource + `}`,
		"evaluations  ":   `{` + subject + `,` + action + `,"evaluations":[{` + resource + `}],"options":{"evaluations_semantic":"deny_on_first_deny"}}`,
		"search/subject":  `{"subject":{"type":"user"},` + action + `,` + resource + `}`,
		"search/resource": `{` + subject + `,` + action + `,"resource":{"type":"record"}}`,
		"search/action":   `{` + subject + `,` + resource + `}`,
	}
	long := `{"context":{"a":"` + strings.Repeat("x", 1<<20) + `"},`
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, body := range calls {
		path := "/access/v1/" + strings.TrimSpace(name)
		search, batch := strings.HasPrefix(name, "search"), strings.Contains(body, `"evaluations"`)
		want := func(path, body string, status int) {
			t.Helper()
			rec := send(t, w, path, body)
			if rec.Code != status || strings.HasPrefix(rec.Body.String(), "{") != (status == http.StatusOK) {
				t.Errorf("%s %.200s: %d %.200s, want %d", path, body, rec.Code, rec.Body, status)
			}
		}
		want(path, body, http.StatusOK)
		want(path, body+" more", http.StatusBadRequest)
		want(path, body[:len(body)-1], http.StatusBadRequest)
		want("/authzen/none"+path, body, http.StatusNotFound)
		if search {
			want(path, `{"page":{"limit":"many"},`+body[1:], http.StatusBadRequest)
			want(path, `{"page":{"token":"x"},`+body[1:], http.StatusBadRequest)
		}
		for _, member := range []string{subject, action, resource, `"subject":{"type":"user"}`, `"resource":{"type":"record"}`} {
			if rest := strings.Replace(body, member+",", "", 1); rest != body && !batch {
				want(path, rest, http.StatusBadRequest)
			}
		}
		if batch {
			// The error of an item is a denial that contains the error.
			rec := send(t, w, path, long+body[1:])
			if got := rec.Body.String(); rec.Code != http.StatusOK || !strings.Contains(got, `{"decision":false,"context":{"error":{"status":400,`) {
				t.Errorf("an evaluation with a context that is too long: %d %s", rec.Code, got)
			}
		} else {
			want(path, long+body[1:], http.StatusBadRequest)
			want("/authzen/"+empty.ID().String()+path, body, http.StatusBadRequest)
		}
		r := httptest.NewRequestWithContext(canceled, "POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		if w.ServeHTTP(rec, r); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("%s, canceled: %d %s", path, rec.Code, rec.Body)
		}
		r = httptest.NewRequest("POST", path, iotest.ErrReader(errors.New("broken")))
		r.Header.Set("Content-Type", "application/json")
		rec = httptest.NewRecorder()
		if w.ServeHTTP(rec, r); rec.Code/100 == 2 {
			t.Errorf("%s, a broken body: %d %s", path, rec.Code, rec.Body)
		}
	}
}

// TestRetryAfter checks that a response that the client should repeat later has
// the time to wait.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	w := open(t, readFile(t, "testdata/certification.txt"))
	const body = `{"subject":{"type":"user","id":"alice"},"action":{"name":"read"},"resource":{"type":"record","id":"record-1"}}`
	if rec := send(t, w, "/access/v1/evaluation", body); rec.Code != http.StatusOK || rec.Header().Get("Retry-After") != "" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
	if err := w.engine.Close(); err != nil {
		t.Fatal(err)
	}
	if rec := send(t, w, "/access/v1/evaluation", body); rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" {
		t.Errorf("closed: %d %v", rec.Code, rec.Header())
	}
}

// TestEvaluationsMax sends as many evaluations as the door accepts, and one more.
func TestEvaluationsMax(t *testing.T) {
	t.Parallel()
	w := open(t, readFile(t, "testdata/certification.txt"))
	const max = 100_000
	for n, refused := range map[int]bool{max: false, max + 1: true} {
		items := strings.TrimSuffix(strings.Repeat("{},", n), ",")
		rec := send(t, w, "/access/v1/evaluations", `{"evaluations":[`+items+`]}`)
		if got := strings.Contains(rec.Body.String(), "more than 100000 evaluations"); got != refused || refused && rec.Code != http.StatusBadRequest {
			t.Errorf("%d evaluations: %d %.200s", n, rec.Code, rec.Body)
		}
	}
}

// TestPages checks the limits of pages, and tokens of the right search with a
// wrong position.
func TestPages(t *testing.T) {
	t.Parallel()
	w := open(t, readFile(t, "testdata/certification.txt"))
	const most, size = 1000, 1001
	var add []rel.Tuple
	for i := range size {
		add = append(add, rel.Tuple{Object: rel.Object{Type: "record", ID: "many"}, Relation: "reader", Subject: rel.Subject{Type: "user", ID: "u" + strconv.Itoa(i)}})
	}
	if _, err := w.store.Write(t.Context(), authz.WriteRequest{Add: add}); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Page struct {
			Next  string `json:"next_token"`
			Count int
		}
		Results []any
	}
	const subjects = `"subject":{"type":"user"},"action":{"name":"read"},"resource":{"type":"record","id":"many"}}`
	for page, count := range map[string]int{"": most, `"page":{},`: most, `"page":{"limit":0},`: most, `"page":{"limit":1},`: 1,
		`"page":{"limit":1001},`: size, `"page":{"limit":2147483648},`: size} {
		rec := send(t, w, "/access/v1/search/subject", "{"+page+subjects)
		var got answer
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || len(got.Results) != count || (got.Page.Next == "") != (count == size) {
			t.Errorf("%s %d results, next %q, %v, want %d", page, len(got.Results), got.Page.Next, err, count)
		}
	}
	for _, page := range []string{`"page":{"limit":-1},`, `"page":{"limit":2147483649},`} {
		if rec := send(t, w, "/access/v1/search/subject", "{"+page+subjects); rec.Code != http.StatusBadRequest {
			t.Errorf("%s %d %.200s", page, rec.Code, rec.Body)
		}
	}
	const actions = `"subject":{"type":"user","id":"alice"},"resource":{"type":"record","id":"record-1"}}`
	rec := send(t, w, "/access/v1/search/action", `{"page":{"limit":1},`+actions)
	var got answer
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || got.Page.Next == "" {
		t.Fatalf("%s, %v", rec.Body, err)
	}
	search, position, _ := strings.Cut(got.Page.Next, ".")
	_, revision, _ := strings.Cut(position, ".")
	for cursor, status := range map[string]int{position: http.StatusOK, "0." + revision: http.StatusOK, "99." + revision: http.StatusOK,
		"-1." + revision: http.StatusBadRequest, "x." + revision: http.StatusBadRequest, "1": http.StatusBadRequest, "1.": http.StatusBadRequest, "1.x": http.StatusBadRequest} {
		rec := send(t, w, "/access/v1/search/action", `{"page":{"limit":1,"token":"`+search+"."+cursor+`"},`+actions)
		if rec.Code != status {
			t.Errorf("cursor %s: %d %.200s, want %d", cursor, rec.Code, rec.Body, status)
		}
	}
}

// TestBodyMax checks the response to a body that the server refuses while the door
// reads it.
func TestBodyMax(t *testing.T) {
	t.Parallel()
	w := open(t, readFile(t, "testdata/certification.txt"))
	r := httptest.NewRequest("POST", "/access/v1/evaluation", nil)
	r.Header.Set("Content-Type", "application/json")
	r.Body = http.MaxBytesReader(nil, io.NopCloser(strings.NewReader(`{"subject":{}}`)), 5)
	rec := httptest.NewRecorder()
	if w.ServeHTTP(rec, r); rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
