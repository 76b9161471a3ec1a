package serve

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/backups"
)

// backupRecord has when the newest backup of the folder was made.
type backupRecord struct{ made atomic.Pointer[time.Time] }

// readBackup reads the time of the newest backup from the folder.
func (s *prepared) readBackup() {
	b, err := backups.Noted(s.Data)
	if err != nil {
		s.log.Warn("the time of the newest backup cannot be read", "error", err)
	}
	s.backups.made.Store(&b.Made)
}

// noteBackup answers the command of a backup that has ended.
func (s *prepared) noteBackup(_ context.Context, b backups.Backed) (struct{}, error) {
	err := backups.Note(s.Data, b)
	if err == nil {
		s.readBackup()
	}
	return struct{}{}, err
}

// backupFigures collects the metric of the newest backup.
type backupFigures struct {
	of  *backupRecord
	age *prometheus.Desc
}

func newBackupFigures(r *backupRecord) *backupFigures {
	return &backupFigures{r, prometheus.NewDesc("ostiary_backup_age_seconds", "Age of the newest backup of the data folder that has ended; missing if there was none.", nil, nil)}
}

// Describe implements [prometheus.Collector].
func (f *backupFigures) Describe(to chan<- *prometheus.Desc) { to <- f.age }

// Collect implements [prometheus.Collector].
func (f *backupFigures) Collect(to chan<- prometheus.Metric) {
	if made := f.of.made.Load(); made != nil && !made.IsZero() {
		to <- prometheus.MustNewConstMetric(f.age, prometheus.GaugeValue, time.Since(*made).Seconds())
	}
}
