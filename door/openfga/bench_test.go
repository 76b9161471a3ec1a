package openfga

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
)

// sink is a ResponseWriter that counts bytes and costs nearly nothing, so that a
// benchmark measures the door.
type sink struct {
	header http.Header
	status int
	body   []byte
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(n int)   { s.status = n }
func (s *sink) Write(p []byte) (int, error) {
	s.body = append(s.body[:0], p...)
	return len(p), nil
}

// benched is a door with a store of a few thousand tuples: documents in folders that
// groups may view.
type benched struct {
	d     *door.Door
	s     *service
	store string
	model string
}

func newBenched(b *testing.B) *benched {
	b.Helper()
	engine, err := ostiary.Open(b.Context(), ostiary.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = engine.Close() })
	d, err := New(engine, Options{})
	if err != nil {
		b.Fatal(err)
	}
	x := &benched{d: d, s: d.Services[0].Impl.(*grpcServer).s}
	x.store = x.field(b, http.MethodPost, "/stores", `{"name":"bench"}`, "id")
	x.model = x.field(b, http.MethodPost, "/stores/"+x.store+"/authorization-models", `{"schema_version":"1.1","type_definitions":[
		{"type":"user"},
		{"type":"group","relations":{"member":{"this":{}}},"metadata":{"relations":{"member":{"directly_related_user_types":[{"type":"user"}]}}}},
		{"type":"folder","relations":{"viewer":{"this":{}}},"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"group","relation":"member"}]}}}},
		{"type":"document","relations":{"parent":{"this":{}},"owner":{"this":{}},"viewer":{"union":{"child":[{"computedUserset":{"relation":"owner"}},{"tupleToUserset":{"tupleset":{"relation":"parent"},"computedUserset":{"relation":"viewer"}}}]}}},
			"metadata":{"relations":{"parent":{"directly_related_user_types":[{"type":"folder"}]},"owner":{"directly_related_user_types":[{"type":"user"}]}}}}]}`, "authorization_model_id")
	var in wire.WriteRequest
	in.StoreID, in.HasWrites = x.store, true
	flush := func() {
		if len(in.Writes) > 0 {
			if err := x.s.write(b.Context(), &headers{}, &in); err != nil {
				b.Fatal(err)
			}
		}
		in.Writes = nil
	}
	add := func(user, relation, object string) {
		if in.Writes = append(in.Writes, wire.Tuple{Key: wire.Key{User: user, Relation: relation, Object: object}}); len(in.Writes) == 100 {
			flush()
		}
	}
	for i := range 1000 {
		add(fmt.Sprint("user:", i), "member", fmt.Sprint("group:", i%100))
		add(fmt.Sprint("folder:", i%100), "parent", fmt.Sprint("document:", i))
		add(fmt.Sprint("user:", i), "owner", fmt.Sprint("document:", i))
	}
	for i := range 100 {
		add(fmt.Sprintf("group:%d#member", i), "viewer", fmt.Sprint("folder:", i))
	}
	flush()
	return x
}

// field makes a call and returns a field of its response.
func (x *benched) field(b *testing.B, method, path, body, field string) string {
	b.Helper()
	router, err := door.NewRouter(x.d.Routes)
	if err != nil {
		b.Fatal(err)
	}
	var p door.Params
	route, _ := router.Find(method, path, &p)
	r, err := http.NewRequest(method, path, bytes.NewReader([]byte(body)))
	if err != nil {
		b.Fatal(err)
	}
	w := &sink{header: http.Header{}}
	route.Serve(w, r, p)
	if w.status/100 != 2 {
		b.Fatalf("%s: %d %s", path, w.status, w.body)
	}
	_, rest, _ := bytes.Cut(w.body, []byte(`"`+field+`":"`))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

// BenchmarkHTTPDoor calls routes without a network. It measures the door and the
// engine, and for comparison a handler that reads the body and writes the same
// bytes ("noop").
func BenchmarkHTTPDoor(b *testing.B) {
	x := newBenched(b)
	router, err := door.NewRouter(x.d.Routes)
	if err != nil {
		b.Fatal(err)
	}
	var items []byte
	for i := range 50 {
		if i > 0 {
			items = append(items, ',')
		}
		items = fmt.Appendf(items, `{"tuple_key":{"user":"user:%d","relation":"viewer","object":"document:%d"},"correlation_id":"%d"}`, i, i, i)
	}
	for _, at := range []struct{ name, path, body string }{
		{"direct", "check", `{"tuple_key":{"user":"user:7","relation":"owner","object":"document:7"},"authorization_model_id":"` + x.model + `"}`},
		{"3-hop", "check", `{"tuple_key":{"user":"user:107","relation":"viewer","object":"document:7"},"authorization_model_id":"` + x.model + `"}`},
		{"batch of 50", "batch-check", `{"checks":[` + string(items) + `],"authorization_model_id":"` + x.model + `"}`},
		{"list", "list-objects", `{"type":"document","relation":"viewer","user":"user:7","authorization_model_id":"` + x.model + `"}`},
	} {
		path, body := "/stores/"+x.store+"/"+at.path, []byte(at.body)
		reader := bytes.NewReader(body)
		r, err := http.NewRequest(http.MethodPost, path, io.NopCloser(reader))
		if err != nil {
			b.Fatal(err)
		}
		r.ContentLength = int64(len(body))
		w := &sink{header: http.Header{}}
		var p door.Params
		route, _ := router.Find(http.MethodPost, path, &p)
		run := func(serve func(http.ResponseWriter, *http.Request, door.Params)) func(b *testing.B) {
			return func(b *testing.B) {
				b.ReportAllocs()
				used := processorTime(b)
				for b.Loop() {
					reader.Reset(body)
					clear(w.header)
					serve(w, r, p)
				}
				b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op")
				if w.status != http.StatusOK {
					b.Fatalf("%d %s", w.status, w.body)
				}
			}
		}
		b.Run(at.name, run(route.Serve))
		answer := bytes.Clone(w.body)
		b.Run(at.name+" noop", run(func(w http.ResponseWriter, r *http.Request, _ door.Params) {
			body, err := door.ReadBody(r)
			if err != nil {
				panic(err)
			}
			defer body.Free()
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{strconv.Itoa(len(answer))}
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write(answer)
		}))
	}
}

// BenchmarkGRPCDoor calls the gRPC implementation without a network.
func BenchmarkGRPCDoor(b *testing.B) {
	x := newBenched(b)
	impl := x.d.Services[0].Impl.(openfgav1.OpenFGAServiceServer)
	in := &openfgav1.CheckRequest{StoreId: x.store, AuthorizationModelId: x.model,
		TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:107", Relation: "viewer", Object: "document:7"}}
	b.ReportAllocs()
	used := processorTime(b)
	defer func() { b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op") }()
	for b.Loop() {
		if out, err := impl.Check(context.Background(), in); err != nil || !out.GetAllowed() {
			b.Fatal(out, err)
		}
	}
}

// processorTime returns the processor time of this process, garbage collection
// included. Unlike the clock it does not depend on the load of the machine.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
