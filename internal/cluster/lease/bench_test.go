package lease_test

import (
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
)

// BenchmarkBeforeRead measures what the check of a read lease costs: a read of the
// kernel's clock and a comparison. The nodes are in real time, without delays.
func BenchmarkBeforeRead(b *testing.B) {
	for _, name := range []string{"holder", "follower"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, 2, func(_ int, n *node) { n.bootClock = true })
			n := w.holder()
			if name == "follower" {
				n = w.others(n)[0]
			}
			for b.Loop() {
				if err := n.cluster.BeforeRead(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCheck measures a check on a node with a read lease as a multiple of one that
// needs none.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b, 2, func(_ int, n *node) { n.bootClock = true })
	n := w.others(w.holder())[0]
	object := w.mustWrite()
	var took [2]time.Duration
	total := 0
	for b.Loop() {
		for i, c := range []authz.Consistency{authz.MinimizeLatency(), authz.Acknowledged()} {
			begun := time.Now()
			for range 100 {
				if _, err := n.has(b.Context(), object, c); err != nil {
					b.Fatal(err)
				}
			}
			took[i] += time.Since(begun)
		}
		total += 100
	}
	b.ReportMetric(float64(took[0].Nanoseconds())/float64(total), "ns-local")
	b.ReportMetric(float64(took[1].Nanoseconds())/float64(total), "ns-acknowledged")
	b.ReportMetric(float64(took[1])/float64(took[0]), "×local")
}

// BenchmarkWrite measures a write at the holder of three nodes as a multiple of a commit
// and a round trip, in real time. The log and the link take 1 ms for each message.
func BenchmarkWrite(b *testing.B) {
	w := newWorld(b, 3, nil)
	holder := w.holder()
	var took time.Duration
	n := 0
	for b.Loop() {
		begun := time.Now()
		if _, err := holder.write(b.Context()); err != nil {
			b.Fatal(err)
		}
		took += time.Since(begun)
		n++
	}
	bare := time.Duration(0) // what the timers of this machine make of four messages
	for range 100 {
		begun := time.Now()
		for range 4 {
			time.Sleep(oneWay)
		}
		bare += time.Since(begun)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(n), "µs-write")
	b.ReportMetric(float64(bare.Microseconds())/100, "µs-commit+round-trip")
	b.ReportMetric(float64(took)/float64(n)/(float64(bare)/100), "×commit+round-trip")
}
