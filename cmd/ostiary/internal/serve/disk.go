package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/storage/pebble"
)

// This file keeps a reserve of free space on the disks of a server: below it, writes are
// refused before one of them fails, because the server ends after a failed write.

const (
	// reserveDefault is the default of --disk-reserve. It has room for what Pebble writes
	// without being asked: four tables in memory of 32 MiB, and the files that a compaction
	// writes before it removes those that it has read.
	reserveDefault = 256 << 20
	// reservePart is which part of a file system the default takes at most, so that it does
	// not disturb a small one.
	reservePart = 20
	// lookEvery is how long writes rest on one look at the free space, and idleLookEvery
	// the interval of looks while nothing is written.
	lookEvery, idleLookEvery = 100 * time.Millisecond, time.Second
	// amplification is how many bytes a write takes at most on disk for each of its own,
	// before the next look: in the write-ahead log, and in the log of the nodes or a sorted file.
	amplification = 2
)

// diskFlags are the settings of the disks.
type diskFlags struct {
	least    int64
	flag     *pflag.Flag // of least
	readOnly bool
}

func (f *diskFlags) add(s *pflag.FlagSet) {
	const name = "disk-reserve"
	cli.BytesVar(s, &f.least, name, reserveDefault, "free space of the disk of the data folder below which writes that add data are refused, before one fails; removals may use half of it; 0 means none; without this setting it is at most a twentieth of the disk")
	f.flag = s.Lookup(name)
	s.BoolVar(&f.readOnly, "read-only", false, "answer reads from the data folder and change nothing in it, for a disk that is full or read-only; writes are refused")
}

// reserve returns --disk-reserve, or -1 for its default.
func (f *diskFlags) reserve() int64 {
	if !f.flag.Changed {
		return -1
	}
	return f.least
}

// level is how little free space there is.
type level int32

// The levels, each with less free space than the one before.
const (
	hasRoom level = iota
	// low gives up what another node can do: below 5/4 of the reserve.
	low
	// full refuses writes that add data: below the reserve.
	full
	// exhausted refuses every write: below half of the reserve.
	exhausted
)

// least returns the free space below which a level begins.
func (l level) least(reserve int64) int64 {
	return [...]int64{hasRoom: math.MaxInt64, low: reserve + reserve/4, full: reserve, exhausted: reserve / 2}[l]
}

// after returns the level of so much free space after another one, which ends only when
// there is an eighth of the reserve more than where it began.
func (l level) after(free, reserve int64) level {
	for l > hasRoom && free >= l.least(reserve)+reserve/8 {
		l--
	}
	for l < exhausted && free < (l+1).least(reserve) {
		l++
	}
	return l
}

// disks are the file systems of a server. All methods are safe for concurrent use. A nil
// *disks has room.
type disks struct {
	folders []*disk
	log     *slog.Logger
	now     func() time.Time
	refused atomic.Uint64

	looked   atomic.Int64 // when the last look was, in Unix nanoseconds
	unlooked atomic.Int64 // bytes that were written since then
	looking  sync.Mutex   // held by the one call of look that looks
}

// disk is the file system of one folder.
type disk struct {
	// name is that of the folder in logs and metrics, and dir where it is.
	name, dir string
	// configured is the reserve that is set, or -1 for the default.
	configured int64
	// unflushed returns how many bytes of the write-ahead log are still to be written to
	// sorted files before the log is removed; nil while the folder is not open.
	unflushed atomic.Pointer[func() int64]
	// usage returns the free bytes and the size of the file system.
	usage func(dir string) (free, size uint64, err error)

	free    atomic.Int64 // without what is unflushed
	reserve atomic.Int64
	level   atomic.Int32
	unknown atomic.Bool // the free space cannot be found out
}

// openDisks returns the disks of a server with a data folder, or nil if they have no reserve.
// voter is true if the folder has a log of the nodes as well, which may be on another disk.
func openDisks(data string, voter bool, configured int64, log *slog.Logger) *disks {
	if configured == 0 || data == cli.InMemory {
		return nil
	}
	d := &disks{log: log, now: time.Now}
	add := func(name, dir string) {
		d.folders = append(d.folders, &disk{name: name, dir: dir, configured: configured, usage: usageOf})
	}
	add("data", data)
	if voter {
		add("log", filepath.Join(data, quorum.FolderName))
	}
	d.look(0)
	return d
}

// usageOf returns the free bytes and the size of the file system of a folder, or of the
// nearest one above that exists.
func usageOf(dir string) (free, size uint64, err error) {
	for {
		u, err := vfs.Default.GetDiskUsage(dir)
		above := filepath.Dir(dir)
		if errors.Is(err, fs.ErrNotExist) && above != dir {
			dir = above
			continue
		}
		return u.AvailBytes, u.TotalBytes, err
	}
}

// look looks at the free space of each disk, and logs each change of its level. unlooked are
// bytes that are about to be written. If they are more than 0, look does nothing when another
// call has made it needless.
func (d *disks) look(unlooked int64) {
	d.looking.Lock()
	defer d.looking.Unlock()
	if unlooked > 0 && !d.mustLook() {
		return
	}
	d.looked.Store(d.now().UnixNano())
	d.unlooked.Store(unlooked)
	for _, f := range d.folders {
		f.look(d.log)
	}
}

