package permify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
)

// dial serves the door's gRPC services in memory.
func dial(t testing.TB, d *door.Door) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	for _, s := range d.Services {
		server.RegisterService(s.Desc, s.Impl)
	}
	go func() { _ = server.Serve(listener) }() // ends with Stop
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
	})
	return conn
}

// listen serves the door's routes on a loopback port.
func listen(t testing.TB, d *door.Door) *httptest.Server {
	t.Helper()
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p door.Params
		route, methods := router.Find(r.Method, r.URL.EscapedPath(), &p)
		if route == nil {
			d.Missing(w, r, methods)
			return
		}
		route.Serve(w, r, p)
	}))
	t.Cleanup(server.Close)
	return server
}

const watchSchema = "entity user {}\nentity doc {\n relation owner @user\n attribute on boolean\n}"

// clients are gRPC clients of a new door, whose tenant t1 has a schema.
type clients struct {
	door   *door.Door
	data   permifypb.DataClient
	watch  permifypb.WatchClient
	schema permifypb.SchemaClient
	permit permifypb.PermissionClient
	engine *ostiary.Engine
}

// connect opens a door and writes a schema to t1.
func connect(t testing.TB, schema string) *clients {
	t.Helper()
	e, d := start(t, Options{})
	conn := dial(t, d)
	c := &clients{d, permifypb.NewDataClient(conn), permifypb.NewWatchClient(conn), permifypb.NewSchemaClient(conn), permifypb.NewPermissionClient(conn), e}
	if _, err := c.schema.Write(t.Context(), &permifypb.SchemaWriteRequest{TenantId: "t1", Schema: schema}); err != nil {
		t.Fatal(err)
	}
	return c
}

