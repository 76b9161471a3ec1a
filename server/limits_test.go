package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/server"
)

// limitWorld is a server with keys and a store whose limits a test sets.
type limitWorld struct {
	*testing.T
	*running
	registry *callers.Registry
	store    *ostiary.Store
	secrets  map[string]string
}

// few is a limit that a test uses up: one request each second.
func few(burst int64) turns.Limits {
	return turns.Limits{Requests: &turns.Rate{PerSecond: 1, Burst: burst}}
}

// many is a limit that no test uses up.
var many = few(1_000_000)

func newLimitWorld(t *testing.T, o server.Options) *limitWorld {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	w := &limitWorld{T: t, registry: callers.New(e, callers.Options{}), secrets: map[string]string{}}
	if w.store, err = e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "team-a"}); err != nil {
		t.Fatal(err)
	}
	w.key("admin", "*", "admin", turns.Limits{})
	lookup := &door.Door{Name: "lookup", Prefixes: []string{"/lookup"}, Refuse: func(rw http.ResponseWriter, _ *http.Request, why *door.Refusal) {
		http.Error(rw, why.Error(), why.Status())
	}}
	answer := func(rw http.ResponseWriter, err error) {
		if err != nil {
			f := door.Describe(err)
			http.Error(rw, f.Text, f.Status)
			return
		}
		rw.WriteHeader(http.StatusOK)
	}
	fine := func(rw http.ResponseWriter, _ *http.Request, _ door.Params) { answer(rw, nil) }
	lookup.Routes = []door.Route{{Method: "GET", Pattern: "/lookup", Name: "Lookup", Serve: func(rw http.ResponseWriter, r *http.Request, _ door.Params) {
		_, err := e.Store(r.Context(), w.store.ID())
		if err == nil {
			_, err = e.Store(r.Context(), w.store.ID())
		}
		answer(rw, err)
	}}, {Method: "GET", Pattern: "/lookup/work", Name: "Work", Serve: func(rw http.ResponseWriter, r *http.Request, _ door.Params) {
		_, err := e.Store(r.Context(), w.store.ID())
		for begin := time.Now(); err == nil && time.Since(begin) < 20*time.Second; {
			if err = r.Context().Err(); err != nil {
				err = &authz.Error{Op: "check", Kind: authz.ErrCanceled, Err: err}
			}
		}
		answer(rw, err)
	}}, {Method: "GET", Pattern: "/lookup/lift", Name: "Lift", Unlimited: true, Serve: fine},
		{Method: "GET", Pattern: "/lookup/public", Name: "Public", Public: true, Serve: fine},
	}
	o.Engine, o.Callers, o.Keys, o.Doors = e, w.registry, keys(t, server.Key{Name: "of-the-file", Secret: "of-the-file"}), []*door.Door{echoDoor(), lookup}
	w.secrets["of-the-file"] = "of-the-file"
	w.running = start(t, o)
	return w
}

// key makes a key.
func (w *limitWorld) key(name, stores, right string, l turns.Limits) {
	w.Helper()
	made, err := w.registry.Create(w.Context(), callers.NewKey{Name: name, Stores: []string{stores}, Rights: []string{right}, Limits: l})
	if err != nil {
		w.Fatal(err)
	}
	w.secrets[name] = made.Secret
}

func (w *limitWorld) get(path, key string) (int, http.Header, string) {
	w.Helper()
	return w.ask(w, "GET", path, "", "Authorization", "Bearer "+w.secrets[key])
}

// until sends requests until one is refused, and returns how many were not.
func (w *limitWorld) until(send func() bool) (served int) {
	w.Helper()
	for send() {
		if served++; served == 1000 {
			w.Fatal("1000 requests are served")
		}
	}
	return served
}

func (w *limitWorld) set(name string, l turns.Limits) {
	w.Helper()
	if err := w.registry.SetLimits(w.Context(), name, l); err != nil {
		w.Fatal(err)
	}
}

