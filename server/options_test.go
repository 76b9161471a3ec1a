package server

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// TestDefaults compares the effective options with testdata/defaults.txt: without any,
// and with some that depend on each other.
func TestDefaults(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, o := range []Options{{ConnectionsMax: 100},
		{ConnectionsMax: 100, RequestTimeout: 1, HeaderTimeout: 2, IdleTimeout: 3, TransferTime: 4, DrainTime: -1, StopTimeout: 6, BodyBytes: 7, HeaderBytes: 8,
			RequestsMax: 9, StreamsMax: 10, StreamsPerConnection: 11, BodyBytesTotal: 1, BodyBytesPerConnection: 1, UnsentBytesTotal: 14, UnsentBytesPerConnection: 15},
		{ConnectionsMax: 100, BodyBytes: 1, BodyBytesTotal: 20, BodyBytesPerConnection: 10},
	} {
		o = withDefaults(o)
		v := reflect.ValueOf(o)
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			switch value := v.Field(i).Interface().(type) {
			case time.Duration, int, int64:
				fmt.Fprintln(&out, v.Type().Field(i).Name, value)
			}
		}
		fmt.Fprintf(&out, "listens %v, logs %v\n\n", o.Listen != nil, o.Log == slog.Default())
		s := newShared(&o, newMetrics(), nil)
		for _, l := range []*conn.Limiter{&s.requests, &s.streams, &s.publicPlaces.Requests, &s.publicPlaces.Streams, &s.ownRequests} {
			fmt.Fprintln(&out, l.Name, l.Max)
		}
		c := conn.NewConnections(o.connectionBounds())
		fmt.Fprintf(&out, "connections %d, %d per address, %d untrusted, unsent %d, %d per connection\n", c.Max, c.PerAddress, c.UntrustedMax, c.Unsent.Max, c.Unsent.PerConnection)
		h := (&Server{opts: o}).newHTTP(nil)
		fmt.Fprintf(&out, "HTTP: head %v, read %v, write %v, idle %v, headers %d bytes, %d HTTP/2 streams with %d of %d bytes\n\n", h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout,
			h.IdleTimeout, h.MaxHeaderBytes, h.HTTP2.MaxConcurrentStreams, h.HTTP2.MaxReceiveBufferPerStream, h.HTTP2.MaxReceiveBufferPerConnection)
	}
	golden.Equal(t, "testdata/defaults.txt", out.String())
}

// TestFiles compares with testdata/files.txt how many connections and files of the
// storage a process has that may open so many files.
func TestFiles(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, files := range []int{0, 1, 96, 97, 98, 256, 383, 384, 388, 1024, 4160, 4164, 4168, 1 << 20} {
		fmt.Fprintf(&out, "%d files: %d for storage\n", files, filesForStorage(files))
		for _, asked := range []Options{{}, {ConnectionsMax: 1}, {ConnectionsMax: 2, ConnectionsPerAddress: 2}, {ConnectionsMax: 160, ConnectionsPerAddress: 161},
			{ConnectionsMax: 161}, {ConnectionsMax: 1000, ConnectionsPerAddress: 5}} {
			var log bytes.Buffer
			o := asked
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.boundConnections(files)
			fmt.Fprintf(&out, "\t%d, %d per address: %d, %d per address", asked.ConnectionsMax, asked.ConnectionsPerAddress, o.ConnectionsMax, o.ConnectionsPerAddress)
			if _, warning, found := strings.Cut(log.String(), "msg="); found {
				out.WriteString(", " + strings.TrimSpace(warning))
			}
			out.WriteString("\n")
		}
	}
	golden.Equal(t, "testdata/files.txt", out.String())
}

// TestRaiseFiles expects the system's bound, which is kept when it was reached.
func TestRaiseFiles(t *testing.T) {
	t.Parallel()
	if first, second := raiseFiles(), raiseFiles(); first <= 3 || first != second {
		t.Errorf("%d files, then %d", first, second)
	}
}

