package openfga

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
)

// TestBodyTooLarge sends a body at the server's bound, which is read, and one byte
// more, which is refused with an error of the protocol.
func TestBodyTooLarge(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	h := &httpServer{s: s, contentType: []string{"application/json"}}
	body := `{"tuple_key":{"user":"user:a","relation":"viewer","object":"document:1"}}`
	router, err := door.NewRouter(h.routes())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"check", "streamed-list-objects"} {
		for _, more := range []int64{0, -1} {
			r := httptest.NewRequest(http.MethodPost, "/stores/"+st.ID().String()+"/"+path, strings.NewReader(body))
			w := httptest.NewRecorder()
			r.Body = http.MaxBytesReader(w, r.Body, int64(len(body))+more)
			var p door.Params
			route, _ := router.Find(r.Method, r.URL.EscapedPath(), &p)
			route.Serve(w, r, p)
			refused := w.Code == http.StatusRequestEntityTooLarge && strings.HasPrefix(w.Body.String(), `{"code":"resource_exhausted","message":"the request is too large`)
			if refused != (more < 0) {
				t.Errorf("%s, %d bytes more than the body: %d %s", path, more, w.Code, w.Body)
			}
		}
	}
}

// TestStreamToGoneClient checks that a stream ends when its client is gone, and
// writes nothing.
func TestStreamToGoneClient(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	addTuples(t, st, "document:1#viewer@user:a")
	h := &httpServer{s: s, contentType: []string{"application/json"}}
	body := `{"type":"document","relation":"viewer","user":"user:a"}`
	r := httptest.NewRequest(http.MethodPost, "/stores/"+st.ID().String()+"/streamed-list-objects", strings.NewReader(body))
	w := &deaf{header: http.Header{}}
	var p door.Params
	router, err := door.NewRouter(h.routes())
	if err != nil {
		t.Fatal(err)
	}
	route, _ := router.Find(r.Method, r.URL.EscapedPath(), &p)
	route.Serve(w, r, p)
	if w.status != http.StatusOK || w.writes > 2 {
		t.Errorf("status %d, %d writes", w.status, w.writes)
	}
}

// deaf is a ResponseWriter whose client is gone: it fails all writes.
type deaf struct {
	header         http.Header
	status, writes int
}

func (d *deaf) Header() http.Header       { return d.header }
func (d *deaf) WriteHeader(n int)         { d.status = n }
func (d *deaf) Write([]byte) (int, error) { d.writes++; return 0, http.ErrAbortHandler }

// FuzzQuery parses queries. A parameter has the value that net/url returns, or there
// is an error.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "page_size=1", "page_size=", "page_size=1&page_size=2", "page_size=99999999999", "start_time=2001-01-01T00:00:00Z", "start_time=x", "name=%zz", "name=a%26b&;", "name=a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		x := httpRequest{query: query}
		q := x.queryParams()
		size, at, name := q.pageSize(), q.time("start_time"), q.text("name")
		values, err := url.ParseQuery(query)
		if err != nil && q.err == nil && query != "" {
			t.Errorf("%q is taken: %v", query, err)
		}
		if q.err != nil {
			wantCode(t, q.err, codeValidation)
			return
		}
		if (size != nil) != values.Has("page_size") || (at != nil) != values.Has("start_time") || name != values.Get("name") {
			t.Errorf("%q: %v %v %q", query, size, at, name)
		}
	})
}
