package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/server"
)

// TestFirstKeyEnds starts every request that lasts on a server without keys, and then makes
// the first key. All of them end, and so does a watch of the health, which has a place that
// callers without a key no longer have.
func TestFirstKeyEnds(t *testing.T) {
	t.Parallel()
	w := startEnds(t, true)
	all := map[string]running{}
	for name, begin := range requests {
		all[name] = must(begin(w, ""))(t)
	}
	health := must(healthpb.NewHealthClient(w.rpc).Watch(t.Context(), &healthpb.HealthCheckRequest{}))(t)
	must(health.Recv())(t)
	all["health"] = rest(func() error { _, err := health.Recv(); return err })
	wait.Until(t, "all requests run", func() bool {
		return w.metric("streams_in_flight") == fmt.Sprint(len(requests)-2+1) && w.metric("requests_in_flight") == "2"
	})
	must(w.registry.Create(t.Context(), callers.NewKey{Name: "first", Stores: []string{"*"}, Rights: []string{"read"}}))(t)
	start := time.Now()
	wait.Until(t, "all requests have ended", func() bool {
		return w.metric("streams_in_flight") == "0" && w.metric("requests_in_flight") == "0"
	})
	t.Logf("all requests have ended after %s", time.Since(start).Round(time.Millisecond))
	expectEnded(t, "the first key", all)
}

// openNodesUntilKeys opens three nodes that accept every caller until the first key is made.
func openNodesUntilKeys(t *testing.T) *testNodes {
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	t.Cleanup(func() { cancel(); following.Wait() })
	return openNodes(t, 3, func(f *DoorFlags, o *server.Options) {
		f.native.Callers = callers.New(o.Engine, callers.Options{Doors: doorNames[:]})
		o.Keys, o.Callers, o.CallersOptional = nil, f.native.Callers, true
		following.Go(func() { o.Callers.Follow(ctx) })
	})
}

// TestFirstKeyEndsOnNodes makes the first key of three nodes through one of those that do not
// write. Watches and imports on all nodes end, also those that another node serves, and a
// connection that stays open gets nothing without the key.
func TestFirstKeyEndsOnNodes(t *testing.T) {
	t.Parallel()
	all := openNodesUntilKeys(t)
	all.nodes[0].id = all.nodes[0].everyDoor.call("native", "POST", "/ostiary/v1/stores", m{"name": "one"})["id"].(string)
	path := "/ostiary/v1/stores/" + all.nodes[0].id
	all.nodes[0].everyDoor.call("native", "POST", path+"/schemas", m{"dialect": "openfga-dsl", "source": endsModel})
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	type stream struct {
		name string
		end  func() (status int, text string, err error)
	}
	var streams []stream
	for i, n := range all.nodes {
		n.shows()
		watch := must(http.Get(n.http + path + "/watch"))(t)
		t.Cleanup(func() { watch.Body.Close() })
		if watch.StatusCode != http.StatusOK {
			t.Fatalf("watch on node %d: %d", i, watch.StatusCode)
		}
		streams = append(streams, stream{fmt.Sprintf("watch on node %d", i), func() (int, string, error) {
			text, _ := io.ReadAll(watch.Body)
			return http.StatusUnauthorized, string(text), nil // a watch that ends has no other sign
		}})
		out, in := io.Pipe()
		t.Cleanup(func() { in.Close() })
		type answer struct {
			*http.Response
			err error
		}
		answers := make(chan answer, 1)
		go func() {
			r, err := http.Post(n.http+path+"/import?on_duplicate=ignore&entry=1", "application/x-ndjson", out)
			answers <- answer{r, err}
		}()
		io.WriteString(in, fmt.Sprintf(`{"tuple":{"object":"doc:%d","relation":"viewer","subject":"user:ben"}}`+"\n", i))
		streams = append(streams, stream{fmt.Sprintf("import on node %d", i), func() (int, string, error) {
			a := <-answers
			if a.err != nil {
				return 0, "", a.err
			}
			defer a.Body.Close()
			text, err := io.ReadAll(a.Body)
			return a.StatusCode, string(text), err
		}})
		if status := getStatus(t, client, n.http+path); status != http.StatusOK {
			t.Errorf("node %d without keys: %d", i, status)
		}
	}
	wait.Until(t, "the holder serves the imports of the others", func() bool { return all.nodes[0].begun.Load() == 2 })

	made, text := all.nodes[1].send("", "POST", "/ostiary/v1/keys", []byte(`{"name":"first","stores":["*"],"rights":["write"]}`), nil)
	var key struct{ Secret string }
	if err := json.Unmarshal([]byte(text), &key); err != nil || made.StatusCode != http.StatusCreated || !strings.HasPrefix(key.Secret, callers.SecretPrefix) {
		t.Fatalf("the first key: %d %s", made.StatusCode, text)
	}
	for _, s := range streams {
		if status, text, err := s.end(); err == nil && status == http.StatusOK && !strings.Contains(text, `"error"`) {
			t.Errorf("%s has not broken off: %d %s", s.name, status, text)
		}
	}
	for i, n := range all.nodes {
		wait.Until(t, "the node has heard of the key", func() bool {
			return getStatus(t, client, n.http+path) == http.StatusUnauthorized
		})
		if r, text := n.send(key.Secret, "POST", path+"/write", []byte(fmt.Sprintf(`{"add":[{"object":"doc:new%d","relation":"viewer","subject":"user:ben"}]}`, i)), nil); r.StatusCode != http.StatusOK {
			t.Errorf("node %d with the key: %d %s", i, r.StatusCode, text)
		}
	}
}

// getStatus returns the status of a GET without a key.
func getStatus(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	r := must(client.Get(url))(t)
	defer r.Body.Close()
	io.Copy(io.Discard, r.Body)
	return r.StatusCode
}
