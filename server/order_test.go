package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
)

// TestOrder prints in which order a request is refused. Each request begins with all the
// faults that it can have at once. After each refusal, the fault that the refusal names is
// mended, until the request is served. OSTIARY_REWRITE=1 writes the file.
func TestOrder(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, c := range orderCases {
		fmt.Fprintf(&out, "%s\n%s\n", c.name, c.play(t))
	}
	golden.Equal(t, "testdata/order.txt", out.String())
}

// orderCase is a request with what is wrong with it.
type orderCase struct {
	name   string
	keys   bool // the server has keys
	path   string
	method string // of gRPC
	// stream is true for a stream: then the places of streams are taken, and those of other
	// requests keep the connections busy; otherwise the reverse.
	stream bool
	own    bool // the door authenticates its callers
	public bool // the route needs no key
	send   func(*orderRig, *trial) string
	faults []func(*orderRig) *fault
}

// trial is a request that is about to be sent.
type trial struct {
	path, host string
	header     http.Header
	bytes      int // of the body
	door       string
	method     string
	caller     string
	keys       []forward.KeyID
}

// fault is something that is wrong with a request, in one way after the other.
type fault struct{ ways []way }

// way is one way in which a request is wrong.
type way struct {
	refusal string // a part of the answer
	apply   func(*trial)
	mend    func() // what is wrong with the server; nil for nothing
}

// play sends the request of a case until it is served, and returns the answers.
func (c *orderCase) play(t *testing.T) string {
	r := newOrderRig(t, c)
	var faults []*fault
	for _, f := range c.faults {
		faults = append(faults, f(r))
	}
	var out strings.Builder
	at := map[*fault]int{}
	last := "\x00" // the refusal whose fault was mended
	for {
		var answer string
		wait(t, func() bool { // until the server has noticed that the fault is mended
			q := &trial{path: c.path, host: "localhost", header: http.Header{}, bytes: 20_000, door: "order", method: c.method, caller: "first node", keys: r.good}
			if c.own {
				q.door = "own"
			}
			if c.public { // the messages of callers without a key are small
				q.bytes = 1000
			}
			if c.keys && !c.own && !c.public {
				q.header.Set("Authorization", "Bearer good")
			}
			for _, f := range faults {
				if at[f] < len(f.ways) && f.ways[at[f]].apply != nil {
					f.ways[at[f]].apply(q)
				}
			}
			answer = c.send(r, q)
			return !strings.Contains(answer, last)
		})
		fmt.Fprintf(&out, "\t%s\n", answer)
		if strings.HasSuffix(answer, "served") {
			break
		}
		var found *fault
		for _, f := range faults {
			if at[f] < len(f.ways) && strings.Contains(answer, f.ways[at[f]].refusal) {
				found = f
			}
		}
		if found == nil {
			t.Fatalf("%s: no fault has the answer %q", c.name, answer)
		}
		w := found.ways[at[found]]
		if w.mend != nil {
			w.mend()
		}
		last = w.refusal
		at[found]++
	}
	for _, f := range faults {
		if n := len(f.ways) - at[f]; n > 0 {
			fmt.Fprintf(&out, "\t(not refused: %s)\n", f.ways[at[f]].refusal)
		}
	}
	return out.String()
}

const (
	orderBody  = 100_000 // Options.BodyBytes
	trustedMax = 14      // of Options.ConnectionsPerAddress, an eighth is for other connections
)

// orderRig is a server whose places can be taken.
type orderRig struct {
	*testing.T
	*running
	c     *orderCase
	other string          // the secret of a key for another door
	good  []forward.KeyID // of the key that every door accepts; nil until forwardIDs has it
	bad   []forward.KeyID // of the key for another door
	trail *audit.Trail
	full  atomic.Bool // the output of the audit log fails

	taken int // how many connections are trusted

	mu     sync.Mutex
	holder bool         // this node writes
	sent   forward.Head // the last forwarded request
}

// Write implements the output of the audit log.
func (r *orderRig) Write(p []byte) (int, error) {
	if r.full.Load() {
		return 0, errors.New("no space")
	}
	return len(p), nil
}

// Target, Begin and Next implement [forward.Forwarder].
func (r *orderRig) Target(context.Context) (forward.Target, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.good == nil {
		return orderTarget{r}, false, nil
	}
	if !r.holder {
		return nil, false, errors.New("no node writes")
	}
	return nil, true, nil
}

func (r *orderRig) Begin(context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holder
}

func (r *orderRig) Next() (id storage.RequestID, after uint64) {
	return storage.RequestID{Node: storage.NodeID{1}, Number: storage.RequestWrites}, 0
}

