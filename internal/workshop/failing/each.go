package failing

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/storage/memory"
)

// operationsMax is the largest number of operations that [Each] makes fail in one
// way. A call with more would make the test too slow.
const operationsMax = 500

// Scenario is a call that must fail if an operation of the storage fails.
type Scenario struct {
	// Call makes the call and returns its result as a text. The text and the effect
	// must be the same in each run, so it contains no random ids and no times.
	Call func() (string, error)
	// State returns what the store contains, as a text. It is called without a fault,
	// after Call. Nil is for calls that change nothing.
	State func() (string, error)
	// Optional are operations that may fail without making the call fail. The call
	// must then return its whole result.
	Optional []Operation
	// InSteps means that the call makes several changes of the storage, so that it may
	// fail after some of them, and may not be repeatable. Then only a call that has
	// changed nothing must leave the state as it was, and be repeatable.
	InSteps bool
	// Err is the error of the operations. Nil is [ErrInjected].
	Err error
}

// Each checks a call against a storage that fails. prepare gets a driver without
// data, prepares what the call needs, and returns the call. Each first calls it
// without a fault. Then it prepares it again for each operation of the call, and
// makes this operation fail: alone, together with all later ones, and, if it
// changes data, after the change. Each checks that
//
//   - the call returns an error, or its whole result if the operation is optional or
//     has changed the data,
//   - the state afterwards is that before the call, or that after it if data was
//     changed,
//   - the call succeeds when it is repeated without a fault, if it has changed nothing.
//
// Each logs which operations failed. It fails the test if the call uses no operation.
func Each(t *testing.T, prepare func(t *testing.T, d *Driver) Scenario) {
	t.Helper()
	problems, hits := each(func() trial {
		d := New(memory.New())
		t.Cleanup(func() { d.Close() })
		return trial{prepare(t, d), d}
	})
	for _, problem := range problems {
		t.Error(problem)
	}
	t.Logf("operations that failed: %s", strings.Join(hits, ", "))
}

// trial is a prepared call and its driver.
type trial struct {
	Scenario
	driver *Driver
}

// outcome is what a call did.
type outcome struct {
	result string
	err    error
	state  string
}

// String returns the result, the error and the state.
func (o outcome) String() string {
	return fmt.Sprintf("result %q, error %v, state %q", o.result, o.err, o.state)
}

// each returns what is wrong with a call, and the operations that failed in it, with
// their numbers. start prepares a trial on new data.
func each(start func() trial) (problems, hits []string) {
	idle := start()
	before, err := idle.stateText()
	if err != nil {
		return []string{fmt.Sprintf("the state before the call: %v", err)}, nil
	}
	clean := start()
	clean.driver.Break(Fault{})
	want := clean.try()
	if want.err != nil {
		return []string{fmt.Sprintf("without a fault: %v", want.err)}, nil
	}
	counts := map[Operation]int{}
	writes := slices.DeleteFunc([]Operation{CreateStore, UpdateStore, DeleteStore, Append, Trim}, func(o Operation) bool { return slices.Contains(clean.Optional, o) })
	for _, fault := range []Fault{{}, {Lasting: true}, {After: true, Only: writes}} {
		fault.Err = clean.Err
		for fault.Number = 1; ; fault.Number++ {
			x := start()
			hit, problem := x.tryBroken(fault, before, want)
			if problem != "" {
				problems = append(problems, problem)
			}
			if hit == "" {
				break
			}
			counts[hit]++
			if fault.Number == operationsMax {
				problems = append(problems, fmt.Sprintf("the call has more than %d operations", operationsMax))
				break
			}
		}
	}
	for o, n := range counts {
		hits = append(hits, fmt.Sprintf("%s (%d)", o, n))
	}
	slices.Sort(hits)
	if len(hits) == 0 {
		problems = append(problems, "the call uses no operation of the driver")
	}
	return problems, hits
}

// stateText returns the state, or "" without State.
func (x *trial) stateText() (string, error) {
	if x.State == nil {
		return "", nil
	}
	return x.State()
}

// try makes the call and returns its outcome. err is the error of the call, or that
// of State.
func (x *trial) try() outcome {
	o := outcome{}
	if o.result, o.err = x.Call(); o.err == nil {
		o.state, o.err = x.stateText()
	}
	return o
}

// tryBroken makes the call with a fault. It returns the first operation that failed,
// and what is wrong, or "".
func (x *trial) tryBroken(f Fault, before string, want outcome) (hit Operation, problem string) {
	x.driver.Break(f)
	result, err := x.Call()
	hit, _ = x.driver.Mend()
	wrote := x.driver.Wrote()
	if problem = x.judge(f, hit, result, err, wrote, before, want); problem == "" {
		return hit, ""
	}
	how := "once"
	if f.Lasting {
		how = "and all later operations"
	}
	if f.After {
		how = "after the change"
	}
	return hit, fmt.Sprintf("operation %d (%s) fails %s: %s", f.Number, hit, how, problem)
}

// judge returns what is wrong with the result and the error of a call whose operation
// hit failed, or "".
func (x *trial) judge(f Fault, hit Operation, result string, err error, wrote bool, before string, want outcome) string {
	switch {
	case err == nil && result != want.result:
		return fmt.Sprintf("the call returned a wrong result instead of an error:\n%s\nwithout a fault:\n%s", result, want.result)
	case err == nil && hit != "" && !slices.Contains(x.Optional, hit) && !(f.After && hit.Writes()):
		return fmt.Sprintf("the call returned no error; it returned:\n%s", result)
	case err != nil && hit == "":
		return fmt.Sprintf("no operation failed, but the call did: %v", err)
	}
	state, failure := x.stateText()
	switch {
	case failure != nil:
		return fmt.Sprintf("the state afterwards: %v", failure)
	case err == nil && state != want.state:
		return fmt.Sprintf("the call succeeded, but the state is\n%s\nexpected\n%s", state, want.state)
	case err != nil && state != before && !wrote:
		return fmt.Sprintf("the call changed nothing in the storage, but the state is\n%s\nexpected\n%s", state, before)
	case err != nil && state != before && state != want.state && !x.InSteps:
		return fmt.Sprintf("the state is\n%s\nexpected\n%s\nor\n%s", state, before, want.state)
	case err == nil || wrote:
		return ""
	}
	if again := x.try(); again.String() != want.String() {
		return fmt.Sprintf("the call was repeated without a fault; got\n%v\nexpected\n%v", again, want)
	}
	return ""
}
