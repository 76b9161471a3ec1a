package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	killRounds  = 10 // default; OSTIARY_KILLS sets another number
	killClients = 6
	killAcksMax = 150 // acknowledged writes before the kill, of all clients
)

// TestKilledServer kills the server repeatedly while clients write over HTTP.
// After each restart on the same folder, every acknowledged write must exist, and
// a write without acknowledgment must exist completely or not at all. At the end
// the folder must contain these writes and nothing else. OSTIARY_KILLS sets the
// number of kills, OSTIARY_SEED the random seed.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	rounds, seed := envInt(t, "OSTIARY_KILLS", killRounds), uint64(envInt(t, "OSTIARY_SEED", int(time.Now().UnixNano())))
	t.Logf("OSTIARY_KILLS=%d OSTIARY_SEED=%d", rounds, seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	k := &killed{dir: filepath.Join(t.TempDir(), "data"), live: map[string]bool{}, http: &http.Client{Timeout: time.Minute}}
	t.Cleanup(func() { k.cmd.Process.Kill() })
	k.start(t)
	k.prepare(t)
	for round := range rounds {
		k.write(t, round, rng.IntN(killAcksMax+1), rng)
		k.start(t)
		k.verifyRound(t)
		if t.Failed() {
			t.Fatalf("in round %d of OSTIARY_SEED=%d", round, seed)
		}
	}
	k.everything(t)
	k.kill(t)
	t.Logf("%d kills, %d acknowledged writes of %d tuples, %d under way (%d of them applied), no error",
		rounds, k.acknowledged, len(k.live), k.uncertain, k.applied)
}

func envInt(t testing.TB, name string, otherwise int) int {
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return int(n)
}

// killed is the folder, the server process, and the state that the clients
// expect.
type killed struct {
	dir   string
	cmd   *exec.Cmd
	api   string // URL of the store, once it exists
	base  string
	store string
	http  *http.Client

	mu      sync.Mutex
	live    map[string]bool // tuples by object: true means written, false deleted
	unsure  []killedWrite   // sent, without acknowledgment
	touched []string        // objects of this round

	acknowledged, uncertain, applied int
}

// killedWrite is a write request: the objects whose tuples it adds and removes.
type killedWrite struct{ adds, removes []string }