// write writes lines to t1 and returns the snap token.
func (c *clients) write(t testing.TB, lines ...string) string {
	t.Helper()
	r := &permifypb.DataWriteRequest{TenantId: "t1", Metadata: &permifypb.DataWriteRequestMetadata{}}
	for _, l := range lines {
		if strings.Contains(l, "$") {
			a, typ, err := ParseAttribute(l)
			if err != nil {
				t.Fatal(err)
			}
			v, err := valueMessage(a.Value, typ)
			if err != nil {
				t.Fatal(err)
			}
			r.Attributes = append(r.Attributes, &permifypb.Attribute{Entity: entityMessage(a.Object), Attribute: a.Name, Value: v})
			continue
		}
		k, err := ParseTuple(l)
		if err != nil {
			t.Fatal(err)
		}
		r.Tuples = append(r.Tuples, tupleMessage(k.Key()))
	}
	out, err := c.data.Write(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return out.SnapToken
}

// changeLine formats a change as one line.
func changeLine(c *permifypb.DataChange) string {
	op := map[permifypb.DataChange_Operation]string{1: "+", 2: "-"}[c.Operation]
	if tuple := c.GetTuple(); tuple != nil {
		return op + object(tuple.Entity).String() + "#" + tuple.Relation + "@" + subject(tuple.Subject).String()
	}
	return op + object(c.GetAttribute().Entity).String() + "$" + c.GetAttribute().Attribute
}

// TestWatch checks that a watch from a token reports every later change,
// including what a filter deletes.
func TestWatch(t *testing.T) {
	t.Parallel()
	c := connect(t, watchSchema)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first := c.write(t, "doc:0#owner@user:0")
	stream, err := c.watch.Watch(ctx, &permifypb.WatchRequest{TenantId: "t1", SnapToken: first})
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, "doc:1#owner@user:1", "doc:1#owner@user:2", "doc:2#owner@user:1", "doc:1$on|boolean:true")
	if _, err := c.schema.Write(ctx, &permifypb.SchemaWriteRequest{TenantId: "t1", Schema: watchSchema}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.data.Delete(ctx, &permifypb.DataDeleteRequest{TenantId: "t1",
		TupleFilter:     &permifypb.TupleFilter{Entity: &permifypb.EntityFilter{Type: "doc", Ids: []string{"1", "2"}}},
		AttributeFilter: &permifypb.AttributeFilter{Entity: &permifypb.EntityFilter{Type: "doc"}}}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"+doc:1#owner@user:1", "+doc:1#owner@user:2", "+doc:2#owner@user:1", "+doc:1$on",
		"-doc:1#owner@user:1", "-doc:1#owner@user:2", "-doc:2#owner@user:1", "-doc:1$on",
	}
	var got []string
	last := ""
	for len(got) < len(want) {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		if m.Changes.SnapToken == last || m.Changes.SnapToken == "" {
			t.Errorf("snap token %q is missing or repeated", last)
		}
		last = m.Changes.SnapToken
		for _, ch := range m.Changes.DataChanges {
			got = append(got, changeLine(ch))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestWatchFromNow checks that a watch without a token reports later changes,
// even if nothing was ever written.
func TestWatchFromNow(t *testing.T) {
	t.Parallel()
	c := connect(t, watchSchema)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stream, err := c.watch.Watch(ctx, &permifypb.WatchRequest{TenantId: "t1"})
	if err != nil {
		t.Fatal(err)
	}
	// The test cannot see when the watch has started, so it writes until the
	// watch reports a write.
	got := make(chan string, 1)
	go func() {
		m, err := stream.Recv()
		if err != nil {
			got <- err.Error()
			return
		}
		got <- changeLine(m.Changes.DataChanges[0])
	}()
	for i := 0; ; i++ {
		c.write(t, "doc:1#owner@user:"+strings.Repeat("x", 1+i%100))
		select {
		case line := <-got:
			if !strings.HasPrefix(line, "+doc:1#owner@user:x") {
				t.Fatal(line)
			}
			return
		default:
		}
	}
}

// TestWatchOverREST checks the REST route of the watch, which the original
// documents but does not serve.
func TestWatchOverREST(t *testing.T) {
	t.Parallel()
	c := connect(t, watchSchema)
	token := c.write(t, "doc:0#owner@user:0")
	c.write(t, "doc:1#owner@user:1")
	server := listen(t, c.door)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/tenants/t1/watch", strings.NewReader(`{"snap_token":"`+token+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Result struct {
			Changes struct {
				SnapToken   string `json:"snap_token"`
				DataChanges []struct {
					Operation string
					Tuple     struct{ Subject struct{ ID string } }
				} `json:"data_changes"`
			}
		}
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	ch := got.Result.Changes
	if ch.SnapToken == "" || len(ch.DataChanges) != 1 || ch.DataChanges[0].Operation != "OPERATION_CREATE" || ch.DataChanges[0].Tuple.Subject.ID != "1" {
		t.Errorf("got %s", line)
	}
}

// TestWatchRefuses checks the errors for an unknown tenant, an invalid tenant
// id and an invalid token.
func TestWatchRefuses(t *testing.T) {
	t.Parallel()
	c := connect(t, watchSchema)
	for tenant, want := range map[string]codes.Code{"nobody": codes.NotFound, "a b": codes.InvalidArgument, "t1": codes.InvalidArgument} {
		stream, err := c.watch.Watch(t.Context(), &permifypb.WatchRequest{TenantId: tenant, SnapToken: "nonsense"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != want {
			t.Errorf("%s: %v", tenant, err)
		}
	}
}

// TestWatchEnds checks that a watch ends when its client leaves.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	e, d := start(t, Options{})
	s := d.Services[5].Impl.(watchServer).s
	if _, err := s.WriteSchema(t.Context(), &permifypb.SchemaWriteRequest{TenantId: "t1", Schema: watchSchema}); err != nil {
		t.Fatal(err)
	}
	_ = e
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Watch(ctx, &permifypb.WatchRequest{TenantId: "t1"}, func(*permifypb.WatchResponse) error { return nil })
	}()
	stop()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("ended with %v", err)
	}
}

// TestStreamEnds checks that a stream ends when its client leaves.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	_, d := start(t, Options{})
	s := d.Services[0].Impl.(permissionServer).s
	if _, err := s.WriteSchema(t.Context(), &permifypb.SchemaWriteRequest{TenantId: "t1", Schema: watchSchema}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2", "3"} {
		if _, err := s.write(t.Context(), &writeRequest{tenant: "t1", tuples: []rel.Tuple{{Object: rel.Object{Type: "doc", ID: id},
			Relation: "owner", Subject: rel.Subject{Type: "user", ID: "1"}}}}); err != nil {
			t.Fatal(err)
		}
	}
	sent, gone := 0, errors.New("the client is gone")
	err := s.LookupEntityStream(t.Context(), &permifypb.PermissionLookupEntityRequest{TenantId: "t1",
		Metadata: &permifypb.PermissionLookupEntityRequestMetadata{Depth: 3}, EntityType: "doc", Permission: "owner", Subject: &permifypb.Subject{Type: "user", Id: "1"}},
		func(*permifypb.PermissionLookupEntityStreamResponse) error {
			sent++
			return gone
		})
	if !errors.Is(err, gone) || sent != 1 {
		t.Errorf("%v after %d", err, sent)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = s.LookupEntity(ctx, &permifypb.PermissionLookupEntityRequest{TenantId: "t1",
		Metadata: &permifypb.PermissionLookupEntityRequestMetadata{Depth: 3}, EntityType: "doc", Permission: "owner", Subject: &permifypb.Subject{Type: "user", Id: "1"}})
	if status.Code(err) != codes.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}