// TestExposures compares with testdata/exposures.txt which addresses a server refuses
// to listen on, with which error, and which it reports as plain text. Addresses that
// it accepts without a report are not in the file.
func TestExposures(t *testing.T) {
	t.Parallel()
	key, err := NewKeys([]Key{{Secret: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	own := &door.Door{Name: "own", OwnAuthentication: true}
	other := &door.Door{Name: "other"}
	var out strings.Builder
	for _, address := range []string{"", "localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", ":1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "LOCALHOST:1", "example.com:1", "localhost", "1"} {
		for _, c := range []struct {
			name string
			o    Options
		}{
			{"http", Options{HTTP: address, Doors: []*door.Door{other}}},
			{"grpc", Options{GRPC: address, Doors: []*door.Door{other}}},
			{"no door", Options{HTTP: address}},
			{"with a key", Options{HTTP: address, Keys: key}},
			{"anonymous", Options{HTTP: address, Anonymous: true}},
			{"own", Options{Dedicated: []DedicatedDoor{{Door: own, HTTP: address, GRPC: address}}}},
			{"own with TLS", Options{TLS: &Certificate{}, HTTP: address, Doors: []*door.Door{own}}},
			{"own and another", Options{HTTP: address, Doors: []*door.Door{own, other}, Keys: key}},
			{"own and another, no key", Options{HTTP: address, Doors: []*door.Door{own, other}}},
			{"dedicated", Options{Dedicated: []DedicatedDoor{{Door: other, HTTP: address, GRPC: "localhost:2"}}}},
			{"dedicated grpc", Options{Dedicated: []DedicatedDoor{{Door: other, GRPC: address}}}},
			{"metrics", Options{Metrics: address, Keys: key}},
			{"metrics exposed", Options{Metrics: address, MetricsExposed: true}},
		} {
			err := c.o.CheckExposure()
			if err != nil && !errors.Is(err, ErrExposed) {
				t.Errorf("%s: %v is another error", c.name, err)
			}
			if plain := c.o.PlainAddresses(); err != nil || plain != nil {
				fmt.Fprintf(&out, "%q %s: %v, in plain text %q\n", address, c.name, err, plain)
			}
		}
	}
	golden.Equal(t, "testdata/exposures.txt", out.String())
}

// TestOutcomes compares with testdata/outcomes.txt how statuses and codes count, the
// labels of refusals, and in which bucket a duration counts.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, status := range []int{200, 302, 399, 400, 404, 499, 500, 503} {
		fmt.Fprintln(&out, status, outcomeOfStatus(status))
	}
	for code := range codes.Code(17) {
		fmt.Fprintln(&out, code, outcomeOfCode(code))
	}
	for _, code := range []codes.Code{1000, 3999, 4000, 4999, 5000} {
		fmt.Fprintln(&out, code, outcomeOfCode(code))
	}
	m := newMetrics()
	for reason := range door.Reason(len(m.refusals) + 1) { // one more than there are
		m.refused(reason)
	}
	for reason := range m.refusals {
		fmt.Fprintln(&out, reason, reasonLabel(door.Reason(reason)), m.refusals[reason].Load())
	}
	for i, bound := range bucketBounds {
		for j, took := range []time.Duration{bound, bound + 1} {
			var s series
			if s.observe(took, outcomeClient); s.buckets[i+j].Load() != 1 || s.sum.Load() != int64(took) || s.outcomes[outcomeClient].Load() != 1 {
				t.Errorf("%v is not in bucket %d", took, i+j)
			}
		}
		fmt.Fprintln(&out, "up to", bound)
	}
	golden.Equal(t, "testdata/outcomes.txt", out.String())
}

// TestMistakes compares with testdata/mistakes.txt the errors of doors that cannot be
// served, of origins, and of keys.
func TestMistakes(t *testing.T) {
	t.Parallel()
	serve := func(prefixes []string, patterns ...string) []*door.Door {
		d := &door.Door{Name: "a", Prefixes: prefixes}
		for _, p := range patterns {
			d.Routes = append(d.Routes, door.Route{Method: "GET", Pattern: p, Name: p, Serve: func(http.ResponseWriter, *http.Request, door.Params) {}})
		}
		return []*door.Door{d}
	}
	var out strings.Builder
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"two doors with one prefix", Options{Doors: append(serve([]string{"/a"}), serve([]string{"/b", "/a"})...)}},
		{"two doors with one parameter", Options{Doors: append(serve([]string{"/a/{x}"}), serve([]string{"/a/{y}"})...)}},
		{"no slash", Options{Doors: serve([]string{"a"})}},
		{"a slash at the end", Options{Doors: serve([]string{"/a/"})}},
		{"an empty segment", Options{Doors: serve([]string{"/a//b"})}},
		{"no prefix", Options{Doors: serve([]string{""}, "/a")}},
		{"a route of another prefix", Options{Doors: serve([]string{"/a"}, "/a", "/a/b", "/ab")}},
		{"a route above the prefix", Options{Doors: serve([]string{"/a/b"}, "/a")}},
		{"a route that is no path", Options{Doors: serve([]string{"/a"}, "/a//")}},
		{"two equal routes", Options{Doors: serve([]string{"/a"}, "/a/{x}", "/a/{y}")}},
		{"an origin without a scheme", Options{CORS: []string{"app.example"}}},
		{"an origin with a path", Options{CORS: []string{"https://app.example/"}}},
		{"an origin without a host", Options{CORS: []string{"https://"}}},
		{"an origin with a user", Options{CORS: []string{"https://a@app.example"}}},
		{"an origin that is no URL", Options{CORS: []string{"https://app.example", "http://["}}},
		{"every origin and one", Options{CORS: []string{"*", "https://app.example"}}},
		{"an empty list of keys", Options{Keys: &Keys{}}},
	} {
		c.o.HTTP = "localhost:0"
		_, err := New(c.o)
		fmt.Fprintf(&out, "%s: %v\n", c.name, err)
	}
	many := make([]Key, keysMax+1)
	for i := range many {
		many[i].Secret = Secret(fmt.Sprint("secret", i))
	}
	long := strings.Repeat("x", credentialBytesMax)
	name := strings.Repeat("n", userBytesMax)
	for _, c := range []struct {
		name string
		keys []Key
	}{
		{"no key", nil}, {"1000 keys", many[:keysMax]}, {"1001 keys", many}, {"an empty key", []Key{{}}}, {"a blank", []Key{{Secret: "a"}, {Secret: "a b"}}}, {"printable", []Key{{Secret: "!~"}}},
		{"a control", []Key{{Secret: "a\x7f"}}}, {"a long key", []Key{{Secret: Secret(long)}}}, {"a longer key", []Key{{Secret: Secret(long + "x")}}},
		{"a user", []Key{{Name: name, Secret: "p", Basic: true}}}, {"a long name", []Key{{Name: name + "n", Secret: "p", Basic: true}}}, {"no name", []Key{{Secret: "p", Basic: true}}},
		{"a colon", []Key{{Secret: "k"}, {Name: "a:b", Secret: "p", Basic: true}}}, {"a blank in a name", []Key{{Name: "a b", Secret: "p", Basic: true}}},
		{"a control in a name", []Key{{Name: "a\x7f", Secret: "p", Basic: true}}}, {"a printable name", []Key{{Name: "!~", Secret: "p", Basic: true}}},
	} {
		k, err := NewKeys(c.keys)
		fmt.Fprintf(&out, "%s: %v", c.name, err)
		if err == nil {
			fmt.Fprintf(&out, ", %d", k.Len())
		}
		out.WriteString("\n")
	}
	for _, text := range []string{"", "# c\n", "k", " k \nn  k2\r\n", "#\n\nk k2 k3\n", "n#k\n"} {
		keys, err := ParseKeys(text)
		users, usersErr := ParseUsers(text)
		fmt.Fprintf(&out, "%q: %d keys, %v; %d users, %v\n", text, len(keys), err, len(users), usersErr)
		for i := range keys {
			fmt.Fprintf(&out, "\t%q %q, a user %v\n", keys[i].Name, string(keys[i].Secret), len(users) > i && users[i].Basic)
		}
	}
	golden.Equal(t, "testdata/mistakes.txt", out.String())
}

// TestMetricsList lists the metrics of a server, which the pages for operators describe.
func TestMetricsList(t *testing.T) {
	t.Parallel()
	golden.Metrics(t, "testdata/metrics.txt", collector{metrics: newMetrics()})
}