// start runs the server on the folder, with more flags, and waits until it listens.
func (k *killed) start(t *testing.T, flags ...string) {
	t.Helper()
	k.cmd = exec.Command("ostiary", append([]string{"serve", "--data", k.dir, "--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "off", "--json"}, flags...)...)
	k.cmd.Stderr = os.Stderr
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not start on the folder: %v", err)
	}
	var at map[string]string
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	k.base = "http://" + at["http"]
	k.api = k.base + "/stores/" + k.store
}

// kill kills the process.
func (k *killed) kill(t *testing.T) {
	t.Helper()
	if err := k.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	k.cmd.Wait()
	k.http.CloseIdleConnections()
}

// refusedError is a response with a status of 300 or more.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// post sends a request. ok is true for a status below 300.
func (k *killed) post(url string, in any, out any) (ok bool, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return false, err
	}
	resp, err := k.http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	if resp.StatusCode >= 300 {
		return false, &refusedError{fmt.Sprintf("%s: %d %s", url, resp.StatusCode, text)}
	}
	if out == nil {
		return true, nil
	}
	return true, json.Unmarshal(text, out)
}

// prepare creates the store and its model.
func (k *killed) prepare(t *testing.T) {
	t.Helper()
	var store struct{ ID string }
	if _, err := k.post(k.base+"/stores", map[string]string{"name": "killed"}, &store); err != nil {
		t.Fatal(err)
	}
	k.store, k.api = store.ID, k.base+"/stores/"+store.ID
	var model any
	if err := json.Unmarshal([]byte(`{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc","relations":{"viewer":{"this":{}}},
		"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"user"}]}}}}]}`), &model); err != nil {
		t.Fatal(err)
	}
	if _, err := k.post(k.api+"/authorization-models", model, nil); err != nil {
		t.Fatal(err)
	}
}

const killedUser = "user:k"

func killedTuples(objects []string) map[string]any {
	keys := []map[string]string{}
	for _, o := range objects {
		keys = append(keys, map[string]string{"user": killedUser, "relation": "viewer", "object": o})
	}
	return map[string]any{"tuple_keys": keys}
}

// write runs clients until acks writes are acknowledged, and kills the process
// while the clients continue.
func (k *killed) write(t *testing.T, round, acks int, rng *rand.Rand) {
	t.Helper()
	k.touched = nil
	enough := make(chan struct{})
	remaining := acks
	if remaining == 0 {
		close(enough)
	}
	var clients sync.WaitGroup
	for c := range killClients {
		mine := rand.New(rand.NewPCG(rng.Uint64(), uint64(c)))
		clients.Go(func() {
			var own []string
			for n := 0; ; n++ {
				w := killedWrite{}
				for i := range 1 + mine.IntN(3) {
					w.adds = append(w.adds, fmt.Sprintf("doc:%d-%d-%d-%d", round, c, n, i))
				}
				if len(own) > 0 && mine.IntN(3) == 0 {
					i := mine.IntN(len(own))
					w.removes, own[i] = []string{own[i]}, own[len(own)-1]
					own = own[:len(own)-1]
				}
				if !k.send(t, w) {
					return
				}
				own = append(own, w.adds...)
				k.mu.Lock()
				if remaining--; remaining == 0 {
					close(enough)
				}
				k.mu.Unlock()
			}
		})
	}
	<-enough
	k.kill(t)
	clients.Wait()
}

// send sends a write and records its outcome.
func (k *killed) send(t *testing.T, w killedWrite) bool {
	request := map[string]any{"writes": killedTuples(w.adds)}
	if len(w.removes) > 0 {
		request["deletes"] = killedTuples(w.removes)
	}
	ok, err := k.post(k.api+"/write", request, nil)
	var refused *refusedError
	if errors.As(err, &refused) {
		t.Error(err) // a kill must not cause an error response
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.touched = append(append(k.touched, w.adds...), w.removes...)
	if !ok {
		k.unsure = append(k.unsure, w)
		return false
	}
	k.acknowledged++
	k.note(w)
	return true
}

func (k *killed) note(w killedWrite) {
	for _, o := range w.adds {
		k.live[o] = true
	}
	for _, o := range w.removes {
		k.live[o] = false
	}
}

// has reports whether the server has the tuple of an object.
func (k *killed) has(t *testing.T, object string) bool {
	t.Helper()
	var got struct{ Tuples []json.RawMessage }
	in := map[string]any{"tuple_key": map[string]string{"user": killedUser, "relation": "viewer", "object": object}}
	if _, err := k.post(k.api+"/read", in, &got); err != nil {
		t.Fatal(err)
	}
	return len(got.Tuples) == 1
}

// verifyRound determines the outcome of each write without acknowledgment, and
// compares every object of the round with the expected state.
func (k *killed) verifyRound(t *testing.T) {
	t.Helper()
	for _, w := range k.unsure {
		applied := k.has(t, w.adds[0])
		for _, o := range w.adds {
			if k.has(t, o) != applied {
				t.Errorf("a write was applied in part: %v", w)
			}
		}
		for _, o := range w.removes {
			if k.has(t, o) == applied {
				t.Errorf("a write was applied in part: %v", w)
			}
		}
		k.uncertain++
		if applied {
			k.applied++
			k.note(w)
		}
	}
	k.unsure = nil
	for _, o := range k.touched {
		if live, known := k.live[o]; known && k.has(t, o) != live {
			t.Errorf("%s: expected %v as acknowledged, got the opposite", o, live)
		}
	}
}

// everything compares the whole store with the expected state.
func (k *killed) everything(t *testing.T) {
	t.Helper()
	found := map[string]bool{}
	for token := ""; ; {
		var page struct {
			Tuples []struct{ Key struct{ User, Object string } }
			Token  string `json:"continuation_token"`
		}
		if _, err := k.post(k.api+"/read", map[string]any{"page_size": 100, "continuation_token": token}, &page); err != nil {
			t.Fatal(err)
		}
		for _, tuple := range page.Tuples {
			if tuple.Key.User != killedUser || !strings.HasPrefix(tuple.Key.Object, "doc:") {
				t.Errorf("unexpected tuple %v", tuple)
			}
			found[tuple.Key.Object] = true
		}
		if token = page.Token; token == "" {
			break
		}
	}
	n := 0
	for o, live := range k.live {
		if live {
			n++
		}
		if found[o] != live {
			t.Errorf("%s: %v, want %v", o, found[o], live)
		}
	}
	if len(found) != n {
		t.Errorf("%d tuples, want %d", len(found), n)
	}
}
