// Package geo runs the study "Evaluation of OpenStack Multi-Region Keystone Deployments"
// (Delavergne, Cherrueau and Lebre, 2018) again, with this program and with the real
// Keystone: which database lets one identity service span several regions. Its main types
// are [Cell], one experiment; [Runner], which plays cells and keeps a [Record] of each;
// and [Frame], the times of one scenario as the study counts them. Package
// geo/page draws the figures, and geo/delay makes the network.
//
// A record is written once, at the end of its cell. The package never makes up a figure
// for a cell that failed: its record has the reason.
package geo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
)

// The systems that serve the Identity API.
const (
	Ostiary  = "ostiary"
	Keystone = "keystone" // the real one, of PyPI
)

// The databases that instances share.
const (
	MariaDB    = "mariadb"    // one server
	PostgreSQL = "postgresql" // one server
	Galera     = "galera"     // three servers
	Raft       = "raft"       // none: the instances keep the log themselves (--cluster)
)

// Column is a deployment that the study compares with others.
type Column struct {
	// System is [Ostiary] or [Keystone].
	System string `json:"system"`
	// Store is the database.
	Store string `json:"store"`
	// Local is true if a write is answered as soon as it is in the log, although other
	// instances show it a little later (--acknowledge local).
	Local bool `json:"local,omitempty"`
}

// String returns the name in tables, for example "ostiary on galera".
func (c Column) String() string {
	s := c.System + " on " + c.Store
	if c.Local {
		s += ", local"
	}
	return s
}

// folder returns the name of the folder of a column's system in Rally's results.
func (c Column) folder() string {
	if c.Local {
		return c.System + "-local"
	}
	return c.System
}

// Columns are all columns, in the order of figures.
func Columns() []Column {
	return []Column{
		{Keystone, MariaDB, false}, {Keystone, Galera, false},
		{Ostiary, MariaDB, false}, {Ostiary, PostgreSQL, false}, {Ostiary, Galera, false}, {Ostiary, Raft, false},
		{Ostiary, MariaDB, true}, {Ostiary, Galera, true}, {Ostiary, Raft, true},
	}
}

// columnsPlain are the columns whose writes wait for the other instances.
func columnsPlain() []Column {
	return slices.DeleteFunc(Columns(), func(c Column) bool { return c.Local })
}

// Hierarchical is the delay of cells with locality, as the study writes it: three groups
// of instances, 10 ms one way within a group, 75 ms between neighbors and 150 ms between
// the outer two.
const Hierarchical = 10

// Cell is one experiment.
type Cell struct {
	Column
	// Instances is the number of instances of the identity service, a multiple of 3.
	Instances int `json:"instances"`
	// Delay is the delay between instances in milliseconds, one way, or [Hierarchical].
	Delay int `json:"delay_ms"`
	// Zones are the groups of the three copies of the data, as "Z1Z2Z3". It matters in
	// hierarchical cells only; a database with one server is in the first.
	Zones string `json:"zones"`
	// High is true if every instance gets the whole load at the same time. Otherwise one
	// instance does, which is not the first.
	High bool `json:"high"`
	// Rounds is the cost of password hashes.
	Rounds int `json:"hash_cost"`
}

// Name returns the name of the cell in the study's form, for example
// "mariadb-9-50-Z1Z1Z1-F". Cells of different systems may have the same name.
func (c Cell) Name() string {
	high := "F"
	if c.High {
		high = "T"
	}
	return fmt.Sprintf("%s-%d-%d-%s-%s", c.Store, c.Instances, c.Delay, c.Zones, high)
}

// File returns the name of the cell's record, without a folder.
func (c Cell) File() string { return c.folder() + "-" + c.Name() + ".json.gz" }

// String describes the cell.
func (c Cell) String() string {
	load, distance := "low load", fmt.Sprintf("%d ms", c.Delay)
	if c.High {
		load = "high load"
	}
	if c.Delay == Hierarchical {
		distance = "zones " + c.Zones
	}
	return fmt.Sprintf("%s, %d instances, %s, %s", c.Column, c.Instances, distance, load)
}

// way returns the delays between the instances.
func (c Cell) way() delay.Way {
	if c.Delay != Hierarchical {
		d := time.Duration(c.Delay) * time.Millisecond
		return func(from, to int) time.Duration {
			if from == to {
				return 0
			}
			return d
		}
	}
	group := c.Instances / 3
	return func(from, to int) time.Duration {
		a, b := from/group, to/group
		switch {
		case from == to:
			return 0
		case a == b:
			return Hierarchical * time.Millisecond
		case a-b == 1 || b-a == 1:
			return 75 * time.Millisecond
		}
		return 150 * time.Millisecond
	}
}

// copies returns the instances that have a server of the database, or that vote on the
// log. The first one is where the log is written.
func (c Cell) copies() []int {
	servers := 1
	if c.Store == Galera || c.Store == Raft {
		servers = 3
	}
	group := c.Instances / 3
	if c.Store == Raft && c.Instances >= 15 && c.Delay != Hierarchical {
		servers, group = 5, c.Instances/5
	}
	var out []int
	for i := range servers {
		zone := i
		if c.Delay == Hierarchical {
			zone = int(c.Zones[2*i+1] - '1')
		}
		at := zone * group
		for slices.Contains(out, at) {
			at++
		}
		out = append(out, at)
	}
	return out
}

