package cel

import (
	"archive/zip"
	"bytes"
	_ "embed" // for zoneArchive
	"fmt"
	"io"
	"sync"
	"time"
)

// zoneArchive is lib/time/zoneinfo.zip of Go, whose data is in the public domain. The command
// make zones copies it. It is a part of the program, so that all nodes of one build have the
// same zones: the files of a machine, which [time.LoadLocation] prefers, may be older, other
// ones, or missing.
//
//go:embed zoneinfo.zip
var zoneArchive []byte

// zonesByName returns the zones by their names. Each one is read when it is first asked for.
var zonesByName = sync.OnceValue(func() map[string]func() (*time.Location, error) {
	r, err := zip.NewReader(bytes.NewReader(zoneArchive), int64(len(zoneArchive)))
	if err != nil {
		panic(fmt.Sprintf("zones: the embedded archive cannot be read: %v", err))
	}
	zones := make(map[string]func() (*time.Location, error), len(r.File))
	for _, f := range r.File {
		zones[f.Name] = sync.OnceValues(func() (*time.Location, error) { return readZone(f) })
	}
	return zones
})

func readZone(f *zip.File) (*time.Location, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(f.Name, data)
}

// loadZone returns the zone with a name, such as "Europe/Berlin". "" is UTC. It fails for a name
// that the database lacks, also for "Local", because each machine has its own.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	zone, ok := zonesByName()[name]
	if !ok {
		return nil, fmt.Errorf("unknown time zone %.64q: expected a name of the IANA database, for example Europe/Berlin", name)
	}
	return zone()
}
