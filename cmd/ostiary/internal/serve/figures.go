package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ostiary/ostiary/storage/pebble"
)

// folderFigures collects the Prometheus metrics of a data folder.
type folderFigures struct {
	driver                 *pebble.Driver
	disk, wal, debt, files *prometheus.Desc
}

func newFolderFigures(d *pebble.Driver) *folderFigures {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("ostiary_folder_"+name, help, nil, nil)
	}
	return &folderFigures{d, desc("disk_bytes", "Size of the data folder's files."),
		desc("wal_bytes", "Size of the write-ahead log."),
		desc("debt_bytes", "Bytes that compaction still has to rewrite."),
		desc("read_files", "Number of sorted runs that a read may have to search.")}
}

// Describe implements [prometheus.Collector].
func (f *folderFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.disk, f.wal, f.debt, f.files} {
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
}
