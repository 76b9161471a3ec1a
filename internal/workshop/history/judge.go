package history

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Judge returns the promises that the calls break. coordinated means that a read with the
// default consistency has every write that any node acknowledged before.
func Judge(p *Past, calls []*Call, coordinated bool) []error {
	j := judge{past: p, calls: calls, coordinated: coordinated, byMark: map[string][]*Call{}}
	for _, c := range calls {
		if c.Mark != "" {
			j.byMark[c.Mark] = append(j.byMark[c.Mark], c)
		}
	}
	for _, c := range calls {
		switch {
		case c.Kind.IsWrite():
			j.write(c)
		case c.Outcome != Made:
		case c.Kind == ReadSecret:
			j.secret(c)
		case c.Kind.IsRead():
			j.read(c)
		}
	}
	j.order()
	j.linear()
	return j.broken
}

type judge struct {
	past        *Past
	calls       []*Call
	coordinated bool
	byMark      map[string][]*Call // the calls of one write
	broken      []error
}

func (j *judge) fail(format string, args ...any) {
	j.broken = append(j.broken, fmt.Errorf(format, args...))
}

// write checks a write: the log has it once if it was made, and never if it was not; it
// follows what was in the log when it began; and the state before it allows it.
func (j *judge) write(c *Call) {
	p := j.past
	sent, possible, first := 0, 0, j.first(c)
	for _, other := range j.byMark[c.Mark] {
		sent++
		if other.Outcome == Made || other.Outcome == Open {
			possible++
		}
	}
	found := p.marks[c.Mark]
	if len(found) > possible {
		j.fail("the log has a write more often than attempts can have made it: at the revisions %d, by %d of %d attempts: %s", found, possible, sent, c)
	}
	switch c.Outcome {
	case Made:
		if j.hadNothing(c) {
			j.nothing(c)
			return
		}
		if !slices.Contains(found, c.Revision) {
			j.fail("an acknowledged write is not at its revision of the log: found at %d: %s", found, c)
			return
		}
		if c.Revision <= first.Before || c.Revision > c.Until {
			j.fail("a write has a revision from before or after the call: %s", c)
		}
		if c.Follows && c.Revision != c.After+1 {
			j.fail("a write does not follow its token of revision %d: %s", c.After, c)
		}
		if c.Needs && p.Document(c.Need, c.Revision-1) != c.NeedThere {
			j.fail("a write was made without its precondition: %s", c)
		}
	case Refused:
		if !j.mayRefuse(c) {
			j.fail("a write was refused that no state during the call refuses: %s", c)
		}
	}
}

// first returns the first attempt of a write.
func (j *judge) first(c *Call) *Call {
	first := c
	for _, other := range j.byMark[c.Mark] {
		if other.Began < first.Began {
			first = other
		}
	}
	return first
}

// hadNothing reports whether a write was answered as one that had nothing to do.
func (j *judge) hadNothing(c *Call) bool {
	return c.Ignores && c.Outcome == Made && !slices.Contains(j.past.marks[c.Mark], c.Revision)
}

// nothing checks a write that had nothing to do: a state during the call, or since the first
// attempt, was as it wants it.
func (j *judge) nothing(c *Call) {
	p := j.past
	switch {
	case c.Revision < j.first(c).Before || c.Revision > c.Until:
		j.fail("a write that had nothing to do has a revision from before or after the call: %s", c)
	case p.Document(c.Thing, c.Revision) != (c.Kind == Add):
		j.fail("a write had nothing to do, and its revision is not as it wants it: %s", c)
	case c.Follows && c.Revision != c.After:
		j.fail("a write that had nothing to do does not have its token's revision %d: %s", c.After, c)
	case c.Needs && p.Document(c.Need, c.Revision) != c.NeedThere:
		j.fail("a write had nothing to do without its precondition: %s", c)
	}
}

// mayRefuse reports whether a state during the call refuses the write with its error.
func (j *judge) mayRefuse(c *Call) bool {
	if c.Follows && !errors.Is(c.Err, authz.ErrTupleExists) && !errors.Is(c.Err, authz.ErrTupleMissing) && (c.Before != c.After || c.Until != c.After) {
		return true
	}
	for _, r := range j.past.changesBetween(c.Before, c.Until, c.Thing, c.Need) {
		switch {
		case errors.Is(c.Err, authz.ErrTupleExists):
			if j.past.Document(c.Thing, r) {
				return true
			}
		case errors.Is(c.Err, authz.ErrTupleMissing):
			if !j.past.Document(c.Thing, r) {
				return true
			}
		case c.Needs && j.past.Document(c.Need, r) != c.NeedThere:
			return true
		}
	}
	return false
}

// read checks a read of a tuple: it has the state of its revision, and the revision is
// as new as the consistency requires.
func (j *judge) read(c *Call) {
	switch {
	case c.Revision > c.Until:
		j.fail("a read has a revision that the log has not: %s", c)
	case j.past.Document(c.Thing, c.Revision) != c.There:
		j.fail("a read has not the answer of its revision: %t: %s", c.There, c)
	case c.Kind == Full && c.Revision < c.Before:
		j.fail("a fully consistent read does not have what was durable before: revision %d: %s", c.Before, c)
	case c.Kind == Least && c.Revision < c.After:
		j.fail("a read does not have the revision of its token: %d: %s", c.After, c)
	case c.Revision < c.Process.Began:
		j.fail("a read does not have what was durable before the node started: revision %d: %s", c.Process.Began, c)
	}
}

// secret checks that a secret is that of a revision that the copy had meanwhile.
func (j *judge) secret(c *Call) {
	for r := c.After; r <= c.Revision; r++ {
		if j.past.Secret(c.Thing, r) == c.Body {
			return
		}
	}
	j.fail("a secret is that of no revision of the copy: %q, from revision %d on: %s", c.Body, c.After, c)
}

// event is the beginning or the end of a call.
type event struct {
	at     int64
	call   *Call
	begins bool
}

// eventsOf returns the events of calls in their order.
func eventsOf(calls []*Call) []event {
	events := make([]event, 0, 2*len(calls))
	for _, c := range calls {
		events = append(events, event{c.Began, c, true}, event{c.Ended, c, false})
	}
	sort.Slice(events, func(a, b int) bool { return events[a].at < events[b].at })
	return events
}

// order checks that the reads of one process never go back, and that they have what the
// process has acknowledged; or what any process has, if the nodes are coordinated.
func (j *judge) order() {
	shown := map[*Process]storage.Revision{}
	by := map[*Process]*Call{}          // what has shown it
	acknowledged := storage.Revision(0) // by any node
	must := map[*Call]storage.Revision{}
	for _, e := range eventsOf(j.calls) {
		c := e.call
		switch {
		case c.Outcome != Made || !c.Kind.IsWrite() && !c.Kind.IsRead():
		case e.begins:
			must[c] = shown[c.Process]
			if j.coordinated && c.Kind == Newest {
				must[c] = max(must[c], acknowledged)
			}
		default:
			if c.Kind.IsRead() && c.Revision < must[c] {
				j.fail("a read does not have what was shown or acknowledged before: revision %d: %s; shown by %v (coordinated %t)", must[c], c, by[c.Process], j.coordinated)
			}
			if c.Kind.IsWrite() {
				acknowledged = max(acknowledged, c.Revision)
			}
			if c.Revision > shown[c.Process] {
				shown[c.Process], by[c.Process] = c.Revision, c
			}
			delete(must, c)
		}
	}
}