// orderTarget is a node that is not reached.
type orderTarget struct{ *orderRig }

func (t orderTarget) Node() string { return "other" }

func (o orderTarget) HTTP(_ http.ResponseWriter, _ *http.Request, as forward.Head) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = as
	return forward.ErrNotBegun
}

func (o orderTarget) RPC(_ context.Context, _ forward.Call, as forward.Head) (forward.Answer, error) {
	return forward.Answer{}, o.HTTP(nil, nil, as)
}

// hold makes this node the one that writes, or not.
func (r *orderRig) hold(holder bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holder = holder
}

func newOrderRig(t *testing.T, c *orderCase) *orderRig {
	r := &orderRig{T: t, c: c}
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	key, err := audit.Key(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.OpenStream(r, audit.Options{Key: key, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	r.trail = audit.NewTrail(true, log)
	o := server.Options{Engine: e, Forwarder: r, Audit: r.trail, BodyBytes: orderBody, BodyBytesPerConnection: 2 * orderBody, BodyBytesTotal: 2 * orderBody,
		ConnectionsPerAddress: 16, RequestsMax: 4, StreamsMax: 100, RequestTimeout: time.Minute}
	if c.own {
		o.BodyBytesTotal = 4 * orderBody
	}
	if c.stream {
		o.RequestsMax, o.StreamsMax = 100, 1
	}
	o.Doors = []*door.Door{orderDoor("order", false), orderDoor("own", true), orderDoor("other", false)}
	if c.keys {
		registry := callers.New(e, callers.Options{})
		made, err := registry.Create(t.Context(), callers.NewKey{Name: "other", Stores: []string{"*"}, Rights: []string{"read"}, Doors: []string{"other"}})
		if err != nil {
			t.Fatal(err)
		}
		r.other = made.Secret
		o.Callers, o.Keys = registry, keys(t, server.Key{Name: "good", Secret: "good"}, server.Key{Name: "eve", Secret: "password", Basic: true})
	}
	r.running = start(t, o)
	if !c.keys {
		r.good = []forward.KeyID{{}}
	} else {
		ids := r.forwardIDs("/order", "good")
		r.bad = r.forwardIDs("/other", r.other)
		r.mu.Lock()
		r.good = ids
		r.mu.Unlock()
	}
	r.hold(true)
	return r
}

// forwardIDs returns the ids that a key has for other nodes.
func (r *orderRig) forwardIDs(path, secret string) (ids []forward.KeyID) {
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+r.at["http"]+path, nil)
		req.Header.Set("Authorization", "Bearer "+secret)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	wait(r, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		ids = r.sent.Keys
		return ids != nil
	})
	cancel()
	wait(r, func() bool { return strings.HasSuffix(r.metric(r, "ostiary_requests_in_flight "), " 0\n") })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent.Keys = nil
	return ids
}

// orderDoor returns a door whose requests can last.
func orderDoor(name string, own bool) *door.Door {
	d := &door.Door{Name: name, Prefixes: []string{"/" + name}, Basic: !own, OwnAuthentication: own}
	d.Refuse = func(w http.ResponseWriter, _ *http.Request, why *door.Refusal) {
		w.WriteHeader(why.Status())
		io.WriteString(w, why.Error())
	}
	serve := func(w http.ResponseWriter, r *http.Request, _ door.Params) {
		_, err := io.Copy(io.Discard, r.Body)
		if why, ok := errors.AsType[*door.Refusal](err); ok {
			d.Refuse(w, r, why)
			return
		}
		io.WriteString(w, "served")
	}
	hold := func(w http.ResponseWriter, r *http.Request, _ door.Params) {
		io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	p := "/" + name
	d.Routes = []door.Route{
		{Method: "POST", Pattern: p, Name: "Write", Writes: true, Serve: serve}, {Method: "POST", Pattern: p + "/hold", Name: "Hold", Serve: hold},
		{Method: "POST", Pattern: p + "/public", Name: "Public", Public: true, Serve: serve}, {Method: "POST", Pattern: p + "/public/hold", Name: "HoldPublic", Public: true, Serve: hold},
		{Method: "POST", Pattern: p + "/stream", Name: "Stream", Writes: true, Streams: true, Serve: serve}, {Method: "POST", Pattern: p + "/stream/hold", Name: "HoldStream", Streams: true, Serve: hold},
	}
	d.Missing = func(w http.ResponseWriter, _ *http.Request, _ []string) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "no route")
	}
	if name != "order" {
		return d
	}
	unary := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return wrapperspb.String("served"), decode(new(wrapperspb.StringValue))
	}
	desc := &grpc.ServiceDesc{ServiceName: "test.Order", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Write", Handler: unary}, {MethodName: "Public", Handler: unary}},
		Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
				return err
			}
			return s.SendMsg(wrapperspb.String("served"))
		}}}}
	d.Services = []door.Service{{Desc: desc, Impl: struct{}{}, Public: []string{"/test.Order/Public"}, Writes: []string{"Write"}}}
	return d
}