// used returns how many requests a key has used of its limit.
func (w *limitWorld) used(name string) int64 {
	return w.registry.LimitsOfCaller(nil, name)[0].RequestShare.Used(w.registry.Elapsed(time.Now()))
}

// TestLimits uses up the limits of keys over HTTP. Each key has its own, and the refusal has
// the name, the value, what is used, and when to try again. What is refused costs nothing, also
// of the other limits that count.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t, server.Options{})
	w.key("a", "team-*", "read", few(3))
	w.key("b", "team-*", "read", few(3))
	for _, name := range []string{"a", "b", "of-the-file"} {
		if name == "of-the-file" {
			w.set(name, few(3))
		}
		served := w.until(func() bool { code, _, _ := w.get("/echo/caller", name); return code == http.StatusOK })
		if served < 3 {
			t.Errorf("%s: %d requests are served, of a burst of 3", name, served)
		}
		code, header, text := 0, http.Header{}, ""
		for code != http.StatusTooManyRequests {
			code, header, text = w.get("/echo/caller", name)
		}
		if want := fmt.Sprintf("echo: too many requests: the limit of the key %q, with a burst of 3, is used up: the bound RequestsPerSecond is 1, and 3 are used", name); header.Get("Retry-After") != "1" || text != want {
			t.Errorf("%s: Retry-After %q, %s\nwant %s", name, header.Get("Retry-After"), text, want)
		}
		if n := w.metric(t, `ostiary_limited_total{kind="key",limit="RequestsPerSecond",name="`+name+`"}`); n == "" {
			t.Errorf("%s: no metric:\n%s", name, w.metric(t, "ostiary_limited"))
		}
	}
	if code, _, _ := w.get("/echo/caller", "admin"); code != http.StatusOK {
		t.Errorf("a key without limits: %d", code)
	}
	if n := w.metric(t, `ostiary_refusals_total{reason="limited"}`); n == "" {
		t.Error("the refusals are not counted")
	}
	w.set("a", turns.Limits{})
	for range 10 {
		if code, _, text := w.get("/echo/caller", "a"); code != http.StatusOK {
			t.Errorf("after the limit is lifted: %d %s", code, text)
		}
	}
}

// TestLimitsOfMakers: the requests of a key count for the keys that have made it too. If one of
// these refuses a request, the others get theirs back.
func TestLimitsOfMakers(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t, server.Options{})
	w.key("team", "team-*", "admin", few(3))
	maker, err := w.registry.Secret(t.Context(), w.secrets["team"])
	if err != nil {
		t.Fatal(err)
	}
	as := authz.WithAccess(t.Context(), maker)
	for _, name := range []string{"team~ci", "team~cd"} {
		made, err := w.registry.Create(as, callers.NewKey{Name: name, Stores: []string{"team-*"}, Rights: []string{"read"}, Limits: many})
		if err != nil {
			t.Fatal(err)
		}
		w.secrets[name] = made.Secret
	}
	served := w.until(func() bool {
		one, _, _ := w.get("/echo/caller", "team~ci")
		other, _, _ := w.get("/echo/caller", "team~cd")
		return one == http.StatusOK || other == http.StatusOK
	})
	for range 20 {
		w.get("/echo/caller", "team~ci")
	}
	if of, most := w.used("team~ci")+w.used("team~cd"), int64(2*served); served == 0 || of > most {
		t.Errorf("%d requests count for the keys, at most %d were served", of, most)
	}
	// The maker revokes itself: its limits stay for the keys that it has made.
	if _, err := w.registry.Revoke(as, "team"); err != nil {
		t.Fatal(err)
	}
	w.until(func() bool { code, _, _ := w.get("/echo/caller", "team~ci"); return code == http.StatusOK })
}

