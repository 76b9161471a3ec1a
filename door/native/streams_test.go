package native_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
)

const model = `model
  schema 1.1
type user
type group
  relations
    define member: [user]
type document
  relations
    define owner: [user]
    define viewer: [user, user:*, group#member] or owner
`

// acme creates a store with a schema and returns its path.
func (w *world) acme(t testing.TB) string {
	t.Helper()
	w.do(t, "POST", "/stores", `{"name":"acme","aliases":{"native":"acme"}}`)
	text, err := json.Marshal(map[string]string{"dialect": "openfga-dsl", "source": model})
	if err != nil {
		t.Fatal(err)
	}
	w.do(t, "POST", "/stores/acme/schemas", string(text))
	return "/stores/acme"
}

func (w *world) add(t testing.TB, path string, tuples ...string) string {
	t.Helper()
	var list []string
	for _, tuple := range tuples {
		f := strings.Fields(tuple)
		list = append(list, fmt.Sprintf(`{"subject":%q,"relation":%q,"object":%q}`, f[0], f[1], f[2]))
	}
	return w.do(t, "POST", path+"/write", `{"add":[`+strings.Join(list, ",")+`]}`)["token"].(string)
}

// events reads a stream of server-sent events.
type events struct {
	t    testing.TB
	body io.ReadCloser
	in   *bufio.Scanner
}

func watch(t testing.TB, server *httptest.Server, path string, header ...string) *events {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/ostiary/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(resp.Status, resp.Header)
	}
	return &events{t, resp.Body, bufio.NewScanner(resp.Body)}
}

// next returns the next event's name, id and data.
func (e *events) next() (name, id string, data map[string]any) {
	e.t.Helper()
	for e.in.Scan() {
		line := e.in.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "id: "):
			id = line[4:]
		case strings.HasPrefix(line, "data: "):
			data = decode(e.t, []byte(line[6:]))
		case line == "" && name != "":
			return name, id, data
		}
	}
	e.t.Fatal("the stream ended", e.in.Err())
	return "", "", nil
}

func TestWatch(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	path := w.acme(t)
	first := w.add(t, path, "user:anne owner document:1")
	live := watch(t, server, path+"/watch?types=document")
	byToken := watch(t, server, path+"/watch?after="+first)
	resumed := watch(t, server, path+"/watch", "Last-Event-ID", first)
	w.add(t, path, "user:bob member group:g")
	second := w.add(t, path, "user:bob owner document:2")
	if name, id, data := live.next(); name != "entry" || id != second || fmt.Sprint(data["changes"]) != "[map[op:add tuple:map[object:document:2 relation:owner subject:user:bob]]]" {
		t.Error(name, id, data)
	}
	for _, e := range []*events{byToken, resumed} {
		for _, want := range []string{"3", "4"} {
			if _, _, data := e.next(); fmt.Sprint(data["revision"]) != want {
				t.Error(data, want)
			}
		}
	}
	// A watch of a deleted store ends with an error.
	w.do(t, "DELETE", path, "")
	if name, _, data := live.next(); name != "error" || data["code"] != "no_store" {
		t.Error(name, data)
	}
}

func TestWatchPermission(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	path := w.acme(t)
	w.add(t, path, "group:g#member viewer document:1")
	byObject := watch(t, server, path+"/watch-permission?object_type=document&relation=viewer&subject_type=user&object=1")
	bySubject := watch(t, server, path+"/watch-permission?object_type=document&relation=viewer&subject_type=user&subject=anne&subject=zoe")
	w.add(t, path, "user:nobody owner document:9")
	token := w.add(t, path, "user:anne member group:g")
	for _, e := range []*events{byObject, bySubject} {
		name, id, data := e.next()
		if name != "permission" || id != token || fmt.Sprint(data["changes"]) != "[map[after:true before:false object:document:1 subject:user:anne]]" {
			t.Error(name, id, data)
		}
	}
	w.add(t, path, "user:* viewer document:1")
	if _, _, data := byObject.next(); fmt.Sprint(data["changes"]) != "[map[after:true before:false everybody:true except:[user:anne] except_count:1 object:document:1 subject:user:*]]" {
		t.Error(data)
	}
	if _, _, data := bySubject.next(); fmt.Sprint(data["changes"]) != "[map[after:true before:false object:document:1 subject:user:zoe]]" {
		t.Error(data)
	}
}

