package permify

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/permifypb"
)

// reportSchema is the schema of the published load test.
const reportSchema = `
entity user {
    relation self @user
    relation follower @user
    relation blocked @user

    attribute is_public boolean

    permission view = self or (is_public or follower) not blocked
}

entity content {
    relation owner @user
    attribute is_public boolean

    permission view = owner.self or (is_public or owner.follower) not owner.blocked
}

entity interaction {
    relation creator @user
    relation parent @content

    permission view = creator.self or (creator.view and parent.view)
}
`

// world is a door with the data of the published load test, for n ids of each
// type.
type world struct {
	n       int
	router  *door.Router
	rng     *rand.Rand
	version string
}

func newWorld(tb testing.TB, n int) *world {
	_, d := start(tb, Options{})
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{n: n, router: router, rng: rand.New(rand.NewPCG(1, 2))}
	out := w.post(tb, "/v1/tenants/t1/schemas/write", fmt.Sprintf(`{"schema":%q}`, reportSchema))
	w.version = strings.Split(out, `"`)[3]
	w.load(tb)
	return w
}

// load writes the data in requests of 1,000 items.
func (w *world) load(tb testing.TB) {
	var tuples, attributes []string
	flush := func(least int) {
		if len(tuples)+len(attributes) <= least {
			return
		}
		w.post(tb, "/v1/tenants/t1/data/write", `{"metadata":{},"tuples":[`+strings.Join(tuples, ",")+`],"attributes":[`+strings.Join(attributes, ",")+`]}`)
		tuples, attributes = tuples[:0], attributes[:0]
	}
	add := func(typ string, id int, relation, subject string, sub int) {
		flush(writeMax - 1)
		tuples = append(tuples, fmt.Sprintf(`{"entity":{"type":%q,"id":"%d"},"relation":%q,"subject":{"type":%q,"id":"%d"}}`, typ, id, relation, subject, sub))
	}
	public := func(typ string, id int) {
		flush(writeMax - 1)
		attributes = append(attributes, fmt.Sprintf(`{"entity":{"type":%q,"id":"%d"},"attribute":"is_public","value":{"@type":"type.googleapis.com/base.v1.BooleanValue","data":true}}`, typ, id))
	}
	for u := range w.n {
		add("user", u, "self", "user", u)
		for range 5 {
			add("user", u, "follower", "user", w.rng.IntN(w.n))
		}
		if w.rng.Float64() < 0.5 {
			add("user", u, "blocked", "user", w.rng.IntN(w.n))
		}
		if w.rng.Float64() < 0.2 {
			public("user", u)
		}
	}
	for c := range w.n {
		add("content", c, "owner", "user", w.rng.IntN(w.n))
		if w.rng.Float64() < 0.3 {
			public("content", c)
		}
	}
	for i := range w.n {
		add("interaction", i, "creator", "user", w.rng.IntN(w.n))
		add("interaction", i, "parent", "content", w.rng.IntN(w.n))
	}
	flush(0)
}

