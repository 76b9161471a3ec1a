package doortest

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// Description compares what a door declares with a file: its prefixes, routes
// and services, and its responses to refused requests and unknown paths. With
// OSTIARY_REWRITE=1 it writes the file.
func Description(t *testing.T, d *door.Door, file string) {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "name %s\n", d.Name)
	for _, p := range d.Prefixes {
		fmt.Fprintf(&out, "prefix %q\n", p)
	}
	describeFlag(&out, "basic", d.Basic)
	describeFlag(&out, "own authentication", d.OwnAuthentication)
	out.WriteString("\nroutes\n")
	for i := range d.Routes {
		describeRoute(&out, &d.Routes[i])
	}
	describeServices(&out, d)
	describeMissing(&out, d)
	describeRefusals(&out, d)
	golden.Equal(t, file, out.String())
}

func describeFlag(out *strings.Builder, name string, set bool) {
	if set {
		out.WriteString(name + "\n")
	}
}

func describeRoute(out *strings.Builder, r *door.Route) {
	fmt.Fprintf(out, "%s %s %s", r.Method, r.Pattern, r.Name)
	if r.Public {
		out.WriteString(" public")
	}
	if r.Streams {
		out.WriteString(" streams")
	}
	if r.BodyMax != 0 {
		fmt.Fprintf(out, " body=%d", r.BodyMax)
	}
	out.WriteString("\n")
}

func describeServices(out *strings.Builder, d *door.Door) {
	for _, s := range d.Services {
		fmt.Fprintf(out, "\nservice %s\n", s.Desc.ServiceName)
		for _, m := range s.Desc.Methods {
			out.WriteString(m.MethodName + "\n")
		}
		for _, m := range s.Desc.Streams {
			out.WriteString(m.StreamName + " stream\n")
		}
		for _, name := range s.Public {
			out.WriteString("public " + name + "\n")
		}
	}
}

// describeMissing describes the responses to an unknown path, and to another
// method of a known one.
func describeMissing(out *strings.Builder, d *door.Door) {
	if d.Missing == nil {
		return
	}
	for _, methods := range [][]string{nil, {"GET"}, {"GET", "POST"}} {
		fmt.Fprintf(out, "\nmissing %s\n", strings.Join(methods, " "))
		describeResponse(out, func(w http.ResponseWriter, r *http.Request) { d.Missing(w, r, methods) })
	}
}

// describeRefusals describes the response to each kind of refusal, and to one of an
// unknown kind, which is an error of the server.
func describeRefusals(out *strings.Builder, d *door.Door) {
	for reason := door.NoCredentials; reason <= door.BadQuery+1; reason++ {
		why := &door.Refusal{Reason: reason, Bound: "example", Limit: 17}
		if reason == door.TimedOut {
			why = &door.Refusal{Reason: reason, Bound: "example", Time: 3 * time.Second}
		}
		if d.Refuse != nil {
			fmt.Fprintf(out, "\nrefusal %d: %s\n", reason, why)
			describeResponse(out, func(w http.ResponseWriter, r *http.Request) { d.Refuse(w, r, why) })
		}
		describeRPC(out, "rpc", d.RefuseRPC, why)
		describeRPC(out, "stream", d.RefuseStream, why)
	}
}

// anyUUID matches the UUIDs in a text.
var anyUUID = regexp.MustCompile(placeholders["uuid"])

func describeRPC(out *strings.Builder, name string, refuse func(*door.Refusal) error, why *door.Refusal) {
	if refuse == nil {
		return
	}
	s, _ := status.FromError(refuse(why))
	fmt.Fprintf(out, "%s %s: %s\n", name, s.Code(), s.Message())
}

// requestID is the id of the requests of a description.
const requestID = "6f1c3c1e-0000-4000-8000-000000000001"

// describeResponse describes the response of a handler. A random id in a header is
// "<uuid>".
func describeResponse(out *strings.Builder, serve http.HandlerFunc) {
	r := httptest.NewRequest(http.MethodPost, "/a/path", nil)
	for _, name := range []string{"X-Request-Id", "X-Onap-Requestid"} {
		r.Header.Set(name, requestID)
	}
	w := httptest.NewRecorder()
	serve(w, r)
	fmt.Fprintf(out, "%d\n", w.Code)
	for _, name := range slices.Sorted(maps.Keys(w.Header())) {
		value := anyUUID.ReplaceAllStringFunc(strings.Join(w.Header()[name], ", "), func(id string) string {
			if id == requestID {
				return id
			}
			return "<uuid>"
		})
		fmt.Fprintf(out, "%s: %s\n", name, value)
	}
	out.WriteString(strings.TrimRight(w.Body.String(), "\n") + "\n")
}
