package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ostiary/ostiary/storage/pebble"
)

// folderFigures are a data folder's figures for /metrics.
type folderFigures struct {
	driver                 *pebble.Driver
	disk, wal, debt, files *prometheus.Desc
}

func newFolderFigures(d *pebble.Driver) *folderFigures {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("ostiary_folder_"+name, help, nil, nil)
	}
	return &folderFigures{d, desc("disk_bytes", "What the data folder's files hold."),
		desc("wal_bytes", "What the write-ahead log holds."),
		desc("debt_bytes", "What background work has yet to rewrite."),
		desc("read_files", "In how many sorted runs a read may have to look.")}
}

// Describe names what Collect sends.
func (f *folderFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.disk, f.wal, f.debt, f.files} {
		to <- d
	}
}

// Collect reads the figures.
func (f *folderFigures) Collect(to chan<- prometheus.Metric) {
	now := f.driver.Figures()
	for d, v := range map[*prometheus.Desc]float64{f.disk: float64(now.DiskBytes), f.wal: float64(now.WALBytes),
		f.debt: float64(now.DebtBytes), f.files: float64(now.ReadFiles)} {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
}