// TestLimitsOfStores uses up the limits of a store. A request counts once, whatever key it has
// and however often it looks the store up.
func TestLimitsOfStores(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t, server.Options{})
	w.key("a", "team-*", "read", many)
	if err := w.registry.SetStoreLimits(t.Context(), w.store.Info(), few(4)); err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"a", "of-the-file", "admin", "a"} {
		if code, _, text := w.get("/lookup", key); code != http.StatusOK {
			t.Fatalf("request %d of a burst of 4: %d %s", i+1, code, text)
		}
	}
	w.until(func() bool { code, _, _ := w.get("/lookup", "a"); return code == http.StatusOK })
	code, header, text := 0, http.Header{}, ""
	for code != http.StatusTooManyRequests {
		code, header, text = w.get("/lookup", "admin")
	}
	if !strings.Contains(text, strconv.Quote(w.store.ID().String())) || !strings.Contains(text, "RequestsPerSecond is 1") || header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q: %s", header.Get("Retry-After"), text)
	}
	if code, _, _ := w.get("/echo/caller", "a"); code != http.StatusOK {
		t.Errorf("a request to no store: %d", code)
	}
	if n := w.metric(t, `ostiary_limited_total{kind="store"`); !strings.Contains(n, w.store.ID().String()) {
		t.Errorf("metrics: %s", n)
	}
}

// TestLimitOfZero: a key with a limit of zero gets nothing, and is not told to try again. One
// that sets limits still can, and health and metrics are answered.
func TestLimitOfZero(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t, server.Options{})
	w.key("a", "team-*", "admin", few(3))
	for _, l := range []turns.Limits{{Requests: &turns.Rate{}}, {ProcessorMillis: &turns.Rate{}}} {
		for _, name := range []string{"a", "admin", "of-the-file"} {
			w.set(name, l)
			code, header, text := w.get("/echo/caller", name)
			if code != http.StatusTooManyRequests || header.Get("Retry-After") != "" || !strings.Contains(text, "allows none") {
				t.Errorf("%s, %s: %d, Retry-After %q: %s", name, l.String(), code, header.Get("Retry-After"), text)
			}
			want := http.StatusOK
			if name == "a" {
				want = http.StatusTooManyRequests
			}
			if code, _, text := w.get("/lookup/lift", name); code != want {
				t.Errorf("%s lifts a limit: %d %s, want %d", name, code, text, want)
			}
			for _, path := range []string{"/healthz", "/readyz", "/lookup/public", "/echo/open"} {
				if code, _, text := w.get(path, name); code != http.StatusOK {
					t.Errorf("%s of %s: %d %s", path, name, code, text)
				}
			}
		}
	}
	if w.metric(t, "ostiary_limited_total") == "" {
		t.Error("no metrics")
	}
}

// TestLimitsOverGRPC uses up the limits of a key over gRPC: by calls, by streams, and by the
// messages of one stream. The refusal has a google.rpc.RetryInfo.
func TestLimitsOverGRPC(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t, server.Options{})
	for _, name := range []string{"calls", "streams", "messages"} {
		w.key(name, "team-*", "read", few(3))
	}
	conn := w.dial(t)
	as := func(name string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+w.secrets[name])
	}
	limited := func(err error) bool {
		t.Helper()
		switch status.Code(err) {
		case codes.OK:
			return true
		case codes.ResourceExhausted, codes.Code(1000 + uint32(door.Limited)), codes.Code(3000 + uint32(door.Limited)):
			return false
		}
		t.Fatal(err)
		return false
	}
	if n := w.until(func() bool {
		return limited(conn.Invoke(as("calls"), "/test.Echo/Echo", wrapperspb.String("x"), new(wrapperspb.StringValue)))
	}); n < 3 {
		t.Errorf("%d calls of a burst of 3", n)
	}
	if n := w.until(func() bool {
		ctx, cancel := context.WithCancel(as("streams"))
		defer cancel()
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Echo/Stream")
		if err == nil {
			s.SendMsg(wrapperspb.String("x"))
			err = s.RecvMsg(new(wrapperspb.StringValue))
		}
		return limited(err)
	}); n < 3 {
		t.Errorf("%d streams of a burst of 3", n)
	}
	s, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(as("messages"))
	if err != nil {
		t.Fatal(err)
	}
	if n := w.until(func() bool {
		s.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
		_, err = s.Recv()
		return limited(err)
	}); n < 3 {
		t.Errorf("%d messages of a burst of 3", n)
	}
	details := status.Convert(err).Details()
	if len(details) != 1 || details[0].(*errdetails.RetryInfo).RetryDelay.AsDuration() <= 0 || !strings.Contains(err.Error(), "RequestsPerSecond is 1") {
		t.Errorf("%v, details %v", err, details)
	}
}

