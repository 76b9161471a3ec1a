package native_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
)

// discard is a ResponseWriter that keeps only the status and the length.
type discard struct {
	header http.Header
	n      int
}

func (q *discard) Header() http.Header         { return q.header }
func (q *discard) WriteHeader(int)             {}
func (q *discard) Write(p []byte) (int, error) { q.n += len(p); return len(p), nil }

// replay sends the same request repeatedly without a network, and returns the
// processor time of one request.
func (w *world) replay(b *testing.B, path, body string) time.Duration {
	b.Helper()
	if rec := w.send(b, "POST", path, body); rec.Code != 200 {
		b.Fatal(rec.Code, rec.Body)
	}
	r := httptest.NewRequest("POST", "/ostiary/v1"+path, nil)
	in := bytes.NewReader(nil)
	r.Body, r.ContentLength = io.NopCloser(in), int64(len(body))
	out := &discard{header: http.Header{}}
	b.ReportAllocs()
	before, n := processTime(b), 0
	for b.Loop() {
		in.Reset([]byte(body))
		w.ServeHTTP(out, r)
		n++
	}
	took := (processTime(b) - before) / time.Duration(n)
	b.ReportMetric(float64(took.Nanoseconds()), "cpu-ns")
	return took
}

// lxd creates ten projects with 54 relations each. bob has a few of them.
func (w *world) lxd(b *testing.B) (path, body string) {
	b.Helper()
	var m strings.Builder
	m.WriteString("model\n  schema 1.1\ntype identity\ntype group\n  relations\n    define member: [identity]\n" +
		"type server\n  relations\n    define admin_of_all: [identity, group#member]\n    define admin: [identity, group#member] or admin_of_all\n" +
		"type project\n  relations\n    define server: [server]\n    define operator: [identity, group#member] or admin from server\n" +
		"    define viewer: [identity, group#member] or operator\n")
	for i := range 17 {
		fmt.Fprintf(&m, "    define can_edit_%d: [identity, group#member] or operator\n    define can_view_%d: [identity, group#member] or can_edit_%d or viewer\n"+
			"    define can_delete_%d: [identity, group#member] or can_edit_%d\n", i, i, i, i, i)
	}
	text, err := json.Marshal(map[string]string{"dialect": "openfga-dsl", "source": m.String()})
	if err != nil {
		b.Fatal(err)
	}
	w.do(b, "POST", "/stores", `{"name":"lxd","aliases":{"native":"lxd"}}`)
	w.do(b, "POST", "/stores/lxd/schemas", string(text))
	path = "/stores/" + w.do(b, "GET", "/stores/lxd", "")["id"].(string)
	tuples := []string{"identity:bob member group:staff", "identity:root admin server:one"}
	objects := []string{}
	for i := range 10 {
		tuples = append(tuples, fmt.Sprintf("server:one server project:p%d", i), fmt.Sprintf("group:staff#member can_edit_%d project:p%d", i, i))
		objects = append(objects, fmt.Sprintf("%q", fmt.Sprint("project:p", i)))
	}
	w.add(b, path, tuples...)
	return path, `{"subject":"identity:bob","objects":[` + strings.Join(objects, ",") + `]}`
}

// BenchmarkEntitlements lists the entitlements of 10 projects with 54
// relations: in one call without a network, as a batch of checks, and over
// HTTP. cpu-µs is the processor time of server and client together.
func BenchmarkEntitlements(b *testing.B) {
	w := open(b, ostiary.Options{})
	path, body := w.lxd(b)
	b.Run("one call", func(b *testing.B) { w.replay(b, path+"/entitlements", body) })
	b.Run("for an admin", func(b *testing.B) {
		w.replay(b, path+"/entitlements", strings.Replace(body, "bob", "root", 1))
	})
	var questions []string
	for i := range 10 {
		for j := range 17 {
			for _, do := range []string{"edit", "view", "delete"} {
				questions = append(questions, fmt.Sprintf(`{"object":"project:p%d","relation":"can_%s_%d","subject":"identity:bob"}`, i, do, j))
			}
		}
		for _, r := range []string{"server", "operator", "viewer"} {
			questions = append(questions, fmt.Sprintf(`{"object":"project:p%d","relation":%q,"subject":"identity:bob"}`, i, r))
		}
	}
	b.Run("as a batch", func(b *testing.B) { w.replay(b, path+"/batch", `{"questions":[`+strings.Join(questions, ",")+`]}`) })
	b.Run("over HTTP", func(b *testing.B) { overHTTP(b, w, path+"/entitlements", body) })
	b.Run("over HTTP, nothing", func(b *testing.B) {
		overHTTP(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}), path+"/entitlements", body)
	})
}

// overHTTP sends requests one after another over a kept-open connection.
func overHTTP(b *testing.B, h http.Handler, path, body string) {
	server := httptest.NewServer(h)
	defer server.Close()
	before, n := processTime(b), 0
	for b.Loop() {
		resp, err := server.Client().Post(server.URL+"/ostiary/v1"+path, "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			b.Fatal(resp.Status, err)
		}
		resp.Body.Close()
		n++
	}
	b.ReportMetric(float64((processTime(b)-before).Microseconds())/float64(n), "cpu-µs")
}

func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkExplain compares an explanation with its check, for an allow and a
// denial.
func BenchmarkExplain(b *testing.B) {
	w := open(b, ostiary.Options{})
	path, _ := w.lxd(b)
	for _, subject := range []string{"bob", "nobody"} {
		q := fmt.Sprintf(`{"object":"project:p3","relation":"can_view_3","subject":"identity:%s"}`, subject)
		var check time.Duration
		b.Run(subject+" check", func(b *testing.B) { check = w.replay(b, path+"/check", q) })
		b.Run(subject+" explain", func(b *testing.B) {
			explain := w.replay(b, path+"/explain", q)
			b.ReportMetric(float64(explain)/float64(check), "×check")
		})
	}
}

// BenchmarkWatchers measures how long a change takes to reach 1,000 clients
// that watch the log or a permission over HTTP. delivered-µs is the median time
// from the start of the write until the last client has read the change.
// write-µs is the median time of the write itself.
func BenchmarkWatchers(b *testing.B) {
	for _, path := range []string{"/watch", "/watch-permission?object_type=document&relation=viewer&subject_type=user&object=watched"} {
		name, _, _ := strings.Cut(path[1:], "?")
		b.Run(name, func(b *testing.B) {
			w := open(b, ostiary.Options{})
			server := httptest.NewServer(w)
			defer server.Close()
			store := w.acme(b)
			w.add(b, store, "group:g#member viewer document:watched")
			var waiting sync.WaitGroup
			for range 1000 {
				s := watch(b, server, store+path)
				go func() {
					for s.in.Scan() {
						if strings.HasPrefix(s.in.Text(), "data: ") {
							waiting.Done()
						}
					}
				}()
			}
			var writing, delivering []time.Duration
			for i := 0; b.Loop(); i++ {
				waiting.Add(1000)
				start := time.Now()
				w.add(b, store, fmt.Sprintf("user:u%d member group:g", i))
				writing = append(writing, time.Since(start))
				waiting.Wait()
				delivering = append(delivering, time.Since(start))
			}
			slices.Sort(writing)
			slices.Sort(delivering)
			b.ReportMetric(float64(writing[len(writing)/2].Microseconds()), "write-µs")
			b.ReportMetric(float64(delivering[len(delivering)/2].Microseconds()), "delivered-µs")
			server.CloseClientConnections()
		})
	}
}
