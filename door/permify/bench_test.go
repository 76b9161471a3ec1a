package permify

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
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
	n      int
	router *door.Router
	rng    *rand.Rand
}

func newWorld(tb testing.TB, n int) *world {
	_, d := start(tb, Options{})
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{n: n, router: router, rng: rand.New(rand.NewPCG(1, 2))}
	w.post(tb, "/v1/tenants/t1/schemas/write", fmt.Sprintf(`{"schema":%q}`, reportSchema))
	w.load(tb)
	return w
}

// load writes the data in requests of 1,000.
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
		flush(WriteMax - 1)
		tuples = append(tuples, fmt.Sprintf(`{"entity":{"type":%q,"id":"%d"},"relation":%q,"subject":{"type":%q,"id":"%d"}}`, typ, id, relation, subject, sub))
	}
	public := func(typ string, id int) {
		flush(WriteMax - 1)
		attributes = append(attributes, fmt.Sprintf(`{"entity":{"type":%q,"id":"%d"},"attribute":"is_public","value":{"@type":"type.googleapis.com/base.v1.BooleanValue","data":true}}`, typ, id))
	}
	for u := range w.n {
		add("user", u, "self", "user", u)
		for range 5 {
			if f := w.rng.IntN(w.n); true {
				add("user", u, "follower", "user", f)
			}
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

// discard is a ResponseWriter that keeps nothing.
type discard struct {
	h    http.Header
	code int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(code int)        { d.code = code }

// call plays one request b.N times on a prepared http.Request, so that what is
// measured is the door.
func (w *world) call(b *testing.B, path string, body func() string) {
	d := &discard{h: http.Header{}}
	for b.Loop() {
		w.serve(d, path, []byte(body()))
		if d.code != http.StatusOK {
			b.Fatal(d.code)
		}
	}
}

// BenchmarkCheck asks what the report's script asks, on a tenth of its data,
// and what a handler costs that reads the body and answers a constant.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b, 10_000)
	body := func() string {
		return fmt.Sprintf(`{"metadata":{"snap_token":"","schema_version":"","depth":20},"entity":{"type":"content","id":"%d"},"permission":"view","subject":{"type":"user","id":"%d"},"page_size":20}`,
			w.rng.IntN(w.n), w.rng.IntN(w.n))
	}
	b.Run("check", func(b *testing.B) { b.ReportAllocs(); w.call(b, "/v1/tenants/t1/permissions/check", body) })
	b.Run("nothing", func(b *testing.B) {
		b.ReportAllocs()
		d := &discard{h: http.Header{}}
		for b.Loop() {
			r := httptest.NewRequest(http.MethodPost, "/v1/tenants/t1/permissions/check", strings.NewReader(body()))
			var p door.Params
			w.router.Find(r.Method, r.URL.EscapedPath(), &p)
			got, err := door.ReadBody(r)
			if err != nil {
				b.Fatal(err)
			}
			got.Free()
			writeJSON(d, http.StatusOK, []byte(`{"can":"CHECK_RESULT_DENIED","metadata":{"check_count":0}}`))
		}
	})
	b.Run("bulk", func(b *testing.B) {
		b.ReportAllocs()
		w.call(b, "/v1/tenants/t1/permissions/bulk-check", func() string {
			var items []string
			for range 100 {
				items = append(items, fmt.Sprintf(`{"entity":{"type":"content","id":"%d"},"permission":"view","subject":{"type":"user","id":"%d"}}`, w.rng.IntN(w.n), w.rng.IntN(w.n)))
			}
			return `{"metadata":{"depth":20},"items":[` + strings.Join(items, ",") + `]}`
		})
	})
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
	b.Run("subject", func(b *testing.B) {
		w.call(b, "/v1/tenants/t1/permissions/lookup-subject", func() string {
			return fmt.Sprintf(`{"metadata":{"depth":20},"entity":{"type":"user","id":"%d"},"permission":"follower","subject_reference":{"type":"user"}}`, w.rng.IntN(w.n))
		})
	})
	b.Run("check", func(b *testing.B) {
		w.call(b, "/v1/tenants/t1/permissions/check", func() string {
			return fmt.Sprintf(`{"metadata":{"depth":20},"entity":{"type":"content","id":"%d"},"permission":"view","subject":{"type":"user","id":"%d"}}`, w.rng.IntN(w.n), w.rng.IntN(w.n))
		})
	})
	b.Run("write500", func(b *testing.B) {
		begin, n := time.Now(), 0
		w.call(b, "/v1/tenants/t1/data/write", func() string {
			var tuples []string
			for range 500 {
				n++
				tuples = append(tuples, fmt.Sprintf(`{"entity":{"type":"user","id":"%d"},"relation":"follower","subject":{"type":"user","id":"x%d"}}`, w.rng.IntN(w.n), n))
			}
			return `{"metadata":{"schema_version":""},"tuples":[` + strings.Join(tuples, ",") + `]}`
		})
		b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "tuples/s")
	})
}
