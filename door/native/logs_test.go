package native_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/storage/memory"
)

// page sends a request for a page of a log, checks the response against the description, and
// returns what name selects of its lines, and its cursor.
func (w *world) page(t *testing.T, path, body, lines, name string) (values []string, next string) {
	t.Helper()
	rec := w.send(t, "POST", path, body)
	if rec.Code != http.StatusOK {
		t.Fatalf("%s %s: %d %s", path, body, rec.Code, rec.Body)
	}
	var v any
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	d := description(t)
	if err := d.validate(d.Components.Schemas[map[string]string{"decisions": "LoggedDecisions", "records": "Records"}[lines]], withoutNull(v), path); err != nil {
		t.Errorf("%v in %s", err, rec.Body)
	}
	out := v.(map[string]any)
	for _, line := range out[lines].([]any) {
		values = append(values, fmt.Sprint(line.(map[string]any)[name]))
	}
	return values, out["next"].(string)
}

// withoutNull makes an unknown result one that the tests' schemas know.
func withoutNull(v any) any {
	lines, _ := v.(map[string]any)["decisions"].([]any)
	for _, line := range lines {
		if one := line.(map[string]any); one["result"] == nil {
			one["result"] = false
		}
	}
	return v
}

// TestDecisions reads the decision log with every filter, in pages, and as callers with lesser
// rights. No page has a decision of another store.
func TestDecisions(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	w.acme(t)
	id := w.do(t, "GET", "/stores/acme", "")["id"].(string)
	var text strings.Builder
	line := func(n int, store, subject, caller, result string) {
		fmt.Fprintf(&text, `{"labels":{"app":"ostiary"},"decision_id":"%d","timestamp":"2026-01-02T00:00:%02d.000000000Z","path":"native/Check","store":%q,"revision":"2","input":{"subject":%s,"relation":"viewer","object":"document:1"},"result":%s,"caller":%q,"metrics":{"timer_check_ns":1}}`+"\n", n, n, store, subject, result, caller)
	}
	line(1, id, `"user:anne"`, "reports", "true")
	line(2, id, `"user:\u0062ob"`, "reports", "false") // written with an escape
	line(3, "01ARZ3NDEKTSV4RRFFQ69G5FAV", `"user:anne"`, "reports", "true")
	text.WriteString(`{"number":4,"time":"2026-01-02T00:00:04Z","kind":"lost","count":3}` + "\n" + "no line of a log\n")
	line(5, id, `"user:anne\u202e<>&\"\\"`, id, "null")
	line(6, id, `"user:anne"`, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "false")
	if err := os.WriteFile(filepath.Join(w.logs, "decisions-000000000001.jsonl"), []byte(text.String()+`{"decision_id":"7"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string][]string{
		`{}`: {"6", "5", "2", "1"}, `{"limit":1000}`: {"6", "5", "2", "1"},
		`{"subject":"user:anne"}`: {"6", "1"}, `{"subject":"user:anne\u202e<>&\"\\"}`: {"5"}, `{"subject":"anne"}`: nil, `{"subject":""}`: nil,
		`{"relation":"viewer","object":"document:1"}`: {"6", "5", "2", "1"}, `{"relation":"editor"}`: nil, `{"object":"document:2"}`: nil,
		`{"result":"true"}`: {"1"}, `{"result":"false"}`: {"6", "2"}, `{"result":"unknown"}`: {"5"},
		`{"caller":"reports"}`: {"2", "1"}, `{"id":"5"}`: {"5"}, `{"id":"3"}`: nil, `{"id":"7"}`: nil,
		`{"since":"2026-01-02T00:00:02Z"}`: {"6", "5", "2"}, `{"until":"2026-01-02T00:00:02Z"}`: {"1"},
	} {
		if got, next := w.page(t, "/stores/acme/decisions", body, "decisions", "decision_id"); !reflect.DeepEqual(got, want) || next != "" {
			t.Errorf("%s: got %v %q, want %v", body, got, next, want)
		}
	}
	var all []string
	for cursor := ""; len(all) < 10; {
		got, next := w.page(t, "/stores/acme/decisions", fmt.Sprintf(`{"limit":1,"cursor":%q}`, cursor), "decisions", "decision_id")
		if all = append(all, got...); next == "" {
			break
		}
		cursor = next
	}
	if want := []string{"6", "5", "2", "1"}; !reflect.DeepEqual(all, want) {
		t.Errorf("pages of one: %v, want %v", all, want)
	}
	for body, code := range map[string]string{`{"x":1}`: "malformed", `{"limit":0}`: "malformed", `{"limit":1001}`: "malformed", `{"cursor":"x"}`: "cursor", `{"cursor":"../../1.1"}`: "cursor",
		`{"result":"maybe"}`: "malformed", `{"since":"yesterday"}`: "malformed", `{"store":"other"}`: "malformed", `{"log":"refusals"}`: "malformed"} {
		if rec := w.send(t, "POST", "/stores/acme/decisions", body); rec.Code != 400 || !strings.Contains(rec.Body.String(), `"code":"`+code+`"`) {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
	for _, c := range []struct {
		scope
		want int
	}{{scope{"acme", []authz.Right{authz.RightAdmin}}, 200}, {scope{"acme", []authz.Right{authz.RightWrite, authz.RightSchema}}, 403}, {scope{"acme", nil}, 403}, {scope{"other", []authz.Right{authz.RightAdmin}}, 403}} {
		for _, body := range []string{"{}", `{"x":1}`} {
			r := httptest.NewRequest("POST", "/ostiary/v1/stores/acme/decisions", strings.NewReader(body))
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, r.WithContext(authz.WithAccess(r.Context(), c.scope)))
			if want := c.want; rec.Code != want && !(body != "{}" && want == 200 && rec.Code == 400) {
				t.Errorf("%v %s: %d %s", c.scope, body, rec.Code, rec.Body)
			}
		}
	}
}

// TestAudit reads the audit log and that of refusals with every filter, in pages, and as callers
// that may not.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"", audit.RefusalsName} {
		l, err := audit.OpenFolder(w.logs, audit.Rotation{}, audit.Options{Key: key, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range []audit.Record{
			{Kind: audit.KindWrite, Door: "native", Operation: "Write", Caller: audit.Caller{ID: "reports"}, Store: "acme", Changes: []audit.Change{{Store: "S1", Revision: 3}}, Outcome: audit.Made},
			{Kind: audit.KindWrite, Door: "openfga", Operation: "Write", Caller: audit.Caller{ID: "<b>\u202e\""}, Store: "S1", Outcome: audit.Rejected},
			{Kind: audit.KindLogin, Door: "keystone", Operation: "IssueToken", Outcome: audit.Refused},
		} {
			r.Time = at.Add(time.Duration(i) * time.Second)
			if err := l.Append(&r); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for body, want := range map[string][]string{
		`{}`: {"4", "3", "2"}, `{"log":"audit"}`: {"4", "3", "2"}, `{"log":"refusals"}`: {"4", "3", "2"}, `{"kind":"begin"}`: {"1"}, `{"kind":"end"}`: {"5"},
		`{"kind":"write"}`: {"3", "2"}, `{"door":"native"}`: {"2"}, `{"operation":"IssueToken"}`: {"4"}, `{"outcome":"rejected"}`: {"3"},
		`{"store":"S1"}`: {"3", "2"}, `{"store":"acme"}`: {"2"}, `{"caller":"reports"}`: {"2"}, `{"caller":"anonymous"}`: {"4"}, `{"caller":"<b>\u202e\""}`: {"3"},
		`{"since":"2026-01-02T00:00:01Z","until":"2026-01-02T00:00:02Z"}`: {"3"},
	} {
		if got, next := w.page(t, "/audit", body, "records", "number"); !reflect.DeepEqual(got, want) || next != "" {
			t.Errorf("%s: got %v %q, want %v", body, got, next, want)
		}
	}
	got, next := w.page(t, "/audit", `{"limit":2}`, "records", "number")
	more, last := w.page(t, "/audit", fmt.Sprintf(`{"limit":2,"cursor":%q}`, next), "records", "number")
	if fmt.Sprint(got, more) != "[4 3] [2]" || last != "" {
		t.Error("pages of two:", got, more, last)
	}
	for body, code := range map[string]string{`{"x":1}`: "malformed", `{"limit":1001}`: "malformed", `{"cursor":"1"}`: "cursor", `{"log":"../audit"}`: "malformed", `{"subject":"user:anne"}`: "malformed"} {
		if rec := w.send(t, "POST", "/audit", body); rec.Code != 400 || !strings.Contains(rec.Body.String(), `"code":"`+code+`"`) {
			t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
		}
	}
	registry := callers.New(w.engine, callers.Options{})
	for name, c := range map[string]struct {
		stores, rights string
		want           int
	}{"all": {"*", "admin", 200}, "reader": {"*", "read", 403}, "one": {"acme", "admin", 403}, "several": {"a*", "admin", 403}} {
		made, err := registry.Create(t.Context(), callers.NewKey{Name: name, Stores: []string{c.stores}, Rights: []string{c.rights}})
		if err != nil {
			t.Fatal(err)
		}
		credential, err := registry.Secret(t.Context(), made.Secret)
		if err != nil {
			t.Fatal(err)
		}
		as := func(method, path, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, "/ostiary/v1"+path, strings.NewReader(body))
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, r.WithContext(authz.WithAccess(r.Context(), credential)))
			return rec
		}
		if rec := as("POST", "/audit", "{}"); rec.Code != c.want || c.want == 403 && !strings.Contains(rec.Body.String(), "admin on all stores") {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		if rec := as("GET", "/me", ""); !strings.Contains(rec.Body.String(), fmt.Sprintf(`"administers":%v`, c.want == 200)) {
			t.Errorf("%s: %s", name, rec.Body)
		}
	}
}

// TestNoLogs asks a server that keeps neither log in a folder.
func TestNoLogs(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{Driver: memory.New()})
	w.acme(t)
	none, err := native.New(w.engine, native.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w.router, err = door.NewRouter(none.Routes); err != nil {
		t.Fatal(err)
	}
	for path, flag := range map[string]string{"/audit": "--audit-folder", "/stores/acme/decisions": "--decision-log"} {
		if rec := w.send(t, "POST", path, "{}"); rec.Code != 409 || !strings.Contains(rec.Body.String(), `"not_recorded"`) || !strings.Contains(rec.Body.String(), flag) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}
