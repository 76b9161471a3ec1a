//go:build linux

package fleet_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/fleet"
)

// TestBalancerEarlyResponse sends the second half of a request when the first half of the
// response is there. A proxy that ends the body when it sends the header never gets that
// far, and cuts off responses that come a moment before the end of the body.
func TestBalancerEarlyResponse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		half := make([]byte, r.ContentLength/2)
		for range 2 {
			if _, err := io.ReadFull(r.Body, half); err != nil {
				t.Errorf("the server reads: %v", err)
			}
			_, _ = w.Write(half)
			_ = c.Flush()
		}
	}))
	defer server.Close()
	front := httptest.NewServer(fleet.NewBalancer([]string{strings.TrimPrefix(server.URL, "http://")}, false))
	defer front.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	body, halves := io.Pipe()
	defer context.AfterFunc(ctx, func() { _ = halves.Close() })() // the client waits for the end of its body
	go func() { _, _ = io.WriteString(halves, "one,") }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len("one,two."))
	response, err := front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, len("one,"))
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "one," {
		t.Fatalf("the first half is %q, error %v", first, err)
	}
	go func() { _, _ = io.WriteString(halves, "two."); _ = halves.Close() }()
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "two." {
		t.Fatalf("the second half is %q, error %v", rest, err)
	}
}

// TestBalancerStatus sends a gRPC status in a header without a body, as a server does whose
// call fails at once. The proxy may send that header before it ends the response, so the
// status must be in the trailers.
func TestBalancerStatus(t *testing.T) {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Grpc-Status", "3")
		w.Header().Set("Grpc-Message", "no")
	}))
	server.Config.Protocols = protocols
	server.Start()
	defer server.Close()
	front := httptest.NewUnstartedServer(fleet.NewBalancer([]string{strings.TrimPrefix(server.URL, "http://")}, true))
	front.Config.Protocols = protocols
	front.Start()
	defer front.Close()

	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	response, err := client.Post(front.URL, "application/grpc", strings.NewReader("request"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if response.Trailer.Get("Grpc-Status") != "3" || response.Trailer.Get("Grpc-Message") != "no" {
		t.Errorf("the trailers are %v, and the header %v", response.Trailer, response.Header)
	}
	if response.Header.Get("Grpc-Status") != "" {
		t.Error("the header has the status, too")
	}
}