// take begins a request that lasts, with n bytes of body, on a connection of its own. It
// returns what ends the request. before are the paths of requests that the connection has
// before it.
func (r *orderRig) take(path string, n int, before ...string) (end func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	transport := &http.Transport{}
	end = func() {
		cancel()
		transport.CloseIdleConnections()
	}
	r.Cleanup(end)
	for _, p := range append(before, path) {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+r.at["http"]+p, strings.NewReader(strings.Repeat("x", n)))
		if err != nil {
			r.Fatal(err)
		}
		if r.c.keys && !strings.Contains(p, "public") {
			req.Header.Set("Authorization", "Bearer good")
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			r.Fatal(p, err)
		}
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(resp.Body)
			r.Fatalf("%s: %s %s", p, resp.Status, text)
		}
		if p != path {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	r.taken++
	return end
}

// takeAll takes n requests without a body, and returns what ends them.
func (r *orderRig) takeAll(path string, n int) (end func()) {
	var ends []func()
	for range n {
		ends = append(ends, r.take(path, 0))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// The faults of the server. Those of the bounds are made in this order.

// bodies: the bodies of other requests take all room.
func bodies(r *orderRig) *fault {
	if r.c.own {
		return &fault{[]way{{refusal: "OwnAuthenticationBodyBytes", mend: r.take("/own/hold", orderBody)}}}
	}
	one, two := r.take("/order/hold", orderBody), r.take("/order/hold", orderBody)
	return &fault{[]way{{refusal: "BodyBytesTotal", mend: func() { one(); two() }}}}
}

// place: there are as many requests as the bound allows.
func place(r *orderRig) *fault {
	switch {
	case r.c.public:
		return &fault{[]way{{refusal: "PublicRequestsMax", mend: r.take("/order/public/hold", 0, "/order")}}}
	case r.c.stream:
		return &fault{[]way{{refusal: "StreamsMax", mend: r.take("/order/stream/hold", 0)}}}
	}
	return &fault{[]way{{refusal: "bound RequestsMax", mend: r.takeAll("/order/hold", 2)}}}
}

// ownPlace: there are as many requests to doors that authenticate their callers as allowed.
func ownPlace(r *orderRig) *fault {
	return &fault{[]way{{refusal: "OwnAuthenticationRequestsMax", mend: r.take("/own/hold", 0)}}}
}

// trust: all places of trusted connections are taken.
func trust(r *orderRig) *fault {
	path := "/order/stream/hold"
	if r.c.stream {
		path = "/order/hold"
	}
	end := r.takeAll(path, trustedMax-r.taken)
	return &fault{[]way{{refusal: "TrustedConnectionsPerAddress", mend: func() {
		end()
		wait(r, func() bool { return r.Connections() < trustedMax/2 })
	}}}}
}

// unaudited: the audit log cannot be written.
func unaudited(r *orderRig) *fault {
	r.full.Store(true)
	go r.trail.Record(&audit.Record{Time: time.Now(), Kind: audit.KindWrite})
	wait(r, func() bool { return r.trail.Ready() != nil })
	return &fault{[]way{{refusal: "audit", mend: func() { r.full.Store(false) }}}}
}

// elsewhere: another node writes, which cannot be reached.
func elsewhere(r *orderRig) *fault {
	r.hold(false)
	return &fault{[]way{{refusal: "no node", mend: func() { r.hold(true) }}}}
}

// notHere: another node has become the one that writes.
func notHere(r *orderRig) *fault {
	r.hold(false)
	return &fault{[]way{{refusal: "not the holder", mend: func() { r.hold(true) }}}}
}

// The faults of the request.

func header(name string, values ...string) func(*trial) {
	return func(q *trial) { q.header[name] = values }
}

func path(r *orderRig) *fault {
	to := func(path string) func(*trial) { return func(q *trial) { q.path = path } }
	return &fault{[]way{{refusal: "canonical", apply: to(r.c.path + "//x")}, {refusal: "no door", apply: to("/nothing")}, {refusal: "no route", apply: to(r.c.path + "/nothing")}}}
}

func frontPath(*orderRig) *fault {
	to := func(path string) func(*trial) { return func(q *trial) { q.path = path } }
	return &fault{[]way{{refusal: "canonical", apply: to("//")}, {refusal: "no door", apply: to("/nothing")}}}
}

func page(*orderRig) *fault {
	return &fault{[]way{{refusal: "page", apply: header("Origin", "https://evil.example")}}}
}

func host(*orderRig) *fault {
	return &fault{[]way{{refusal: "Host", apply: func(q *trial) { q.host = "evil.example" }}}}
}

// loginFault: the right key comes last. Only HTTP has passwords.
func loginFault(r *orderRig) *fault {
	ways := []way{{refusal: "credentials are required", apply: func(q *trial) { delete(q.header, "Authorization") }}, {refusal: "not accepted", apply: header("Authorization", "Bearer wrong")}}
	if r.c.method == "" {
		eve := "Basic " + base64.StdEncoding.EncodeToString([]byte("eve:wrong"))
		ways = append([]way{{refusal: "WrongPasswordsPerAddress", apply: func(q *trial) {
			wait(r, func() bool {
				guess := &trial{path: "/order", host: "localhost", header: http.Header{"Authorization": {eve}}}
				return strings.Contains(sendHTTP(r, guess), "WrongPasswordsPerAddress")
			})
			header("Authorization", eve)(q)
		}}}, ways...)
	}
	return &fault{append(ways, way{refusal: "not for the door", apply: header("Authorization", "Bearer "+r.other)})}
}

func reasons(*orderRig) *fault {
	return &fault{[]way{{refusal: "Ostiary-Reason", apply: header("Ostiary-Reason", "one", "two")}}}
}

func large(*orderRig) *fault {
	return &fault{[]way{{refusal: "bound BodyBytes is", apply: func(q *trial) { q.bytes = orderBody + 1 }}}}
}

func noDoor(*orderRig) *fault {
	return &fault{[]way{{refusal: "does not serve the door", apply: func(q *trial) { q.door = "nothing" }}}}
}

func origin(*orderRig) *fault {
	return &fault{[]way{{refusal: "control character", apply: func(q *trial) { q.caller = "a\tb" }}}}
}

func noRoute(r *orderRig) *fault {
	return &fault{[]way{{refusal: "no route", apply: func(q *trial) { q.path += "/nothing" }}}}
}

func noMethod(*orderRig) *fault {
	return &fault{[]way{{refusal: "has no method", apply: func(q *trial) { q.method = "/test.Order/Nothing" }}}}
}

func forwardedKey(r *orderRig) *fault {
	use := func(ids []forward.KeyID) func(*trial) { return func(q *trial) { q.keys = ids } }
	return &fault{[]way{{refusal: "not accepted", apply: use([]forward.KeyID{{}})}, {refusal: "not for the door", apply: use(r.bad)}}}
}

// sendHTTP sends a request over HTTP, on a new connection.
func sendHTTP(r *orderRig, q *trial) string { return sendMethod(r, q, "POST") }

// sendFront asks for the page of the server, with a body.
func sendFront(r *orderRig, q *trial) string {
	answer := sendMethod(r, q, "GET")
	if strings.HasPrefix(answer, `200 {"about":"Ostiary `) {
		answer = "200 served"
	}
	return answer
}

func sendMethod(r *orderRig, q *trial, method string) string {
	req, err := http.NewRequestWithContext(r.Context(), method, "http://"+r.at["http"]+q.path, strings.NewReader(strings.Repeat("x", q.bytes)))
	if err != nil {
		r.Fatal(err)
	}
	req.Host, req.Header = q.host, q.header
	conn := r.connect(r)
	defer conn.Close()
	go req.Write(conn) // the server may answer before it has read the body
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, bytes.TrimSpace(text))
}

// sendRPC makes a call on a new connection.
func sendRPC(r *orderRig, q *trial) string {
	conn, err := grpc.NewClient(r.at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close()
	md := metadata.MD{}
	for name, values := range q.header {
		md.Append(name, values...)
	}
	in, out := wrapperspb.String(strings.Repeat("x", q.bytes)), new(wrapperspb.StringValue)
	stream, err := conn.NewStream(metadata.NewOutgoingContext(r.Context(), md), &grpc.StreamDesc{ServerStreams: true}, q.method)
	if err == nil {
		_ = stream.SendMsg(in) // RecvMsg returns the reason
		_ = stream.CloseSend()
		err = stream.RecvMsg(out)
	}
	if err != nil {
		return fmt.Sprintf("%d %s", status.Code(err), status.Convert(err).Message())
	}
	return "0 " + out.Value
}

func (r *orderRig) as(q *trial) forward.Head {
	return forward.Head{Door: q.door, Keys: q.keys, Origin: storage.Origin{Caller: q.caller, Request: storage.RequestID{Node: storage.NodeID{2}, Number: storage.RequestWrites}}, Remote: "192.0.2.1:1", ID: "id"}
}

// sendForwarded sends a request as another node does.
func sendForwarded(r *orderRig, q *trial) string {
	req := httptest.NewRequestWithContext(r.Context(), "POST", q.path, strings.NewReader(strings.Repeat("x", q.bytes)))
	req.Header = q.header
	w := httptest.NewRecorder()
	if err := r.ServeForwarded(w, req, r.as(q)); err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%d %s", w.Code, w.Body)
}

// sendForwardedRPC makes a call as another node does.
func sendForwardedRPC(r *orderRig, q *trial) string {
	message, err := proto.Marshal(wrapperspb.String(strings.Repeat("x", q.bytes)))
	if err != nil {
		r.Fatal(err)
	}
	a, err := r.InvokeForwarded(r.Context(), forward.Call{Method: q.method, Message: message}, r.as(q))
	if err != nil {
		return "error: " + err.Error()
	}
	if a.Err != nil {
		return fmt.Sprintf("%d %s", status.Code(a.Err), status.Convert(a.Err).Message())
	}
	out := new(wrapperspb.StringValue)
	if err := proto.Unmarshal(a.Message, out); err != nil {
		r.Fatal(err)
	}
	return "0 " + out.Value
}

// orderCases are all kinds of requests. Their faults are in no order, except that those of
// the bounds are made first, and trust last of them.
var orderCases = []orderCase{
	{name: "HTTP without keys, a write", path: "/order", send: sendHTTP, faults: []func(*orderRig) *fault{bodies, place, trust, elsewhere, large, reasons, host, path, page, unaudited}},
	{name: "HTTP with keys, a write", keys: true, path: "/order", send: sendHTTP, faults: []func(*orderRig) *fault{bodies, place, trust, elsewhere, large, reasons, loginFault, path, unaudited}},
	{name: "HTTP with keys, a stream that writes", keys: true, stream: true, path: "/order/stream", send: sendHTTP, faults: []func(*orderRig) *fault{bodies, place, trust, elsewhere, large, reasons, loginFault, path, unaudited}},
	{name: "HTTP with keys, a public route", keys: true, public: true, path: "/order/public", send: sendHTTP, faults: []func(*orderRig) *fault{place, trust, elsewhere, large, reasons, loginFault, path}},
	{name: "HTTP with keys, the page at /", keys: true, public: true, path: "/", send: sendFront, faults: []func(*orderRig) *fault{place, trust, elsewhere, large, reasons, loginFault, frontPath}},
	{name: "HTTP with keys, a door that authenticates its callers", keys: true, own: true, path: "/own", send: sendHTTP, faults: []func(*orderRig) *fault{bodies, ownPlace, place, elsewhere, large, reasons, path, unaudited}},
	{name: "gRPC without keys, a write", method: "/test.Order/Write", send: sendRPC, faults: []func(*orderRig) *fault{bodies, place, trust, elsewhere, large, reasons, unaudited}},
	{name: "gRPC with keys, a write", keys: true, method: "/test.Order/Write", send: sendRPC, faults: []func(*orderRig) *fault{bodies, place, trust, elsewhere, large, reasons, loginFault, unaudited}},
	{name: "gRPC with keys, a stream", keys: true, stream: true, method: "/test.Order/Stream", send: sendRPC, faults: []func(*orderRig) *fault{bodies, place, trust, large, reasons, loginFault}},
	{name: "gRPC with keys, a public method", keys: true, public: true, method: "/test.Order/Public", send: sendRPC, faults: []func(*orderRig) *fault{place, trust, large, reasons}},
	{name: "HTTP from another node, a write", keys: true, path: "/order", send: sendForwarded, faults: []func(*orderRig) *fault{bodies, place, large, forwardedKey, noDoor, noRoute, origin, notHere, unaudited}},
	{name: "HTTP from another node, a stream that writes", keys: true, stream: true, path: "/order/stream", send: sendForwarded, faults: []func(*orderRig) *fault{place, large, forwardedKey, noDoor, noRoute, origin, notHere}},
	{name: "HTTP from another node, a door that authenticates its callers", keys: true, own: true, path: "/own", send: sendForwarded, faults: []func(*orderRig) *fault{bodies, ownPlace, place, large, noDoor, noRoute, origin, notHere}},
	{name: "gRPC from another node, a write", keys: true, method: "/test.Order/Write", send: sendForwardedRPC, faults: []func(*orderRig) *fault{bodies, place, large, forwardedKey, noDoor, noMethod, origin, notHere, unaudited}},
}
