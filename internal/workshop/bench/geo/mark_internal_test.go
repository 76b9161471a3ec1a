package geo

import (
	"slices"
	"testing"
)

func TestMark(t *testing.T) {
	for _, c := range []struct {
		before       Mark
		busy, others float64
		want         Mark
	}{{Measured, .5, .1, Measured}, {Measured, .5, .4, Measured}, {Measured, .9, .2, Bound}, {Measured, .9, .5, Disturbed}, {Bound, .9, .5, Disturbed}, {Disturbed, .9, .1, Disturbed}, {Bound, .3, .2, Bound}, {Failed, .9, .9, Failed}} {
		if got := (&Scenario{Busy: c.busy, Others: c.others}).mark(c.before); got != c.want {
			t.Errorf("%s, busy %g, others %g: got %s, expected %s", c.before, c.busy, c.others, got, c.want)
		}
	}
}

// TestLeases computes the leases of far cells.
func TestLeases(t *testing.T) {
	for _, c := range []struct {
		store        string
		delay        int
		holder, read string
	}{{MariaDB, 0, "1s", "700ms"}, {MariaDB, 50, "1s", "700ms"}, {PostgreSQL, 150, "1.285714285s", "900ms"}, {Galera, 150, "2.25s", "900ms"}, {Raft, 150, "2.25s", "900ms"}} {
		holder, read := Cell{Column: Column{System: Ostiary, Store: c.store}, Instances: 9, Delay: c.delay, Zones: zonesSame}.leases()
		if holder.String() != c.holder || read.String() != c.read {
			t.Errorf("%s, %d ms: leases %s and %s, expected %s and %s", c.store, c.delay, holder, read, c.holder, c.read)
		}
	}
}

// TestCopies finds out where the copies of the log are, and which instance gets low load.
func TestCopies(t *testing.T) {
	for _, c := range []struct {
		store     string
		instances int
		delay     int
		zones     string
		copies    []int
		loaded    int
	}{
		{MariaDB, 9, 50, zonesSame, []int{0}, 1}, {Galera, 3, 0, zonesSame, []int{0, 1, 2}, 1}, {Galera, 9, 0, zonesSame, []int{0, 3, 6}, 3},
		{Galera, 9, Hierarchical, "Z1Z1Z3", []int{0, 1, 6}, 1}, {Galera, 9, Hierarchical, zonesSame, []int{0, 1, 2}, 1}, {Galera, 9, Hierarchical, "Z1Z2Z3", []int{0, 3, 6}, 3},
		{Raft, 9, 50, zonesSame, []int{0, 3, 6}, 3}, {Raft, 45, 0, zonesSame, []int{0, 9, 18, 27, 36}, 9},
	} {
		cell := Cell{Column: Column{System: Ostiary, Store: c.store}, Instances: c.instances, Delay: c.delay, Zones: c.zones, Rounds: 4}
		if got := cell.copies(); !slices.Equal(got, c.copies) {
			t.Errorf("%s: copies on %v, expected %v", cell, got, c.copies)
		}
		if got := cell.loaded(); len(got) != 1 || got[0] != c.loaded {
			t.Errorf("%s: load on %v, expected %d", cell, got, c.loaded)
		}
		if cell.High = true; len(cell.loaded()) != c.instances {
			t.Errorf("%s: load on %v", cell, cell.loaded())
		}
	}
}
