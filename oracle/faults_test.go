//go:build faults

package oracle

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/fault"
)

// faultWorldsMax is how many worlds may pass before a fault is caught.
const faultWorldsMax = 20_000

// TestFaults switches each seeded fault on in turn: a law must fail within
// faultWorldsMax worlds. It prints how many each one took. OSTIARY_FAULT
// chooses one by its number.
func TestFaults(t *testing.T) {
	only := fault.Fault(setting(t, "OSTIARY_FAULT", 0))
	names := faultNames(t)
	var table strings.Builder
	for f := fault.None + 1; f < fault.Count; f++ {
		if only != fault.None && f != only {
			continue
		}
		fault.Switch(f)
		worlds, err := hunt(f, append(Laws(), StoreLaws()...))
		fault.Switch(fault.None)
		if err == nil {
			t.Errorf("fault %d, %s, is not caught by %d worlds", f, names[f], worlds)
			fmt.Fprintf(&table, "%3d  %-28s  not caught\n", f, names[f])
			continue
		}
		fmt.Fprintf(&table, "%3d  %-28s  %6d worlds  %s\n", f, names[f], worlds, strings.SplitN(err.Error(), ": ", 2)[0])
	}
	t.Logf("fault, worlds needed, law\n%s", table.String())
}

// faultNames reads the names of the faults from where they are declared.
func faultNames(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../internal/fault/fault.go")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"None"}
	for _, m := range regexp.MustCompile(`(?m)^\t((?:Eval|Graph|Storage)\w+)`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) != int(fault.Count) {
		t.Fatalf("%d names of %d faults", len(names), fault.Count)
	}
	return names
}

// hunt runs worlds until a law fails that holds without the fault, and returns
// their number and the failure.
func hunt(f fault.Fault, laws []Law) (worlds int, failure error) {
	for seed := uint64(1); worlds < faultWorldsMax; seed++ {
		b, err := NewBench(seed, Random(seed), nil, nil)
		if err != nil {
			continue
		}
		worlds++
		for i, law := range laws {
			if !law.due(seed, i, 1) {
				continue
			}
			fail := law.try(b)
			if fail == nil {
				continue
			}
			fault.Switch(fault.None)
			b, err = NewBench(seed, Random(seed), nil, nil)
			honest := err == nil && law.try(b) == nil
			fault.Switch(f)
			if honest {
				return worlds, fail
			}
		}
	}
	return worlds, nil
}
