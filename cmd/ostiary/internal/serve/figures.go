package serve

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/xacml"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/trail/decisions"
	"github.com/ostiary/ostiary/storage/pebble"
)

// folderFigures collects the Prometheus metrics of a data folder.
type folderFigures struct {
	driver                 *pebble.Driver
	disk, wal, debt, files *prometheus.Desc
	stores                 *prometheus.Desc
}

func newFolderFigures(d *pebble.Driver) *folderFigures {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("ostiary_folder_"+name, help, nil, nil)
	}
	return &folderFigures{d, desc("disk_bytes", "Size of the data folder's files."),
		desc("wal_bytes", "Size of the write-ahead log."),
		desc("debt_bytes", "Bytes that compaction still has to rewrite."),
		desc("read_files", "Number of sorted runs that a read may have to search."),
		prometheus.NewDesc("ostiary_stores", "Number of stores, those that doors make for themselves included.", nil, nil)}
}

// Describe implements [prometheus.Collector].
func (f *folderFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.disk, f.wal, f.debt, f.files, f.stores} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *folderFigures) Collect(to chan<- prometheus.Metric) {
	now := f.driver.Figures()
	for d, v := range map[*prometheus.Desc]float64{f.disk: float64(now.DiskBytes), f.wal: float64(now.WALBytes),
		f.debt: float64(now.DebtBytes), f.files: float64(now.ReadFiles)} {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	ctx, cancel := context.WithTimeout(context.Background(), figureTime)
	defer cancel()
	if n, err := f.driver.CountStores(ctx); err == nil { // otherwise the number is missing
		to <- prometheus.MustNewConstMetric(f.stores, prometheus.GaugeValue, float64(n))
	}
}

// figureTime bounds how long one figure is read for a scrape.
const figureTime = time.Second

// countDecision counts a decision of the engine. It leaves out those that are parts of others:
// what a door asks the engine to decide by policies, or about the keys of callers.
func countDecision(ctx context.Context, d expr.Tristate, err error) {
	if !documents.InSystem(ctx) {
		decisions.CountOutside(ctx, d, err, func(door string) bool { return door == keystone.Name || door == xacml.Name })
	}
}

// keyFigures collects the metrics of the keys of callers, and of password hashes.
type keyFigures struct {
	keys                   *callers.Registry
	waiting                *atomic.Int64
	count, expires, hashes *prometheus.Desc
}

func newKeyFigures(keys *callers.Registry, waiting *atomic.Int64) *keyFigures {
	return &keyFigures{keys, waiting,
		prometheus.NewDesc("ostiary_keys", "Number of keys of callers in the system store, by state: valid, expired.", []string{"state"}, nil),
		prometheus.NewDesc("ostiary_key_expires_seconds", "Time at which the next of the valid keys of callers expires, in seconds since 1970; missing if none does.", nil, nil),
		prometheus.NewDesc("ostiary_hashes_waiting", "Hashes of passwords that wait for a thread.", nil, nil)}
}

// Describe implements [prometheus.Collector].
func (f *keyFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.count, f.expires, f.hashes} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *keyFigures) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(f.hashes, prometheus.GaugeValue, float64(f.waiting.Load()))
	c := f.keys.Count()
	to <- prometheus.MustNewConstMetric(f.count, prometheus.GaugeValue, float64(c.Valid), "valid")
	to <- prometheus.MustNewConstMetric(f.count, prometheus.GaugeValue, float64(c.Expired), "expired")
	if !c.Next.IsZero() {
		to <- prometheus.MustNewConstMetric(f.expires, prometheus.GaugeValue, float64(c.Next.Unix()))
	}
}
