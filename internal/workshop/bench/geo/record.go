package geo

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
)

// Version is the version of the form of records. [Load] accepts no other.
const Version = 1

// Mark is how far the times of a cell can be trusted.
type Mark string

const (
	// Measured means that the processors had time left: the times are those of the
	// network and the programs.
	Measured Mark = "measured"
	// Bound means that the processors were busy nearly all the time: times are those of a
	// queue before them. Failures, statements, bytes and processor time are real.
	Bound Mark = "CPU-bound"
	// Disturbed means that programs outside of the cell used more than [OutsideMax] of a
	// processor in a scenario, or in records that are not Counted most of the processors'
	// time, so that times are too long. Failures, statements, bytes and processor time are
	// real.
	Disturbed Mark = "disturbed"
	// Failed means that the cell could not be played, or that a program ended.
	Failed Mark = "failed"
)

// Record is the result of a cell.
type Record struct {
	Version int  `json:"version"` // of the form
	Cell    Cell `json:"cell"`    // what was played
	Mark    Mark `json:"mark"`    // how far to trust it
	// Failure is why the cell could not be played to its end.
	Failure string `json:"failure,omitempty"`
	// Machine and Commit are those of [bench.Machine] and [bench.Commit].
	Machine string `json:"machine"`
	Commit  string `json:"commit"`
	// Began is when the cell began, and Took how long it took with its preparation.
	Began time.Time     `json:"began"`
	Took  time.Duration `json:"took_ns"`
	// LoadBefore is the number of processes that were ready to run in the minute before.
	// LoadAfter is the number in the last minute of the cell.
	LoadBefore float64 `json:"load_before"`
	LoadAfter  float64 `json:"load_after,omitempty"`
	// Counted is true if Outside of the scenarios was counted: earlier records do not have it.
	Counted bool `json:"counted,omitempty"`
	// Network describes how delays were made.
	Network string `json:"network"`
	// Check is what the network measured of itself before the cell.
	Check delay.Measured `json:"check"`
	// Versions are those of the programs of other projects that were measured.
	Versions map[string]string `json:"versions"`
	// Settings are those of the instances of this program, and what they follow from.
	Settings *Settings `json:"settings,omitempty"`
	// Scenarios are the results, in the order of play.
	Scenarios []Scenario `json:"scenarios"`
	// Notes explain the figures to a reader.
	Notes []string `json:"notes,omitempty"`
}

// Scenario is the result of one of Rally's scenarios in a cell.
type Scenario struct {
	// Result has the iterations of all instances.
	Result bench.RallyResult `json:"result"`
	// Times is how many iterations Rally's sample file has for each instance. Result has
	// fewer if they would have taken too long.
	Times int `json:"times"`
	// Failure is why the scenario could not be played to its end.
	Failure string `json:"failure,omitempty"`
	// Holder is the instance of this program that wrote at the end, from 1. It should be
	// the first one, which is next to the database.
	Holder int `json:"holder,omitempty"`
	// Busy is the share of all processors that was used, from 0 to 1, and Others the part
	// of it that programs outside of the cell used. Programs of low priority do not count.
	Busy   float64 `json:"busy"`
	Others float64 `json:"others"`
	// Outside is how many processors programs outside of the cell used, on average, with those
	// of low priority and with what other machines took from this one. Load is the number of
	// processes that were ready to run in the last minute of the scenario, with the cell's own.
	Outside float64 `json:"outside,omitempty"`
	Load    float64 `json:"load,omitempty"`
	// Servers, Database and Client are processor times: of the identity service, of the
	// database, and of this process with its clients and its network.
	Servers  time.Duration `json:"servers_ns"`
	Database time.Duration `json:"database_ns"`
	Client   time.Duration `json:"client_ns"`
	// ServersMemory and DatabaseMemory are the resident bytes of all processes at the end.
	ServersMemory  int64 `json:"servers_memory_bytes"`
	DatabaseMemory int64 `json:"database_memory_bytes"`
	// Network is what the delayed network has carried.
	Network delay.Counters `json:"network"`
	// Statements counts what the database has executed.
	Statements Statements `json:"statements"`
}

