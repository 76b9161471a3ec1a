package native_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
)

// FuzzRequest sends random bodies to every operation that takes one. No
// response may be a server error, and every error must have the documented
// form.
func FuzzRequest(f *testing.F) {
	d := description(f)
	w := open(f, ostiary.Options{})
	w.acme(f)
	w.add(f, "/stores/acme", "user:anne owner document:1", "group:g#member viewer document:1")
	var paths []string
	for _, r := range w.door.Routes {
		body := d.Paths[r.Pattern][strings.ToLower(r.Method)].RequestBody.Content["application/json"]
		if r.Method == http.MethodPost && body.Example != nil && strings.Contains(r.Pattern, "{store}") {
			f.Add(uint8(len(paths)), []byte(body.Example))
			paths = append(paths, strings.Replace(r.Pattern, "{store}", "acme", 1))
		}
	}
	f.Add(uint8(0), []byte(`{"questions":[{"object":"document:1","relation":"viewer","subject":"user:*","tuples":[{"object":"document:1","relation":"owner","subject":"user:x","context":{}}]}]}`))
	f.Add(uint8(3), []byte(`{"filter":{"subject_plain":true,"subject_type":"user"},"at":{"time":"2026-01-01T00:00:00+14:00"},"cursor":"c1."}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		path := paths[int(which)%len(paths)]
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, httptest.NewRequest("POST", path, strings.NewReader(string(body))))
		var v any
		if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil || rec.Code >= 500 {
			t.Fatalf("%s %q: %d %s", path, body, rec.Code, rec.Body)
		}
		if rec.Code >= 400 {
			if err := d.validate(d.Components.Schemas["Error"], v, path); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestCodes checks that docs/native.md names every error code of this door.
func TestCodes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/native.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range []string{"../failure.go", "errors.go", "native.go", "schemas.go", "whatif.go", "stream.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range regexp.MustCompile(`(?:Code: |http\.Status\w+, |door\.\w+: |\.Err\w+, |context\.\w+, )"([a-z_]+)"`).FindAllSubmatch(text, -1) {
			if found++; !strings.Contains(string(page), "`"+string(code[1])+"`") {
				t.Errorf("docs/native.md does not name %q of %s", code[1], name)
			}
		}
	}
	if found < 45 {
		t.Errorf("found %d codes, expected at least 45", found)
	}
}

// TestWatchersLeave checks that clients which disconnect leave no goroutines.
func TestWatchersLeave(t *testing.T) {
	w := open(t, ostiary.Options{})
	server := httptest.NewServer(w)
	path := w.acme(t)
	before := runtime.NumGoroutine()
	var streams []*events
	for range 20 {
		streams = append(streams, watch(t, server, path+"/watch"),
			watch(t, server, path+"/watch-permission?object_type=document&relation=viewer&subject_type=user&object=1"))
	}
	w.add(t, path, "user:anne owner document:1")
	for _, s := range streams {
		s.next()
		s.body.Close()
	}
	server.CloseClientConnections()
	server.Close()
	server.Client().CloseIdleConnections()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+2; {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		w.add(t, path, "user:anne owner document:"+time.Now().Format("150405.000000000")) // wake watches that wait for an entry
	}
}
