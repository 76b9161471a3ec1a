package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

const secret = "s3cret-key-0123456789"

// TestGuard checks that every route and method that is not public is refused, in
// the door's shape, without a key, with a wrong one, and with malformed headers.
// (cmd/ostiary has a test of the routes of all real doors.)
func TestGuard(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Keys: keys(t, server.Key{Name: "ops", Secret: secret}, server.Key{Secret: "other"}), RequestTimeout: 1})
	good := []string{"Authorization", "Bearer " + secret}
	r.ask(t, "GET", "/echo/caller", "", good...) // else the refusals on the connection are delayed
	for _, route := range echoDoor().Routes {
		path := strings.NewReplacer("{how}", "poll", "{when}", "early").Replace(route.Pattern)
		for _, bad := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", secret}, {"Authorization", "Basic " + secret},
			{"Authorization", "Bearer " + secret + "x"}, {"Authorization", "Bearer "}, {"Authorization", "Bearer  " + secret},
			{"Authorization", "Bearer " + secret, "Authorization", "Bearer " + secret}, {"authorization", "Bearer " + secret[:len(secret)-1]}} {
			status, h, body := r.ask(t, route.Method, path, "", bad...)
			if route.Public != (status == 200) {
				t.Errorf("%s %s with %q: %d %s", route.Method, path, bad, status, body)
			}
			if !route.Public && (status != 401 || !strings.HasPrefix(body, "echo: ") || h.Get("Www-Authenticate") != "Bearer") {
				t.Errorf("%s %s with %q: %d %s %v", route.Method, path, bad, status, body, h)
			}
		}
	}
	if status, _, body := r.ask(t, "GET", "/echo/caller", "", good...); status != 200 || body != "preshared ops" {
		t.Error(status, body)
	}
	if status, _, _ := r.ask(t, "GET", "/echo/caller", "", "Authorization", "bEARER other"); status != 200 {
		t.Error(status)
	}
	conn := r.dial(t)
	for _, s := range r.services() {
		full := s
		var out wrapperspb.StringValue
		err := conn.Invoke(context.Background(), full, wrapperspb.String(""), &out)
		public := strings.HasSuffix(full, "/Open") || strings.Contains(full, "Health")
		if refused := status.Code(err) == 1001 || status.Code(err) == 3001 || strings.Contains(fmt.Sprint(err), "credentials are required"); refused == public {
			t.Errorf("%s: %v", full, err)
		}
	}
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+secret)
	var out wrapperspb.StringValue
	if err := conn.Invoke(ctx, "/test.Echo/Echo", wrapperspb.String("hi "), &out); err != nil || out.Value != "hi presharedops" {
		t.Error(err, out.Value)
	}
	withReason := metadata.AppendToOutgoingContext(ctx, "ostiary-reason", "ticket 7")
	if err := conn.Invoke(withReason, "/test.Echo/Echo", wrapperspb.String("author"), &out); err != nil || out.Value != "ops: ticket 7" {
		t.Errorf("the author of a call is %q, error %v", out.Value, err)
	}
	twice := metadata.AppendToOutgoingContext(withReason, "ostiary-reason", "ticket 8")
	if err := conn.Invoke(twice, "/test.Echo/Echo", wrapperspb.String("author"), &out); status.Code(err) == 0 || !strings.Contains(err.Error(), "invalid Ostiary-Reason") {
		t.Errorf("a call with two reasons: error %v", err)
	}
	for what, text := range map[string]string{"logs": r.logs.String(), "metrics": r.metric(t, "")} {
		if strings.Contains(text, secret) || strings.Contains(text, secret[:12]) {
			t.Errorf("the key is in the %s", what)
		}
	}
}

