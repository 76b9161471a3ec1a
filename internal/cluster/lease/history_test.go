package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/storage"
)

// runsDefault is the number of runs of TestHistory. They take some seconds.
const runsDefault = 20

// setting returns the number in an environment variable, or a default.
func setting(t *testing.T, name string, byDefault uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q, expected a number", name, text)
	}
	return n
}

// TestHistory plays runs with fresh seeds: clients write and read on three nodes while
// nodes are paused, cut off, killed, restarted and hand their role over. A write that
// was acknowledged before a default read arrived must be visible to it, on every node.
// OSTIARY_RUNS is the number of runs, OSTIARY_SEED the first seed. The order of
// goroutines is not part of the seed.
func TestHistory(t *testing.T) {
	t.Parallel()
	first := setting(t, "OSTIARY_SEED", uint64(time.Now().UnixMilli()))
	runs := setting(t, "OSTIARY_RUNS", runsDefault)
	for seed := first; seed-first < runs; seed++ {
		synctest.Test(t, func(t *testing.T) { newHistory(t, seed).play() })
		if t.Failed() {
			t.Fatalf("repeat with: OSTIARY_SEED=%d OSTIARY_RUNS=1 go test ./internal/cluster -run TestHistory -count=100", seed)
		}
	}
}

// history is one run.
type history struct {
	*world
	t  *testing.T
	mu sync.Mutex // guards random and acknowledged
	// acknowledged are the objects of acknowledged writes, in the order of the answers.
	acknowledged []string
	source       *rand.Rand
	answered     int // reads
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, source: rand.New(rand.NewPCG(seed, 1))}
	h.world = newWorld(t, 3, func(i int, n *node) {
		n.host.Offset = time.Duration(h.random(3600)) * time.Second
		n.host.Rate = 0.96 + float64(h.random(9))/100
	})
	h.network.SetDelay(func() time.Duration { return time.Duration(100+h.random(3000)) * time.Microsecond })
	return h
}

func (h *history) random(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.source.IntN(n)
}

func (h *history) play() {
	var writers, others sync.WaitGroup
	var over atomic.Bool
	for c := range 3 {
		writers.Go(func() {
			for i := range 25 {
				h.write(fmt.Sprint(c, "-", i))
				h.sleep(120)
			}
		})
	}
	for range 6 {
		others.Go(func() {
			for !over.Load() {
				h.read()
				h.sleep(20)
			}
		})
	}
	others.Go(func() {
		for !over.Load() {
			h.sleep(400)
			h.disturb()
		}
	})
	writers.Wait()
	over.Store(true)
	others.Wait()
	h.settle()
	for _, object := range h.acknowledged {
		h.mustShow(object, h.nodes...)
	}
	if h.answered == 0 {
		h.t.Error("no read was answered")
	}
}

func (h *history) sleep(millisMax int) {
	time.Sleep(time.Duration(h.random(millisMax)) * time.Millisecond)
}

// any returns a node.
func (h *history) any() *node { return h.nodes[h.random(len(h.nodes))] }

// write writes at the node that is the holder, as a server would.
func (h *history) write(object string) {
	deadline := time.Now().Add(6 * time.Second)
	for time.Now().Before(deadline) {
		n := h.any()
		ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Second)
		var err error
		c, e := n.now()
		if c == nil {
			err = storage.ErrNotHolder
		} else if _, own, failed := c.AwaitHolder(ctx); failed != nil || !own {
			err = storage.ErrNotHolder
		} else {
			err = n.writeWith(ctx, e, object)
		}
		cancel()
		if err == nil {
			h.mu.Lock()
			h.acknowledged = append(h.acknowledged, object)
			h.mu.Unlock()
			return
		}
		if !errors.Is(err, storage.ErrNotHolder) && !errors.Is(err, authz.ErrNoHolder) {
			return // its outcome is open, or it was refused because an earlier attempt was made
		}
		h.sleep(50)
	}
}

// read reads one of the writes that are acknowledged when the read arrives.
func (h *history) read() {
	n := h.any()
	h.mu.Lock()
	total := len(h.acknowledged)
	object := ""
	if total > 0 {
		back := min(total, 1+h.source.IntN(3))
		object = h.acknowledged[total-back]
	}
	h.mu.Unlock()
	if total == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Second)
	defer cancel()
	arrived := time.Now()
	c, e := n.now()
	if c == nil {
		return
	}
	there, err := n.hasWith(ctx, e, object, authz.Acknowledged())
	if err == nil && !there {
		h.t.Errorf("a read that arrived at %v does not show the write %s, which was acknowledged", arrived.Format("05.000"), object)
	}
	if err == nil {
		h.mu.Lock()
		h.answered++
		h.mu.Unlock()
	}
}

// now returns what runs on the node, nil if nothing does.
func (n *node) now() (*lease.Keeper, *ostiary.Engine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cluster, n.engine
}

// disturb makes one fault and ends it.
func (h *history) disturb() {
	n, other := h.any(), h.any()
	switch h.random(8) {
	case 0, 1:
		n.host.Pause()
		h.sleep(4000)
		n.host.Resume()
	case 2: // both in turn
		n.host.Pause()
		h.sleep(1500)
		other.host.Pause()
		n.host.Resume()
		h.sleep(1500)
		other.host.Resume()
	case 3:
		h.network.Cut(n.host, other.host, true)
		h.sleep(3000)
		h.network.Cut(n.host, other.host, false)
	case 4:
		n.host.CutLog(true)
		h.sleep(3000)
		n.host.CutLog(false)
	case 5:
		_ = n.cluster.HandOver(h.t.Context(), storage.NodeID{})
	case 6:
		for _, m := range h.nodes { // alone, but with the log
			if m != n {
				h.network.Cut(n.host, m.host, true)
			}
		}
		h.sleep(2000)
		for _, m := range h.nodes {
			h.network.Cut(n.host, m.host, false)
		}
	default:
		n.kill(h.t)
		h.sleep(1000)
		n.start(h.t)
	}
}
