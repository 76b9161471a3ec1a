// Package bench asks an authorization server, or the library in this process,
// the questions of the field's published benchmarks, and keeps what it measured
// as records. Its main type is Record; a Workload makes records of a Target
// under a Load, and package bench/report draws them.
//
// It never averages a failure in, never asserts a time, and never sends load
// but to the addresses that it is given.
package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Version is the version of the form of records. A file of another is refused.
const Version = 1

// ErrVersion: a record of another version.
var ErrVersion = errors.New("record of another version")

// Kind says where a record's figures come from.
type Kind string

// Measured figures were taken by this program, Quoted ones were published by
// others; Source then says where.
const (
	Measured Kind = "measured"
	Quoted   Kind = "quoted"
)

// Record is one result: what one cell of one workload gave on one target.
// Times are nanoseconds, and only of what succeeded; a figure that is not known
// is left out.
type Record struct {
	Version int  `json:"version"`
	Kind    Kind `json:"kind"`
	// Source says where a quoted figure was published.
	Source string `json:"source,omitempty"`
	// Workload is the benchmark ("openfga", "lxd"), Cell the question in it
	// ("direct", "list 1000").
	Workload string `json:"workload"`
	Cell     string `json:"cell"`
	// Door is the way in: "embedded", "http", "grpc".
	Door string `json:"door,omitempty"`
	// Peer is who answered: "ostiary", "openfga", or "floor" for a server that
	// reads the request and writes the same answer without doing anything.
	Peer        string `json:"peer"`
	PeerVersion string `json:"peer_version,omitempty"`
	// Store is what the peer kept its data on: "memory", "pebble", "postgres".
	Store string `json:"store,omitempty"`
	// Size is the number of tuples in the store, 0 where that means nothing.
	Size int `json:"size,omitempty"`
	// Load is the arrival: "closed, 8 clients", "open, 1000/s".
	Load string `json:"load,omitempty"`

	// N counts what succeeded. Failures counts the rest by what went wrong.
	N        int            `json:"n"`
	Failures map[string]int `json:"failures,omitempty"`
	Mean     float64        `json:"mean_ns,omitempty"`
	Median   float64        `json:"median_ns,omitempty"`
	SD       float64        `json:"sd_ns,omitempty"`
	Min      float64        `json:"min_ns,omitempty"`
	Max      float64        `json:"max_ns,omitempty"`
	P90      float64        `json:"p90_ns,omitempty"`
	P99      float64        `json:"p99_ns,omitempty"`
	P999     float64        `json:"p999_ns,omitempty"`
	// Distribution holds the latency at growing fractions, for drawing.
	Distribution []Quantile `json:"distribution,omitempty"`
	// Throughput is successes per second.
	Throughput float64 `json:"throughput_per_s,omitempty"`
	// ServerCPU is the processor time of the server's process for each request,
	// GeneratorCPU that of this process, client code included. For an embedded
	// target they are one, and only GeneratorCPU is given.
	ServerCPU    float64 `json:"server_cpu_ns,omitempty"`
	GeneratorCPU float64 `json:"generator_cpu_ns,omitempty"`
	// Resident is the server's memory after the run, in bytes.
	Resident int64 `json:"resident_bytes,omitempty"`

	Machine string    `json:"machine,omitempty"`
	Commit  string    `json:"commit,omitempty"`
	When    time.Time `json:"when,omitzero"`
	// Notes say what a reader must know besides.
	Notes string `json:"notes,omitempty"`
}

// Quantile is a point of a distribution: a fraction At of all is not slower
// than Nanos.
type Quantile struct {
	At    float64 `json:"at"`
	Nanos float64 `json:"ns"`
}

// Failed counts all failures.
func (r *Record) Failed() int {
	n := 0
	for _, c := range r.Failures {
		n += c
	}
	return n
}

// Write appends records to w, one JSON object a line.
func Write(w io.Writer, records ...Record) error {
	e := json.NewEncoder(w)
	for i := range records {
		records[i].Version = Version
		if err := e.Encode(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// lineMax bounds a record's line, in bytes.
const lineMax = 1 << 20

// Read reads records. name is the file's, for errors; a record of another
// version is ErrVersion.
func Read(name string, r io.Reader) ([]Record, error) {
	var out []Record
	s := bufio.NewScanner(r)
	s.Buffer(nil, lineMax)
	for line := 1; s.Scan(); line++ {
		if len(s.Bytes()) == 0 {
			continue
		}
		var v struct {
			Version int `json:"version"`
		}
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if v.Version != Version {
			return nil, fmt.Errorf("%s:%d: %w: %d, this program reads %d", name, line, ErrVersion, v.Version, Version)
		}
		var record Record
		if err := json.Unmarshal(s.Bytes(), &record); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if record.Kind != Measured && record.Kind != Quoted {
			return nil, fmt.Errorf("%s:%d: kind %q is neither %q nor %q", name, line, record.Kind, Measured, Quoted)
		}
		out = append(out, record)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}
