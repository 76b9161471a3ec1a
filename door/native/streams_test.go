package native_test

import (
	"bufio"
	"bytes"
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
	// An upload that breaks off is incomplete, wherever it does.
	for _, cut := range []string{"", lines(text), lines(lines(text))} {
		w.refused(t, "POST", "/stores/copy/import?on_duplicate=ignore", cut, 400, "incomplete")
	}
	long := `{"tuple":{"object":"document:1","relation":"owner","subject":"user:` + strings.Repeat("x", 1<<20) + `"}}`
	w.refused(t, "POST", "/stores/copy/import", long, 413, "too_large")
	w.refused(t, "POST", "/stores/copy/import?on_duplicate=maybe", "", 400, "invalid_request")
	w.refused(t, "POST", "/stores/copy/import", text+"\n"+text, 400, "invalid_request")
	w.refused(t, "GET", "/stores/copy/export?token=x", "", 400, "token")
}

// breakingWriter is a ResponseWriter that calls after once, when at least limit
// bytes were written.
type breakingWriter struct {
	header http.Header
	limit  int
	// after returns the error of this write and of all later ones.
	after func() error

	text      bytes.Buffer
	broken    bool
	err       error
	deadlines int
}

func (b *breakingWriter) Header() http.Header { return b.header }
func (b *breakingWriter) WriteHeader(int)     {}
func (b *breakingWriter) Write(p []byte) (int, error) {
	if !b.broken && b.text.Len()+len(p) > b.limit {
		b.broken, b.err = true, b.after()
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.text.Write(p)
}

// SetWriteDeadline counts the deadlines, one for 1,000 lines.
func (b *breakingWriter) SetWriteDeadline(time.Time) error {
	b.deadlines++
	return nil
}

// lastLine returns the last line that was written.
func (b *breakingWriter) lastLine() string {
	lines := strings.Split(strings.TrimRight(b.text.String(), "\n"), "\n")
	return lines[len(lines)-1]
}

// TestExportBroken checks that an export which breaks midway ends with an error
// line and without an end line, and that an import rejects what it wrote.
func TestExportBroken(t *testing.T) {
	t.Parallel()
	w := open(t, ostiary.Options{})
	w.do(t, "POST", "/stores", `{"name":"bank","aliases":{"native":"bank"}}`)
	w.do(t, "POST", "/stores/bank/schemas", bankSchema)
	w.do(t, "POST", "/stores", `{"name":"copy","aliases":{"native":"copy"}}`)
	w.do(t, "POST", "/stores/copy/schemas", bankSchema)
	for i := range 2 {
		var tuples, attributes []string
		for j := range 5000 {
			tuples = append(tuples, fmt.Sprintf(`{"object":"account:%d","relation":"owner","subject":"user:u%d"}`, i, j))
			attributes = append(attributes, fmt.Sprintf(`{"object":"account:%d-%d","name":"balance","value":%d}`, i, j, j))
		}
		w.do(t, "POST", "/stores/bank/write", `{"add":[`+strings.Join(tuples, ",")+`],"set_attributes":[`+strings.Join(attributes, ",")+`]}`)
	}
	export := func(limit int, after func(cancel context.CancelFunc) error) *breakingWriter {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		out := &breakingWriter{header: http.Header{}, limit: limit, after: func() error { return after(cancel) }}
		w.ServeHTTP(out, httptest.NewRequestWithContext(ctx, "GET", "/ostiary/v1/stores/bank/export", nil))
		return out
	}
	nothing := func(context.CancelFunc) error { return nil }
	whole := export(1<<30, nothing)
	if got := whole.lastLine(); !strings.HasPrefix(got, `{"end":{"tuples":10000,"attributes":10000,`) || whole.deadlines != 20 {
		t.Fatalf("%d deadlines, last line %s", whole.deadlines, got)
	}
	if got := w.do(t, "POST", "/stores/copy/import", whole.text.String()); fmt.Sprintf("%v %v", got["read"], got["attributes"]) != "10000 10000" {
		t.Error("the import of an export:", got)
	}
	// The client disconnects: the door stops at once.
	gone := export(100_000, func(context.CancelFunc) error { return io.ErrClosedPipe })
	if strings.Contains(gone.text.String(), `"end"`) || gone.deadlines > 3 {
		t.Errorf("after its client left, an export renewed its deadline %d times", gone.deadlines)
	}
	// The request is canceled while tuples are written.
	canceled := export(100_000, func(cancel context.CancelFunc) error { cancel(); return nil })
	// The store is deleted while attributes are written.
	deleted := export(strings.Index(whole.text.String(), `{"attribute"`)+100_000, func(context.CancelFunc) error {
		w.do(t, "DELETE", "/stores/bank", "")
		return nil
	})
	for name, test := range map[string]struct {
		out  *breakingWriter
		code string
	}{"canceled": {canceled, "canceled"}, "deleted": {deleted, "no_store"}} {
		last := decode(t, []byte(test.out.lastLine()))
		problem, ok := last["error"].(map[string]any)
		if !ok || problem["code"] != test.code || strings.Contains(test.out.text.String(), `"end"`) {
			t.Errorf("%s: the last line is %v", name, last)
		}
		w.refused(t, "POST", "/stores/copy/import?on_duplicate=ignore", test.out.text.String(), 400, "malformed")
	}
}

// bankSchema is a schema with an attribute, as the body of a request.
const bankSchema = `{"dialect":"permify","source":"entity user {}\nentity account {\n relation owner @user\n attribute balance integer\n}"}`

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