// services lists the methods of the test server's gRPC port.
func (r *running) services() []string {
	return []string{"/test.Echo/Echo", "/test.Echo/Open", "/test.Echo/Wait", "/test.Echo/Panic", "/test.Echo/Stream",
		"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	if _, err := server.NewKeys(nil); !errors.Is(err, server.ErrNoKeys) {
		t.Error(err)
	}
	for _, bad := range []server.Secret{"", "with blank", "new\nline", "ümlaut", server.Secret(strings.Repeat("x", 4097))} {
		_, err := server.NewKeys([]server.Key{{Secret: bad}})
		if err == nil || len(bad) > 0 && strings.Contains(err.Error(), string(bad)) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
	if _, err := server.NewKeys([]server.Key{{Secret: server.Secret(strings.Repeat("x", 4096))}}); err != nil {
		t.Error(err)
	}
	k := server.Key{Name: "n", Secret: secret}
	var log logs
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", k, "secret", k.Secret)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q", k, k, k, k.Secret, k.Secret), log.String()} {
		if strings.Contains(text, secret) || !strings.Contains(text, "[redacted]") {
			t.Error(text)
		}
	}
	list, err := server.ParseKeys("# comment\n\nplain\n  ops  named \r\n")
	if err != nil || len(list) != 2 || list[0].Secret != "plain" || list[1] != (server.Key{Name: "ops", Secret: "named"}) {
		t.Errorf("%d keys, %v", len(list), err)
	}
	if _, err := server.ParseKeys("a b c"); err == nil || strings.Contains(err.Error(), "b") && strings.Contains(err.Error(), "a b c") {
		t.Error(err)
	}
	ks := keys(t, k)
	r := start(t, server.Options{Keys: ks})
	if err := ks.Replace([]server.Key{{Secret: "second"}}); err != nil {
		t.Fatal(err)
	}
	if err := ks.Replace(nil); err == nil {
		t.Error("no keys are accepted")
	}
	for key, want := range map[string]int{secret: 401, "second": 200} {
		if status, _, _ := r.ask(t, "GET", "/echo/caller", "", "Authorization", "Bearer "+key); status != want {
			t.Error(key, status)
		}
	}
}

// FuzzParseKeys checks that parsed keys can be written and parsed again.
func FuzzParseKeys(f *testing.F) {
	f.Add("# c\nk\nn k\n")
	f.Add("a b c")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := server.ParseKeys(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, k := range list {
			fmt.Fprintf(&b, "%s %s\n", k.Name, string(k.Secret))
		}
		again, err := server.ParseKeys(b.String())
		if err != nil || len(again) != len(list) {
			t.Fatalf("%q: %d keys, then %d, %v", text, len(list), len(again), err)
		}
	})
}

// TestExposed checks that a missing setting never opens a port to other machines.
func TestExposed(t *testing.T) {
	t.Parallel()
	doors := []*door.Door{echoDoor()}
	k := keys(t, server.Key{Secret: secret})
	identity := echoDoor()
	identity.OwnAuthentication = true
	for i, c := range []struct {
		o  server.Options
		ok bool
	}{
		{server.Options{HTTP: "127.0.0.1:0"}, true},
		{server.Options{HTTP: "localhost:0", GRPC: "[::1]:0"}, true},
		{server.Options{HTTP: ":0"}, false},
		{server.Options{HTTP: "0.0.0.0:0"}, false},
		{server.Options{HTTP: "[::]:0"}, false},
		{server.Options{HTTP: "example.com:80"}, false},
		{server.Options{HTTP: "127.0.0.1:0", GRPC: "0.0.0.0:0"}, false},
		{server.Options{Dedicated: []server.DedicatedDoor{{Door: doors[0], GRPC: "10.0.0.1:1"}}}, false},
		{server.Options{Dedicated: []server.DedicatedDoor{{Door: identity, HTTP: "10.0.0.1:1"}}}, true},
		{server.Options{HTTP: "10.0.0.1:0", Dedicated: []server.DedicatedDoor{{Door: identity, HTTP: "10.0.0.1:1"}}}, false},
		{server.Options{HTTP: "0.0.0.0:0", Anonymous: true}, true},
		{server.Options{HTTP: "0.0.0.0:0", Keys: k}, true},
		{server.Options{HTTP: "0.0.0.0:0", Keys: k, Metrics: "0.0.0.0:0"}, false},
		{server.Options{HTTP: "0.0.0.0:0", Anonymous: true, Metrics: ":0"}, false},
		{server.Options{Metrics: "0.0.0.0:0", MetricsExposed: true}, true},
	} {
		c.o.Doors = doors
		if _, err := server.New(c.o); (err == nil) != c.ok || err != nil && !errors.Is(err, server.ErrExposed) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := server.New(server.Options{HTTP: "127.0.0.1:0", Doors: doors, Keys: &server.Keys{}}); !errors.Is(err, server.ErrNoKeys) {
		t.Error(err)
	}
}