// databases returns the instances that have a server of the database.
func (c Cell) databases() []int {
	if c.Store == Raft {
		return nil
	}
	return c.copies()
}

// database returns the index in databases of the server that is nearest to an instance.
func (c Cell) database(instance int) (best int) {
	way, all := c.way(), c.databases()
	for i := range all {
		if way(instance, all[i]) < way(instance, all[best]) {
			best = i
		}
	}
	if all[best] != instance && c.Delay != Hierarchical {
		return instance * len(all) / c.Instances // all are equally far
	}
	return best
}

// Leases returns --holder-lease and --read-lease as docs/geo.md advises: the holder
// renews its lease by a commit of the log, of which five should fit into the lease, and a
// read lease by a round trip, of which three should. trip is the longest round trip from
// the node that writes to another one, and between the longest one to another copy of the
// log.
func Leases(trip, between time.Duration) (holder, read time.Duration) {
	read = max(700*time.Millisecond, readTrips*trip)
	return max(time.Second, read*10/7, holderCommits*between*3/2), read
}

// How many round trips a read lease lasts at least, and how many commits of the log the lease
// of the holder.
const (
	readTrips     = 3
	holderCommits = 5
)

// loaded returns the instances that get the load.
func (c Cell) loaded() []int {
	if !c.High {
		if all := c.copies(); len(all) > 1 {
			return all[1:2] // as in the study, each instance has a database of its own
		}
		return []int{1}
	}
	all := make([]int, c.Instances)
	for i := range all {
		all[i] = i
	}
	return all
}

// check returns an error if the cell is not valid.
func (c Cell) check() error {
	switch {
	case !slices.Contains(Columns(), c.Column):
		return fmt.Errorf("unknown column %q", c.Column)
	case c.Instances < 3 || c.Instances > delay.HostsMax || c.Instances%3 != 0:
		return fmt.Errorf("%d instances: expected a multiple of 3 up to %d", c.Instances, delay.HostsMax)
	case c.Delay < 0 || c.Delay > 1000:
		return fmt.Errorf("delay of %d ms: expected 0 to 1000", c.Delay)
	case !slices.Contains(zonesAll, c.Zones):
		return fmt.Errorf("zones %q: expected one of %s", c.Zones, strings.Join(zonesAll, ", "))
	case c.Rounds < 4 || c.Rounds > 17:
		return fmt.Errorf("hash cost %d: expected 4 to 17", c.Rounds)
	}
	return nil
}

// zonesSame are the zones of cells without locality, as the study writes them.
const zonesSame = "Z1Z1Z1"

var zonesAll = []string{"Z1Z2Z3", "Z1Z1Z3", zonesSame}

// The costs of password hashes. At 45 instances of two processors hashes of cost 12 would
// be all that is measured.
const (
	roundsFull  = 12
	roundsShort = 4
)

// rounds returns the cost of password hashes of a cell.
func rounds(instances int, high bool) int {
	if instances == 3 && !high {
		return roundsFull
	}
	return roundsShort
}

// Full returns the cells of the whole study. Those that need the least time come first.
func Full() []Cell {
	var all []Cell
	add := func(c Column, instances, delay int, zones string, high bool) {
		all = append(all, Cell{c, instances, delay, zones, high, rounds(instances, high)})
	}
	plain := columnsPlain()
	for _, high := range []bool{false, true} {
		for _, c := range plain {
			add(c, 3, 0, zonesSame, high)
			add(c, 9, 0, zonesSame, high)
		}
	}
	for _, c := range Columns() {
		add(c, 3, 50, zonesSame, false)
		add(c, 3, 150, zonesSame, false)
	}
	for _, high := range []bool{false, true} {
		for _, delay := range []int{50, 150} {
			for _, c := range plain {
				add(c, 9, delay, zonesSame, high)
			}
		}
	}
	for _, c := range Columns() {
		if c.Store == PostgreSQL {
			continue
		}
		for _, zones := range zonesAll {
			if c.Store == Galera || c.Store == Raft || zones == zonesSame {
				add(c, 9, Hierarchical, zones, false)
			}
		}
	}
	for _, high := range []bool{false, true} {
		for _, c := range plain[2:] {
			add(c, 45, 0, zonesSame, high)
		}
	}
	return all
}

// Short returns the cells of the short form: 3 instances, 0 and 50 ms, low load. The real
// Keystone is on MariaDB only, because its cells take the longest.
func Short() []Cell {
	var all []Cell
	for _, delay := range []int{0, 50} {
		for _, c := range columnsPlain() {
			if c.System == Ostiary || c.Store == MariaDB {
				all = append(all, Cell{c, 3, delay, zonesSame, false, roundsShort})
			}
		}
	}
	return all
}

// What the short form plays of Rally's iterations, and how long those of a scenario may
// take.
const (
	ShortPart        = 0.1
	ShortScenarioMax = 5 * time.Second
)

// errLost is returned if a program of a cell ends before it should.
var errLost = errors.New("ended unexpectedly")

// Only returns the cells whose records' names begin with one of the texts, or all of
// them if there are none.
func Only(all []Cell, beginnings []string) []Cell {
	return slices.DeleteFunc(slices.Clone(all), func(c Cell) bool {
		return len(beginnings) > 0 && !slices.ContainsFunc(beginnings, func(text string) bool { return strings.HasPrefix(c.File(), text) })
	})
}
