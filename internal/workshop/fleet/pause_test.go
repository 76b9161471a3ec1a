//go:build linux

package fleet_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/workshop/fleet"
)

// Numbers of TestDatabasePause.
const (
	pauseRounds  = 3
	pauseReaders = 24
	// settleTime is how long the nodes have, once the database answers again, until they
	// follow the node that writes and have read leases.
	settleTime = 30 * time.Second
)

// TestDatabasePause pauses the database under three nodes for longer than their leases, while
// clients read without a pause and the connections between the nodes end. Once the database
// answers again, every node must follow the one that writes and have a read lease.
func TestDatabasePause(t *testing.T) {
	parallel(t)
	f, servers := start(t, "postgres")
	ctx := t.Context()
	store, err := client.New("http://"+f.Nodes[0].HTTP, client.Options{}).CreateStore(ctx, client.NewStore{Name: "play"})
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: pauseReaders}}
	defer web.CloseIdleConnections()
	reading, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	var reads atomic.Int64
	for i := range pauseReaders {
		n := f.Nodes[i%len(f.Nodes)]
		readers.Go(func() {
			for reading.Err() == nil {
				if readOnce(reading, web, "http://"+n.HTTP+"/ostiary/v1/stores/"+store.ID+"/schemas") {
					reads.Add(1)
				}
			}
		})
	}
	defer readers.Wait()
	defer stop()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for round := range pauseRounds {
		servers[0].Pause()
		time.Sleep(1600*time.Millisecond + time.Duration(random.IntN(1400))*time.Millisecond)
		for _, n := range f.Nodes {
			f.Apart(n, fleet.Fault{Cut: true})
			f.Apart(n, fleet.Fault{})
		}
		servers[0].Resume()
		began := time.Now()
		requireSettled(t, f)
		t.Logf("round %d: settled after %s, %d reads", round, time.Since(began).Round(time.Millisecond), reads.Load())
	}
	if reads.Load() == 0 {
		t.Error("no read was answered")
	}
}

// readOnce sends a request and reports whether it was answered with 200.
func readOnce(ctx context.Context, web *http.Client, url string) bool {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := web.Do(q)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}

// requireSettled waits until one node writes, and every other one follows it and has a read
// lease.
func requireSettled(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	end := time.Now().Add(settleTime)
	for {
		var roles []string
		settled, holders := true, 0
		for _, n := range f.Nodes {
			r := n.Ready(t.Context()).Node
			roles = append(roles, fmt.Sprintf("node %d: role %s, holder %.8s, read lease %d ms, failure %q", n.Number, r.Role, r.Holder, r.ReadLeaseMillis, r.Failure))
			if r.Role == "holder" {
				holders++
			}
			settled = settled && (r.Role == "holder" || r.Role == "follower") && r.ReadLeaseMillis > 0
		}
		switch {
		case settled && holders == 1:
			return
		case time.Now().After(end):
			t.Fatalf("%s after the pause:\n%s", settleTime, strings.Join(roles, "\n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