func (w *world) post(tb testing.TB, path, body string) string {
	rec := httptest.NewRecorder()
	w.serve(rec, path, []byte(body))
	if rec.Code != http.StatusOK {
		tb.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func (w *world) serve(rw http.ResponseWriter, path string, body []byte) {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	var p door.Params
	route, _ := w.router.Find(r.Method, r.URL.EscapedPath(), &p)
	route.Serve(rw, r, p)
}

// discard is a ResponseWriter that keeps only the status.
type discard struct {
	h    http.Header
	code int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(code int)        { d.code = code }

// requests prepares request bodies, so that a benchmark does not measure their
// construction. It returns a function that cycles through them.
func requests(body func() string) func() []byte {
	bodies := make([][]byte, 256)
	for i := range bodies {
		bodies[i] = []byte(body())
	}
	i := 0
	return func() []byte {
		i++
		return bodies[i%len(bodies)]
	}
}

// call measures requests to the door's handler, without a network.
func (w *world) call(b *testing.B, path string, body func() string) {
	next := requests(body)
	d := &discard{h: http.Header{}}
	b.ReportAllocs()
	b.ResetTimer()
	begin := cpu()
	for b.Loop() {
		if w.serve(d, path, next()); d.code != http.StatusOK {
			b.Fatal(d.code)
		}
	}
	b.ReportMetric(float64(cpu()-begin)/float64(b.N)/1e3, "cpu-µs/op")
}

func (w *world) check(version string) func() string {
	return func() string {
		return fmt.Sprintf(`{"metadata":{"snap_token":"","schema_version":%q,"depth":20},"entity":{"type":"content","id":"%d"},"permission":"view","subject":{"type":"user","id":"%d"},"page_size":20}`,
			version, w.rng.IntN(w.n), w.rng.IntN(w.n))
	}
}

// BenchmarkCheck measures the processor time of a check over HTTP, and of a
// handler that reads the body and writes a constant response. The requests are
// those of the report's script, on a tenth of its data and one connection.
// Client and server share the process.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b, 10_000)
	var cost [2]float64
	for i, name := range []string{"nothing", "check"} {
		b.Run(name, func(b *testing.B) {
			next := requests(w.check(w.version))
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				var p door.Params
				route, _ := w.router.Find(r.Method, r.URL.EscapedPath(), &p)
				if i == 1 {
					route.Serve(rw, r, p)
					return
				}
				body, err := door.ReadBody(r)
				if err != nil {
					serveError(rw, err)
					return
				}
				body.Free()
				door.WriteJSON(rw, http.StatusOK, []byte(`{"can":"CHECK_RESULT_DENIED","metadata":{"check_count":0}}`))
			}))
			defer server.Close()
			conn := dialRaw(b, server.Listener.Addr().String())
			b.ResetTimer()
			begin := cpu()
			for b.Loop() {
				conn.post("/v1/tenants/t1/permissions/check", next())
			}
			cost[i] = float64(cpu()-begin) / float64(b.N) / 1e3
			b.ReportMetric(cost[i], "cpu-µs/op")
			if i == 1 && cost[0] > 0 {
				b.ReportMetric(cost[1]/cost[0], "×nothing")
			}
		})
	}
}

// rawConn is an HTTP connection whose client side costs almost nothing.
type rawConn struct {
	tb  testing.TB
	c   net.Conn
	r   *bufio.Reader
	out []byte
}

func dialRaw(tb testing.TB, address string) *rawConn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return &rawConn{tb: tb, c: c, r: bufio.NewReader(c)}
}

// post sends a request and discards the response.
func (c *rawConn) post(path string, body []byte) {
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	if _, err := c.c.Write(c.out); err != nil {
		c.tb.Fatal(err)
	}
	length := 0
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			c.tb.Fatal(err)
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(n)))
		}
		if len(line) <= 2 {
			break
		}
	}
	if _, err := c.r.Discard(length); err != nil {
		c.tb.Fatal(err)
	}
}

// BenchmarkBulk measures 100 checks in one request, over 100,000 and over a
// million items.
func BenchmarkBulk(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		w := newWorld(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w.call(b, "/v1/tenants/t1/permissions/bulk-check", func() string {
				var items []string
				for range 100 {
					items = append(items, fmt.Sprintf(`{"entity":{"type":"content","id":"%d"},"permission":"view","subject":{"type":"user","id":"%d"}}`, w.rng.IntN(w.n), w.rng.IntN(w.n)))
				}
				return `{"metadata":{"depth":20},"items":[` + strings.Join(items, ",") + `]}`
			})
		})
	}
}