// Statements are numbers of SQL statements. Reads and writes are those that the study
// counts: SELECT; INSERT, UPDATE, DELETE and REPLACE.
type Statements struct {
	Reads  int64 `json:"reads"`
	Writes int64 `json:"writes"`
}

func (s Statements) less(o Statements) Statements {
	return Statements{s.Reads - o.Reads, s.Writes - o.Writes}
}

// Lambda returns the failure rate of a scenario: the part of the iterations that failed.
// It is 1 if none was played.
func (s *Scenario) Lambda() float64 {
	if len(s.Result.Iterations) == 0 {
		return 1
	}
	failed := 0
	for _, i := range s.Result.Iterations {
		if len(i.Error) > 0 {
			failed++
		}
	}
	return float64(failed) / float64(len(s.Result.Iterations))
}

// Causes returns the failures of a scenario by name, the most frequent first, each with
// the text of its first one.
func (s *Scenario) Causes() (all []Cause) {
	at := map[string]int{}
	for _, i := range s.Result.Iterations {
		if len(i.Error) < 2 {
			continue
		}
		n, ok := at[i.Error[0]]
		if !ok {
			n = len(all)
			at[i.Error[0]] = n
			all = append(all, Cause{Name: i.Error[0], First: i.Error[1]})
		}
		all[n].Count++
	}
	slices.SortStableFunc(all, func(a, b Cause) int { return b.Count - a.Count })
	return all
}

// Cause is one kind of failures.
type Cause struct {
	Name  string // for example "status 503"
	Count int    // how many iterations failed so
	First string // the text of the first one
}

// ErrRecord is returned by [Load] for a file that is no record of this version.
var ErrRecord = errors.New("invalid record")

// Load reads all records of a folder. It returns none if the folder does not exist.
func Load(folder string) ([]Record, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.json.gz"))
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, name := range names {
		r, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// read reads a record.
func read(name string) (r Record, err error) {
	file, err := os.Open(name)
	if err != nil {
		return r, err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err == nil {
		err = json.NewDecoder(z).Decode(&r)
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if r.Version != Version {
		return r, fmt.Errorf("%w: version %d, expected %d", ErrRecord, r.Version, Version)
	}
	if err := r.Cell.check(); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if want := r.Cell.File(); filepath.Base(name) != want {
		return r, fmt.Errorf("%w: it is the record of %s, expected the name %s", ErrRecord, r.Cell, want)
	}
	return r, nil
}

// Save writes a record to a folder, all of it or nothing.
func Save(folder string, r *Record) (err error) {
	r.Version = Version
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name := filepath.Join(folder, r.Cell.File())
	file, err := os.CreateTemp(folder, ".writing-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			err = fmt.Errorf("write %s: %w", name, err)
		}
	}()
	z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	err = errors.Join(json.NewEncoder(z).Encode(r), z.Close(), file.Chmod(0o644), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

// Sorted orders records as their cells: by column, load, delay and instances.
func Sorted(all []Record) []Record {
	all = slices.Clone(all)
	columns := Columns()
	slices.SortStableFunc(all, func(a, b Record) int {
		for _, d := range []int{
			slices.Index(columns, a.Cell.Column) - slices.Index(columns, b.Cell.Column),
			number(a.Cell.High) - number(b.Cell.High), a.Cell.Delay - b.Cell.Delay, a.Cell.Instances - b.Cell.Instances,
			slices.Index(zonesAll, a.Cell.Zones) - slices.Index(zonesAll, b.Cell.Zones)} {
			if d != 0 {
				return d
			}
		}
		return 0
	})
	return all
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// exists reports whether a file exists.
func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