// TestStreams checks that an export can be imported and exported again without
// a difference.
func TestStreams(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	path := w.acme(t)
	for i := range 30 {
		w.add(t, path, fmt.Sprintf("user:é%d:x owner document:a/b%%c%d", i, i), fmt.Sprintf("group:g%d#member viewer document:%d", i, i))
	}
	text := w.send(t, "GET", path+"/export", "").Body.String()
	if n := strings.Count(text, "\n"); n != 61 {
		t.Fatalf("%d lines", n)
	}
	w.do(t, "POST", "/stores", `{"name":"copy","aliases":{"native":"copy"}}`)
	source, err := json.Marshal(map[string]string{"dialect": "openfga-dsl", "source": model})
	if err != nil {
		t.Fatal(err)
	}
	w.do(t, "POST", "/stores/copy/schemas", string(source))
	if got := w.do(t, "POST", "/stores/copy/import", text); fmt.Sprint(got["read"]) != "60" {
		t.Error(got)
	}
	if again := w.do(t, "POST", "/stores/copy/import?on_duplicate=ignore", text); fmt.Sprint(again["revision"]) != "2" {
		t.Errorf("a retry made a revision: %v", again)
	}
	lines := func(s string) string { // without the end line, whose token differs between stores
		return s[:strings.LastIndex(strings.TrimRight(s, "\n"), "\n")]
	}
	if copied := w.send(t, "GET", "/stores/copy/export", "").Body.String(); lines(copied) != lines(text) {
		t.Errorf("%s\n%s", text, copied)
	}
	cut := text[:strings.LastIndex(strings.TrimRight(text, "\n"), "\n")] // no end
	if strings.Contains(cut, `"end"`) {
		t.Error("the cut stream has an end")
	}
	long := `{"tuple":{"object":"document:1","relation":"owner","subject":"user:` + strings.Repeat("x", 1<<20) + `"}}`
	w.refused(t, "POST", "/stores/copy/import", long, 413, "bound")
	w.refused(t, "POST", "/stores/copy/import?on_duplicate=maybe", "", 400, "invalid_request")
	w.refused(t, "POST", "/stores/copy/import", text+"\n"+text, 400, "invalid_request")
	w.refused(t, "GET", "/stores/copy/export?token=x", "", 400, "token")
}

// broken is a ResponseWriter whose client disconnects midway.
type broken struct {
	header http.Header
	left   int
}

func (b *broken) Header() http.Header { return b.header }
func (b *broken) WriteHeader(int)     {}
func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestExportBroken checks that an export ends when its client disconnects.
func TestExportBroken(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	path := w.acme(t)
	for i := range 40 {
		var tuples []string
		for j := range 100 {
			tuples = append(tuples, fmt.Sprintf("user:u%d owner document:d%d-%d", j, i, j))
		}
		w.add(t, path, tuples...)
	}
	w.ServeHTTP(&broken{http.Header{}, 100_000}, httptest.NewRequest("GET", "/ostiary/v1"+path+"/export", nil))
}

// TestHostile checks that tokens and cursors of another store, of another
// request, and invalid ones are rejected and change nothing.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	path := w.acme(t)
	w.do(t, "POST", "/stores", `{"name":"acme","aliases":{"native":"twin"}}`)
	source, err := json.Marshal(map[string]string{"dialect": "openfga-dsl", "source": model})
	if err != nil {
		t.Fatal(err)
	}
	w.do(t, "POST", "/stores/twin/schemas", string(source))
	var token string
	for _, p := range []string{path, "/stores/twin"} {
		token = w.add(t, p, "user:anne owner document:1", "user:anne owner document:2")
	}
	check := `{"object":"document:1","relation":"owner","subject":"user:anne","at":{"exactly":"%s"}}`
	list := `{"type":"document","relation":"owner","subject":"user:anne","limit":1%s}`
	cursor := w.do(t, "POST", "/stores/twin/list-objects", fmt.Sprintf(list, ""))["next"].(string)
	w.refused(t, "POST", path+"/check", fmt.Sprintf(check, token), 400, "token")
	w.refused(t, "POST", path+"/list-objects", fmt.Sprintf(list, `,"cursor":"`+cursor+`"`), 400, "token")
	w.refused(t, "POST", "/stores/twin/list-objects", fmt.Sprintf(strings.Replace(list, "owner", "viewer", 1), `,"cursor":"`+cursor+`"`), 400, "cursor")
	w.refused(t, "GET", path+"/export?token="+token, "", 400, "token")
	w.refused(t, "GET", path+"/watch?after="+token, "", 400, "token")
	w.refused(t, "POST", path+"/changes", `{"after":"`+token+`"}`, 400, "token")
	for i := range token { // no text may cause a panic
		b := []byte(token)
		b[i] ^= 1
		if rec := w.send(t, "POST", "/stores/twin/check", fmt.Sprintf(check, string(b))); rec.Code == 200 || rec.Code >= 500 {
			t.Errorf("%s: %d %s", b, rec.Code, rec.Body)
		}
	}
	for i := range cursor {
		b := []byte(cursor)
		b[i] ^= 1
		if rec := w.send(t, "POST", "/stores/twin/list-objects", fmt.Sprintf(list, `,"cursor":"`+string(b)+`"`)); rec.Code >= 500 {
			t.Errorf("%s: %d %s", b, rec.Code, rec.Body)
		}
	}
	// A store that is deleted and created again with the same alias is another
	// store.
	w.do(t, "DELETE", "/stores/twin", "")
	w.do(t, "POST", "/stores", `{"name":"acme","aliases":{"native":"twin"}}`)
	w.do(t, "POST", "/stores/twin/schemas", string(source))
	w.refused(t, "POST", "/stores/twin/check", fmt.Sprintf(check, token), 400, "token")
}