// TestLimitOfProcessor: a request that uses more than its caller, or its store, may use ends with
// a refusal, and the next ones are refused until it is made up for.
func TestLimitOfProcessor(t *testing.T) {
	t.Parallel()
	w := newLimitWorld(t, server.Options{RequestTimeout: -1})
	slow := turns.Limits{ProcessorMillis: &turns.Rate{PerSecond: 1, Burst: 20}}
	w.key("a", "team-*", "read", slow)
	code, header, text := w.get("/lookup/work", "a")
	if seconds, _ := strconv.Atoi(header.Get("Retry-After")); code != http.StatusTooManyRequests || seconds < 10 || seconds > 21 ||
		!strings.Contains(text, `the limit of the key "a", with a burst of 20, is used up: the bound ProcessorMillisPerSecond is 1, and 40 are used`) {
		t.Errorf("%d, Retry-After %s: %s", code, header.Get("Retry-After"), text)
	}
	if code, _, text := w.get("/echo/caller", "a"); code != http.StatusTooManyRequests || !strings.Contains(text, "ProcessorMillisPerSecond is 1") {
		t.Errorf("the next request: %d %s", code, text)
	}
	if n := w.metric(t, `ostiary_limited_total{kind="key",limit="ProcessorMillisPerSecond",name="a"}`); !strings.HasSuffix(n, " 2\n") {
		t.Errorf("metrics: %s", n)
	}
	if err := w.registry.SetStoreLimits(t.Context(), w.store.Info(), slow); err != nil {
		t.Fatal(err)
	}
	if code, _, text := w.get("/lookup/work", "admin"); code != http.StatusTooManyRequests || !strings.Contains(text, w.store.ID().String()) {
		t.Errorf("work in a store with limits: %d %s", code, text)
	}
}

// TestLimitsInAudit: refusals because of a limit are in the audit log, those of one caller and
// limit together.
func TestLimitsInAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, err := audit.Key(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	log, err := audit.OpenStream(file, audit.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	trail := audit.NewTrail(true, log)
	w := newLimitWorld(t, server.Options{Audit: trail})
	w.key("a", "team-*", "read", many)
	for _, l := range []turns.Limits{{Requests: &turns.Rate{}}, {ProcessorMillis: &turns.Rate{}}} {
		w.set("a", l)
		for range 50 {
			w.get("/echo/caller", "a")
		}
	}
	w.set("a", turns.Limits{})
	if err := w.registry.SetStoreLimits(t.Context(), w.store.Info(), turns.Limits{Requests: &turns.Rate{}}); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		w.get("/lookup", "a")
	}
	w.stop()
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`the limit of the key \"a\" allows none: the bound RequestsPerSecond is 0`, `the limit of the key \"a\" allows none: the bound ProcessorMillisPerSecond is 0`,
		`the limit of the store \"` + w.store.ID().String()} {
		if n := strings.Count(string(text), want); n != 2 {
			t.Errorf("%d records have %s, want the first and one for the other 49:\n%s", n, want, text)
		}
	}
	if strings.Count(string(text), `"count":49`) != 3 {
		t.Errorf("the records do not count the other refusals:\n%s", text)
	}
}
