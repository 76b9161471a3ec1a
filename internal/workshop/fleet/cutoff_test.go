//go:build linux

package fleet_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/workshop/fleet"
)

// TestCutOff lets the packets of one of three nodes get lost. While it reaches the database, its
// writes get 503 with Retry-After, since no node has begun with them. Once it does not reach
// that either, it does not answer for a store that was deleted elsewhere.
func TestCutOff(t *testing.T) {
	parallel(t)
	f, _ := start(t, "postgres")
	ctx := t.Context()
	requireSettled(t, f)
	writer := f.Holder(ctx)
	if writer == nil {
		t.Fatal("no node writes")
	}
	far := f.Nodes[(writer.Number+1)%len(f.Nodes)]
	store, err := client.New("http://"+writer.HTTP, client.Options{}).CreateStore(ctx, client.NewStore{Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	path := "/ostiary/v1/stores/" + store.ID
	if code, _ := request(t, far, http.MethodGet, path, ""); code != http.StatusOK {
		t.Fatalf("the store at the other node: %d", code)
	}
	f.Apart(far, fleet.Fault{Hang: true})
	awaitNoLease(t, far)
	time.Sleep(time.Second) // a holder lease
	for _, at := range []string{"/ostiary/v1/stores", "/stores", "/v1/tenants/create"} {
		code, head := request(t, far, http.MethodPost, at, `{"id":"cut","name":"cut"}`)
		if code != http.StatusServiceUnavailable || head.Get("Retry-After") == "" {
			t.Errorf("POST %s at a node that is cut off from the others: %d, Retry-After %q", at, code, head.Get("Retry-After"))
		}
	}
	far.ToLog.Set(fleet.Fault{Hang: true})
	if code, _ := request(t, writer, http.MethodDelete, path, ""); code/100 != 2 {
		t.Fatalf("the deletion: %d", code)
	}
	if code, head := request(t, far, http.MethodGet, path, ""); code != http.StatusServiceUnavailable || head.Get("Retry-After") == "" {
		t.Errorf("a store that was deleted elsewhere, at a node that is cut off: %d, Retry-After %q", code, head.Get("Retry-After"))
	}
	f.Heal()
	requireSettled(t, f)
	if code, _ := request(t, far, http.MethodGet, path, ""); code != http.StatusNotFound {
		t.Errorf("the deleted store at the node that is connected again: %d", code)
	}
}

// awaitNoLease waits until a node has no read lease.
func awaitNoLease(t *testing.T, n *fleet.Node) {
	t.Helper()
	for end := time.Now().Add(settleTime); n.Ready(t.Context()).Node.ReadLeaseMillis > 0; {
		if time.Now().After(end) {
			t.Fatalf("node %d has a read lease without the other nodes", n.Number)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// request sends a request to a node.
func request(t *testing.T, n *fleet.Node, method, path, body string) (code int, head http.Header) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+n.HTTP+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode, response.Header
}
