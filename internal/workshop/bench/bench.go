// Package bench measures authorization servers, and the library in this process,
// with the workloads of published benchmarks. Its main types are [Runner], which
// runs a workload (for example [Runner.OpenFGA]) on several sides in turns under
// a [Load]; [Target], which sends the requests; and [Record], one result.
// Package bench/report prints and draws records.
//
// The package never includes failed requests in a time, never asserts a time,
// and sends load only to the addresses that it is given.
package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Version is the version of the format of records. [Read] accepts no other.
const Version = 1

// ErrVersion is returned by [Read] for a record of another version.
var ErrVersion = errors.New("unsupported record version")

// Kind is the origin of a record's figures.
type Kind string

const (
	// Measured figures were measured by this program.
	Measured Kind = "measured"
	// Quoted figures were published by others, in Record.Source.
	Quoted Kind = "quoted"
)

// Record is the result of one cell of a workload on one side. Times are in
// nanoseconds and include only successful requests. Unknown figures are 0.
type Record struct {
	// Version is the format's version; [Write] sets it.
	Version int `json:"version"`
	// Kind is the origin of the figures.
	Kind Kind `json:"kind"`
	// Source is where quoted figures were published.
	Source string `json:"source,omitempty"`
	// Scope is what the times include, if that is not the request of the cell alone.
	// Records with different scopes are not compared.
	Scope string `json:"scope,omitempty"`
	// Workload is the benchmark: "openfga", "lxd", "permify", "native", "acp",
	// "onap", "xacml", "cluster", "keystone, hash cost 12".
	Workload string `json:"workload"`
	// Cell is the kind of request within the workload: "direct", "list 1000".
	Cell string `json:"cell"`
	// Door is how requests arrive: "embedded", "http", "grpc".
	Door string `json:"door,omitempty"`
	// Peer is the program that answered: "ostiary", "openfga", or "floor" for a
	// server that reads requests and writes the same responses without any work.
	Peer string `json:"peer"`
	// PeerVersion is the version of Peer, if known.
	PeerVersion string `json:"peer_version,omitempty"`
	// Store is the peer's storage: "memory", "pebble", "postgres".
	Store string `json:"store,omitempty"`
	// Size is the number of tuples in the store, or of policies, or 0 if it has no
	// meaning.
	Size int `json:"size,omitempty"`
	// Load describes how requests arrived: "closed, 8 clients", "open, 1000/s".
	Load string `json:"load,omitempty"`

	// N is the number of successful requests.
	N int `json:"n"`
	// Failures counts the failed requests by the name of the failure.
	Failures map[string]int `json:"failures,omitempty"`
	// Mean is the mean time of a request.
	Mean float64 `json:"mean_ns,omitempty"`
	// Median is the median time of a request.
	Median float64 `json:"median_ns,omitempty"`
	// SD is the sample standard deviation of the times.
	SD float64 `json:"sd_ns,omitempty"`
	// Min is the shortest time.
	Min float64 `json:"min_ns,omitempty"`
	// Max is the longest time.
	Max float64 `json:"max_ns,omitempty"`
	// P90 is the 90th percentile of the times.
	P90 float64 `json:"p90_ns,omitempty"`
	// P99 is the 99th percentile of the times.
	P99 float64 `json:"p99_ns,omitempty"`
	// P999 is the 99.9th percentile of the times.
	P999 float64 `json:"p999_ns,omitempty"`
	// Distribution holds quantiles in ascending order, for charts.
	Distribution []Quantile `json:"distribution,omitempty"`
	// RoundTrips is the time that the round trips take which the request cannot avoid, as they
	// were measured before it.
	RoundTrips float64 `json:"round_trips_ns,omitempty"`
	// Throughput is the number of successful requests per second.
	Throughput float64 `json:"throughput_per_s,omitempty"`
	// ServerCPU is the processor time per request of the server's process, and in the
	// workload "cluster" of all nodes. It is 0 for an embedded target.
	ServerCPU float64 `json:"server_cpu_ns,omitempty"`
	// Syncs is how often per second the server waits for its disk to keep entries of its
	// log, if it is a node of a cluster without a database.
	Syncs float64 `json:"syncs_per_s,omitempty"`
	// GeneratorCPU is the processor time per request of this process: the
	// clients', and for an embedded target the library's as well.
	GeneratorCPU float64 `json:"generator_cpu_ns,omitempty"`
	// Resident is the resident memory of the server after the run, in bytes.
	Resident int64 `json:"resident_bytes,omitempty"`

	// Machine describes the machine, as [Machine] does.
	Machine string `json:"machine,omitempty"`
	// Commit is the revision of the measured program, as [Commit] returns it.
	Commit string `json:"commit,omitempty"`
	// When is the time of the measurement.
	When time.Time `json:"when,omitzero"`
	// Notes explain the figures to a reader.
	Notes string `json:"notes,omitempty"`
}

// Quantile is one point of a distribution.
type Quantile struct {
	// At is the fraction of requests that take at most Nanos, from 0 to 1.
	At float64 `json:"at"`
	// Nanos is the time in nanoseconds.
	Nanos float64 `json:"ns"`
}

// Failed returns the number of failed requests.
func (r *Record) Failed() int {
	n := 0
	for _, c := range r.Failures {
		n += c
	}
	return n
}

// Write writes records to w, one JSON object per line.
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

// lineMax bounds the line of one record, in bytes.
const lineMax = 1 << 20

// Read reads the records that [Write] wrote. name is the file's name for errors.
// Read returns [ErrVersion] for a record of another version.
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
			return nil, fmt.Errorf("%s:%d: %w: got version %d, expected %d", name, line, ErrVersion, v.Version, Version)
		}
		var record Record
		if err := json.Unmarshal(s.Bytes(), &record); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if record.Kind != Measured && record.Kind != Quoted {
			return nil, fmt.Errorf("%s:%d: invalid kind %q: expected %q or %q", name, line, record.Kind, Measured, Quoted)
		}
		out = append(out, record)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}
