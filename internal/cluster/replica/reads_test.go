package replica_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// checker returns a check of an engine over a driver.
func checker(t testing.TB, d storage.Driver) func() {
	t.Helper()
	s := openStore(t, d)
	tuple := add("1").Tuple
	if _, err := s.Write(t.Context(), authz.WriteRequest{Add: []rel.Tuple{tuple}}); err != nil {
		t.Fatal(err)
	}
	request := authz.CheckRequest{Object: tuple.Object, Relation: tuple.Relation, Subject: tuple.Subject}
	return func() {
		if _, err := s.Check(t.Context(), request); err != nil {
			t.Error(err)
		}
	}
}

// TestReadAllocations requires that a check on a node of a shared log has no allocation
// more than one on an embedded driver. It must not run at the same time as others.
func TestReadAllocations(t *testing.T) {
	embedded, node := checker(t, memory.New()), checker(t, mustOpen(t, memorylog.New(), inMemory()))
	// The smallest of several counts, because other goroutines allocate, too.
	counts := [2]float64{1e9, 1e9}
	for range 10 {
		for i, check := range []func(){embedded, node} {
			counts[i] = min(counts[i], testing.AllocsPerRun(100, check))
		}
	}
	if counts[1] > counts[0] {
		t.Errorf("a check has %v allocations on a node, and %v embedded", counts[1], counts[0])
	}
}

// BenchmarkReads measures checks on a node of a shared log, as a multiple of those a
// second on an embedded driver, in turns.
func BenchmarkReads(b *testing.B) {
	checks := [2]func(){checker(b, memory.New()), checker(b, mustOpen(b, memorylog.New(), inMemory()))}
	var took [2]time.Duration
	const each = 1000
	for b.Loop() {
		for i, check := range checks {
			begin := time.Now()
			for range each {
				check()
			}
			took[i] += time.Since(begin)
		}
	}
	for i, name := range []string{"embedded", "node"} {
		b.ReportMetric(float64(took[i].Nanoseconds())/float64(b.N*each), fmt.Sprint("ns-", name))
	}
	b.ReportMetric(float64(took[0])/float64(took[1]), "×embedded")
}
