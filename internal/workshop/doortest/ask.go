package doortest

import (
	"net/http"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// Ask sends one request to d and returns the response: the HTTP status, or the name or
// number of the gRPC code, the headers, and the body. The request has the form of a
// script's, the part above "----".
func Ask(t testing.TB, d *door.Door, request string) (status string, header http.Header, body string) {
	t.Helper()
	st, err := parseStep(request+"\n"+responseLine+"\n", 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Suite{Door: func(testing.TB) *door.Door { return d }}.player(t).send(&st)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	return got.status, got.header, got.body
}
