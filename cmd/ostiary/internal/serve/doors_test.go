package serve

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// publicAllowed are the routes and methods of all doors that need no key. Adding
// one is a security decision.
var publicAllowed = map[string]bool{
	// A fixed document that describes the API.
	"native GET /ostiary/v1/openapi.json": true,
	// The protocol's metadata, which a client reads before it has a token. The
	// response is the same for existing and missing stores.
	"authzen GET /.well-known/authzen-configuration":                 true,
	"authzen GET /.well-known/authzen-configuration/authzen/{store}": true,
}

// TestGuard sends requests without a key and with a wrong key to every route and
// every gRPC method of every door, on shared and on dedicated ports. The server
// must refuse each of them before the door runs.
func TestGuard(t *testing.T) {
	t.Parallel()
	const key = "the-key-of-this-test"
	e, err := ostiary.Open(context.Background(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	all, err := AllDoors(e, &DoorFlags{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := server.NewKeys([]server.Key{{Name: "test", Secret: key}})
	if err != nil {
		t.Fatal(err)
	}
	const free = "127.0.0.1:0"
	o := server.Options{HTTP: free, GRPC: free, Metrics: free, Doors: all, Keys: k, DrainTime: -1, Engine: e}
	for _, d := range all {
		o.Dedicated = append(o.Dedicated, server.DedicatedDoor{Door: d, HTTP: free, GRPC: free})
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	at := map[string]string{}
	for _, a := range s.Addresses() {
		at[a.Name] = a.Addr.String()
	}
	refusals, callers := refusalCount{at["metrics"], 0}, strangers(0)
	for _, d := range all {
		if len(d.Routes) == 0 {
			t.Errorf("%s has no routes", d.Name)
		}
		for _, port := range []string{"http", d.Name + " http"} {
			for _, r := range d.Routes {
				guardedRoute(t, &refusals, &callers, at[port], d, r)
			}
		}
		for _, port := range []string{"grpc", d.Name + " grpc"} {
			guardedServices(t, &refusals, &callers, at[port], d)
		}
	}
}

// strangers counts connections. Where the system has several loopback addresses, each
// comes from another one, because the refusals of an address are delayed.
type strangers int

func (s *strangers) dial(ctx context.Context, network, address string) (net.Conn, error) {
	*s++
	d := net.Dialer{}
	if runtime.GOOS == "linux" {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 1, byte(*s>>8), byte(*s))}
	}
	return d.DialContext(ctx, network, address)
}

// refusalCount reads the metric of requests refused for their credentials.
type refusalCount struct {
	address string
	last    int
}

func (c *refusalCount) grew(t *testing.T) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+c.address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "identity") // to compress the page costs more than a refusal
	_, text := fetch(t, r)
	sum := 0
	for line := range strings.Lines(text) {
		for _, reason := range []string{"no", "bad"} {
			if number, is := strings.CutPrefix(line, `ostiary_refusals_total{reason="`+reason+`_credentials"} `); is {
				n, err := strconv.Atoi(strings.TrimSpace(number))
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
	}
	grew := sum - c.last
	c.last = sum
	return grew
}

func guardedRoute(t *testing.T, refusals *refusalCount, callers *strangers, address string, d *door.Door, r door.Route) {
	name := d.Name + " " + r.Method + " " + r.Pattern
	if d.OwnAuthentication { // door/keystone has a test like this one
		return
	}
	if r.Public {
		if !publicAllowed[name] {
			t.Errorf("%s is public but not in publicAllowed", name)
		}
		return
	}
	path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(r.Pattern, "01HVMMBCMGZNT3SED4Z17ECXCA")
	client := &http.Client{Transport: &http.Transport{DialContext: callers.dial}}
	headers := []string{"", "Bearer wrong", "Bearer the-key-of-this-tes", "Basic dGhlLWtleS1vZi10aGlzLXRlc3Q="}
	for _, header := range headers {
		req, err := http.NewRequest(r.Method, "http://"+address+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set("Authorization", header)
		}
		req.Close = true // refusals on one connection are delayed
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("%s with %q: %d, not refused", name, header, resp.StatusCode)
		}
	}
	if n := refusals.grew(t); n != len(headers) {
		t.Errorf("%s: %d of %d requests were refused for their credentials", name, n, len(headers))
	}
}

func guardedServices(t *testing.T, refusals *refusalCount, callers *strangers, address string, d *door.Door) {
	for _, service := range d.Services {
		public := map[string]bool{}
		for _, p := range service.Public {
			if public[p] = true; !publicAllowed[d.Name+" "+p] {
				t.Errorf("%s %s is public but not in publicAllowed", d.Name, p)
			}
		}
		var names []string
		for _, m := range service.Desc.Methods {
			names = append(names, m.MethodName)
		}
		for _, m := range service.Desc.Streams {
			names = append(names, m.StreamName)
		}
		for _, name := range names {
			full := "/" + service.Desc.ServiceName + "/" + name
			for _, key := range []string{"", "Bearer wrong"} {
				ctx := context.Background()
				if key != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", key)
				}
				conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) { return callers.dial(ctx, "tcp", at) }))
				if err != nil {
					t.Fatal(err)
				}
				err = conn.Invoke(ctx, full, &emptypb.Empty{}, &emptypb.Empty{})
				conn.Close() // refusals on one connection are delayed
				if code := status.Code(err); !public[full] && (code == codes.OK || code == codes.Unimplemented || refusals.grew(t) != 1) {
					t.Errorf("%s %s with %q: %v, not refused", d.Name, full, key, err)
				}
			}
		}
	}
}

// TestDoorNames compares the list of names with the doors.
func TestDoorNames(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(context.Background(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	all, err := AllDoors(e, &DoorFlags{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, doorNames[:]) {
		t.Errorf("the doors are %v, and their names %v", names, doorNames)
	}
}