// BenchmarkLookup measures pages of lookups over 100,000 contents.
func BenchmarkLookup(b *testing.B) {
	w := newWorld(b, 100_000)
	first := func() string {
		return fmt.Sprintf(`{"metadata":{"depth":20},"entity_type":"content","permission":"view","subject":{"type":"user","id":"%d"},"page_size":100}`, w.rng.IntN(w.n))
	}
	b.Run("entity/page100", func(b *testing.B) { w.call(b, "/v1/tenants/t1/permissions/lookup-entity", first) })
	b.Run("entity/all", func(b *testing.B) {
		w.call(b, "/v1/tenants/t1/permissions/lookup-entity", func() string { return strings.Replace(first(), `"page_size":100`, `"page_size":100000`, 1) })
	})
	b.Run("entity/relation", func(b *testing.B) {
		w.call(b, "/v1/tenants/t1/permissions/lookup-entity", func() string {
			return strings.Replace(first(), `"content","permission":"view"`, `"user","permission":"follower"`, 1)
		})
	})
	b.Run("subject", func(b *testing.B) {
		w.call(b, "/v1/tenants/t1/permissions/lookup-subject", func() string {
			return fmt.Sprintf(`{"metadata":{"depth":20},"entity":{"type":"user","id":"%d"},"permission":"view","subject_reference":{"type":"user"}}`, w.rng.IntN(w.n))
		})
	})
	b.Run("check", func(b *testing.B) { w.call(b, "/v1/tenants/t1/permissions/check", w.check("")) })
}

// BenchmarkWrite measures how many tuples per second are written to memory in
// requests of 500. All tuples are new.
func BenchmarkWrite(b *testing.B) {
	w := newWorld(b, 10_000)
	n := 0
	d := &discard{h: http.Header{}}
	begin := cpu()
	var made time.Duration
	for b.Loop() {
		at := cpu()
		var tuples []string
		for range 500 {
			n++
			tuples = append(tuples, fmt.Sprintf(`{"entity":{"type":"user","id":"%d"},"relation":"follower","subject":{"type":"user","id":"x%d"}}`, w.rng.IntN(w.n), n))
		}
		body := []byte(`{"metadata":{"schema_version":""},"tuples":[` + strings.Join(tuples, ",") + `]}`)
		made += cpu() - at
		if w.serve(d, "/v1/tenants/t1/data/write", body); d.code != http.StatusOK {
			b.Fatal(d.code)
		}
	}
	b.ReportMetric(float64(n)/(cpu()-begin-made).Seconds(), "tuples/cpu-s")
}

// BenchmarkSubjects measures a response with 1,000 subjects.
func BenchmarkSubjects(b *testing.B) {
	w := newWorld(b, 1000)
	var tuples []string
	for i := range 1000 {
		tuples = append(tuples, fmt.Sprintf(`{"entity":{"type":"user","id":"star"},"relation":"follower","subject":{"type":"user","id":"f%d"}}`, i))
	}
	w.post(b, "/v1/tenants/t1/data/write", `{"metadata":{},"tuples":[`+strings.Join(tuples, ",")+`]}`)
	for _, permission := range []string{"follower", "view"} {
		b.Run(permission, func(b *testing.B) {
			w.call(b, "/v1/tenants/t1/permissions/lookup-subject", func() string {
				return fmt.Sprintf(`{"metadata":{"depth":20},"entity":{"type":"user","id":"star"},"permission":%q,"subject_reference":{"type":"user"}}`, permission)
			})
		})
	}
}

// BenchmarkWatch measures the time from a write to its event over gRPC.
func BenchmarkWatch(b *testing.B) {
	c := connect(b, watchSchema)
	stream, err := c.watch.Watch(b.Context(), &permifypb.WatchRequest{TenantId: "t1", SnapToken: c.write(b, "doc:0#owner@user:0")})
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	var waited time.Duration
	for b.Loop() {
		i++
		c.write(b, fmt.Sprintf("doc:%d#owner@user:1", i))
		written := time.Now()
		if _, err := stream.Recv(); err != nil {
			b.Fatal(err)
		}
		waited += time.Since(written)
	}
	b.ReportMetric(float64(waited)/float64(b.N)/1e3, "µs-after-write/op")
}
