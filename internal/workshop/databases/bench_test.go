//go:build unix

package databases_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	bare "github.com/ostiary/ostiary/internal/workshop/bench/databases"
	"github.com/ostiary/ostiary/internal/workshop/bench/report"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestBench measures for a short time, on both databases, at hand and far away. No
// request may fail, every cell must have figures, and the database has no log at the end.
// With OSTIARY_SECONDS each cell takes that long, at the delays of OSTIARY_DELAYS, and the
// records are printed.
func TestBench(t *testing.T) {
	t.Parallel()
	options := bare.Options{Delays: []time.Duration{0, time.Millisecond}, Duration: 50 * time.Millisecond, Tuples: 5000}
	seconds := os.Getenv("OSTIARY_SECONDS")
	if seconds != "" {
		var err error
		if options.Duration, err = time.ParseDuration(seconds + "s"); err != nil {
			t.Fatal(err)
		}
		options.Delays, options.Tuples = nil, 0
		for text := range strings.SplitSeq(os.Getenv("OSTIARY_DELAYS"), ",") {
			away, err := time.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			options.Delays = append(options.Delays, away)
		}
	}
	for name, start := range map[string]func(testing.TB, ...string) *databases.Server{"PostgreSQL": databases.PostgreSQL, "MariaDB": databases.MariaDB} {
		t.Run(name, func(t *testing.T) {
			var settings []string
			if seconds != "" && name == "PostgreSQL" {
				settings = []string{"fsync=on"}
			}
			server := start(t, settings...)
			var records []bench.Record
			o := options
			o.Address, o.Folder = server.Database(), t.TempDir()
			o.Emit = func(r bench.Record) error {
				records = append(records, r)
				return nil
			}
			err := bare.Run(t.Context(), o)
			for seconds == "" && err != nil && strings.Contains(err.Error(), "choose a longer time") && o.Duration < 10*time.Second {
				records, o.Duration, o.Folder = nil, 4*o.Duration, t.TempDir() // the machine is busy
				err = bare.Run(t.Context(), o)
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := len(o.Delays) * 11; len(records) != n {
				t.Errorf("%d records, expected %d", len(records), n)
			}
			for _, r := range records {
				if r.N == 0 || r.Failed() > 0 || r.Throughput <= 0 || !strings.HasPrefix(r.Store, name+" ") {
					t.Errorf("%s, %s on %q: %d requests, %g per s, failures %v, %s", r.Cell, r.Peer, r.Store, r.N, r.Throughput, r.Failures, r.Notes)
				}
			}
			if seconds != "" {
				var text bytes.Buffer
				report.Text(&text, records)
				t.Logf("\n%s", text.String())
			}
			// A database with a log is refused, and keeps its tables.
			l := open(t, name, o.Address)
			if err := l.SwapCluster(t.Context(), sharedlog.Cluster{}, sharedlog.Cluster{ID: sharedlog.ClusterID{1}}); err != nil {
				t.Errorf("the database is not empty after the run: %v", err)
			}
			if err := bare.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "expected an empty database") {
				t.Errorf("a database with a log: error %v", err)
			}
			if c, err := l.Cluster(t.Context()); err != nil || c.ID != (sharedlog.ClusterID{1}) {
				t.Errorf("after the refusal the cluster is %v, error %v", c.ID, err)
			}
		})
	}
}

// open opens the log in a database.
func open(t *testing.T, name, address string) sharedlog.Log {
	t.Helper()
	open := mysql.Open
	if name == "PostgreSQL" {
		open = postgres.Open
	}
	l, err := open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