func (f *disk) look(log *slog.Logger) {
	free, size, err := f.usage(f.dir)
	if err != nil || size == 0 {
		if !f.unknown.Swap(true) {
			log.Warn("the free space of the disk cannot be found out, so it has no reserve", "folder", f.name, "error", err)
		}
		f.level.Store(int32(hasRoom))
		return
	}
	f.unknown.Store(false)
	reserve := f.configured
	if reserve < 0 {
		reserve = min(reserveDefault, int64(min(size, math.MaxInt64))/reservePart)
	}
	left := int64(min(free, math.MaxInt64))
	if unflushed := f.unflushed.Load(); unflushed != nil {
		left = max(left-(*unflushed)(), 0)
	}
	f.free.Store(left)
	f.reserve.Store(reserve)
	was := level(f.level.Load())
	now := was.after(f.free.Load(), reserve)
	if f.level.Store(int32(now)); now == was {
		return
	}
	attrs := []any{"folder", f.name, "free_bytes", f.free.Load(), "disk_reserve", reserve}
	switch {
	case now == exhausted:
		log.Error("the disk is nearly full: every write is refused; reads go on", attrs...)
	case now == full:
		log.Warn("the disk is nearly full: writes that add data are refused; reads and removals go on", attrs...)
	case was >= full:
		log.Info("the disk has room again: writes are accepted", attrs...)
	case now == low:
		log.Warn("the disk has little free space", attrs...)
	default:
		log.Info("the disk has room again", attrs...)
	}
}

// room is [ostiary.Options.Room].
func (d *disks) room(bytes int, frees bool) error {
	if d == nil {
		return nil
	}
	if d.unlooked.Add(int64(bytes)); d.mustLook() {
		d.look(int64(bytes))
	}
	for _, f := range d.folders {
		if err := f.room(int64(bytes), frees); err != nil {
			d.refused.Add(1)
			return err
		}
	}
	return nil
}

// mustLook reports whether the last look is too long ago, or the bytes since then may have
// used an eighth of what was free above half of a reserve.
func (d *disks) mustLook() bool {
	if d.now().UnixNano()-d.looked.Load() >= int64(lookEvery) {
		return true
	}
	unlooked := amplification * d.unlooked.Load()
	for _, f := range d.folders {
		if !f.unknown.Load() && unlooked > max(f.free.Load()-exhausted.least(f.reserve.Load()), 0)/8 {
			return true
		}
	}
	return false
}

func (f *disk) room(bytes int64, frees bool) error {
	at, reserve, free := level(f.level.Load()), f.reserve.Load(), f.free.Load()
	switch {
	case f.unknown.Load():
		return nil
	case at == exhausted || free-amplification*bytes < exhausted.least(reserve):
		return fmt.Errorf("%w: %d bytes are free for the %s, and disk-reserve is %d, half of which no write of %d bytes may use", authz.ErrDisk, free, f.name, reserve, bytes)
	case at == full && !frees:
		return fmt.Errorf("%w: %d bytes are free for the %s, and disk-reserve is %d, which only writes that remove may use", authz.ErrDisk, free, f.name, reserve)
	}
	return nil
}

// low reports whether a disk has so little free space that another node should do what one
// of several has to do.
func (d *disks) low() bool { return d.highest() >= low }

// text returns what a lack of room leads to, or "" with room.
func (d *disks) text() string {
	switch d.highest() {
	case low:
		return "little free space: another node writes, if one has more"
	case full:
		return "below the reserve: writes that add data are refused"
	case exhausted:
		return "below half of the reserve: every write is refused"
	}
	return ""
}

// ready is [server.Options.Readiness] of a server that is no node: it can always answer reads.
func (d *disks) ready() (ready bool, details any) {
	if d.highest() >= full {
		return true, map[string]any{"disk": d.text()}
	}
	return true, nil
}

// highest returns the level of the disk with the least room.
func (d *disks) highest() (l level) {
	if d == nil {
		return hasRoom
	}
	for _, f := range d.folders {
		l = max(l, level(f.level.Load()))
	}
	return l
}

// watch looks at the free space at intervals until stop is called. driver has the folder.
func (d *disks) watch(driver *pebble.Driver) (stop func()) {
	if d == nil {
		return func() {}
	}
	unflushed := func() int64 { return driver.Figures().WALBytes }
	d.folders[0].unflushed.Store(&unflushed)
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(idleLookEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				d.look(0)
			}
		}
	}()
	return func() {
		close(end)
		<-done
		d.looking.Lock() // no look of a write uses the driver from now on
		defer d.looking.Unlock()
		d.folders[0].unflushed.Store(nil)
	}
}

// diskFigures collects the Prometheus metrics of disks.
type diskFigures struct {
	d                            *disks
	free, reserve, full, refused *prometheus.Desc
}

// collectors returns the collectors of the metrics of disks.
func (d *disks) collectors() []prometheus.Collector {
	if d == nil {
		return nil
	}
	return []prometheus.Collector{newDiskFigures(d)}
}

func newDiskFigures(d *disks) *diskFigures {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ostiary_disk_"+name, help, labels, nil)
	}
	return &diskFigures{d, desc("free_bytes", "Free bytes of the file system of a folder, data or log (of the nodes), without those that the write-ahead log of the data still needs.", "folder"),
		desc("reserve_bytes", "Free bytes below which writes that add data are refused, see --disk-reserve.", "folder"),
		desc("full", "1 while writes are refused because the file system has less than its reserve.", "folder"),
		desc("writes_refused_total", "Number of writes that were refused because of the reserve.")}
}

// Describe implements [prometheus.Collector].
func (f *diskFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.free, f.reserve, f.full, f.refused} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *diskFigures) Collect(to chan<- prometheus.Metric) {
	for _, x := range f.d.folders {
		if x.unknown.Load() {
			continue
		}
		for d, v := range map[*prometheus.Desc]float64{f.free: float64(x.free.Load()), f.reserve: float64(x.reserve.Load()), f.full: number(level(x.level.Load()) >= full)} {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, x.name)
		}
	}
	to <- prometheus.MustNewConstMetric(f.refused, prometheus.CounterValue, float64(f.d.refused.Load()))
}
