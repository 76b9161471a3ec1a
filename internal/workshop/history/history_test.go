package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// entry returns an entry that adds or removes the tuple of a document, with a mark.
func entry(r storage.Revision, mark string, kind storage.ChangeKind, document int) *storage.Entry {
	return &storage.Entry{Revision: r, Origin: storage.Origin{Reason: mark}, Changes: []storage.Change{{Kind: kind, Tuple: DocumentTuple(document)}}}
}

// good returns a log and calls that keep every promise: a write through each of two
// processes, a write that is refused, one with a precondition, one whose outcome is open,
// reads, and a write that has nothing to do.
func good(t *testing.T) (*Past, []*Call) {
	t.Helper()
	p := &Past{}
	for _, e := range []*storage.Entry{
		entry(1, "a", storage.TupleAdd, 1), entry(2, "b", storage.TupleAdd, 2), entry(3, "c", storage.TupleRemove, 1), entry(4, "d", storage.TupleAdd, 1),
	} {
		if err := p.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	one, two := &Process{Number: 1}, &Process{Number: 2}
	calls := []*Call{
		{Kind: Add, Thing: 1, Process: one, Mark: "a", Revision: 1},
		{Kind: Newest, Thing: 1, Process: two, Revision: 1, There: true},
		{Kind: Add, Thing: 1, Process: two, Mark: "x", Outcome: Refused, Err: authz.ErrTupleExists},
		{Kind: Add, Thing: 2, Process: two, Mark: "b", Revision: 2, Needs: true, Need: 1, NeedThere: true},
		{Kind: Least, Thing: 2, Process: one, Revision: 2, After: 2, There: true},
		{Kind: Remove, Thing: 1, Process: one, Mark: "c", Revision: 3, Follows: true, After: 2},
		{Kind: Full, Thing: 1, Process: two, Revision: 3},
		{Kind: Remove, Thing: 1, Process: two, Mark: "y", Outcome: Failed, Err: authz.ErrNoHolder},
		{Kind: Add, Thing: 1, Process: two, Mark: "d", Outcome: Open, Err: authz.ErrUncertain},
		{Kind: Local, Thing: 1, Process: one, Revision: 3},
		{Kind: Claim, Thing: 7, Process: one},
		{Kind: Release, Thing: 7, Process: two},
		{Kind: Add, Thing: 2, Process: one, Mark: "z", Ignores: true, Revision: 3},
	}
	for i, c := range calls {
		c.Began, c.Ended = int64(2*i), int64(2*i+1)
	}
	return p, calls
}

// TestJudge breaks each promise in a history that keeps all of them.
func TestJudge(t *testing.T) {
	t.Parallel()
	p, calls := good(t)
	Bound(calls, p.Last())
	if broken := Judge(p, calls, true); broken != nil {
		t.Fatal(errors.Join(broken...))
	}
	for _, broken := range []struct {
		want   string
		change func(c []*Call)
	}{
		{"an acknowledged write is not at its revision", func(c []*Call) { c[0].Mark = "lost" }},
		{"more often than attempts can have made it", func(c []*Call) { c[7].Mark = "d"; c[8].Outcome = Failed }},
		{"from before or after the call", func(c []*Call) { c[3].Before = 2 }},
		{"does not follow its token", func(c []*Call) { c[5].After = 1 }},
		{"without its precondition", func(c []*Call) { c[3].NeedThere = false }},
		{"no state during the call refuses", func(c []*Call) { c[2].Thing = 2; c[2].Until = 1 }},
		{"no state during the call refuses", func(c []*Call) { c[2].Err = authz.ErrTupleMissing }},
		{"a revision that the log has not", func(c []*Call) { c[6].Until = 2 }},
		{"not the answer of its revision", func(c []*Call) { c[6].There = true }},
		{"what was durable before: revision 3", func(c []*Call) { c[6].Revision, c[6].There, c[6].Before = 2, true, 3 }},
		{"the revision of its token: 2", func(c []*Call) { c[4].Revision, c[4].There = 1, false }},
		{"before the node started", func(c []*Call) { c[9].Process.Began = 4 }},
		{"shown or acknowledged before: revision 1", func(c []*Call) { c[1].Revision, c[1].There = 0, false }},
		{"shown or acknowledged before: revision 3", func(c []*Call) { c[9].Revision, c[9].There = 2, true }},
		{"not linearizable: the tuple of document 1", func(c []*Call) { c[6].There = true }},
		{"not linearizable: the alias 7", func(c []*Call) { c[11].Kind = Claim }},
		{"had nothing to do has a revision from before or after", func(c []*Call) { c[12].Revision = 2 }},
		{"had nothing to do, and its revision is not as it wants it", func(c []*Call) { c[12].Kind = Remove }},
		{"not linearizable: the tuple of document 2", func(c []*Call) { c[12].Kind = Remove }},
		{"had nothing to do does not have its token's revision", func(c []*Call) { c[12].Follows, c[12].After = true, 2 }},
		{"had nothing to do without its precondition", func(c []*Call) { c[12].Needs, c[12].Need, c[12].NeedThere = true, 1, true }},
		{"an acknowledged write is not at its revision", func(c []*Call) { c[12].Ignores = false }},
	} {
		p, calls := good(t)
		Bound(calls, p.Last())
		broken.change(calls)
		got := Judge(p, calls, true)
		if !slices.ContainsFunc(got, func(err error) bool { return strings.Contains(err.Error(), broken.want) }) {
			t.Errorf("want %q, got: %v", broken.want, got)
		}
	}
}

// TestJudgeAlone requires that a read on another node may be older than a write that was
// acknowledged, if the nodes are not coordinated.
func TestJudgeAlone(t *testing.T) {
	t.Parallel()
	p, calls := good(t)
	Bound(calls, p.Last())
	calls[1].Revision, calls[1].There = 0, false
	if broken := Judge(p, calls, false); broken != nil {
		t.Error(errors.Join(broken...))
	}
}

// TestBound requires the bounds that follow from the calls: what was answered before,
// and what a later write is after.
func TestBound(t *testing.T) {
	t.Parallel()
	p, calls := good(t)
	Bound(calls, p.Last())
	var got []string
	for _, c := range calls {
		got = append(got, fmt.Sprintf("%d-%d", c.Before, c.Until))
	}
	want := []string{"0-1", "1-1", "1-1", "1-2", "2-2", "2-4", "3-4", "3-4", "3-4", "3-4", "3-4", "3-4", "3-4"}
	if !slices.Equal(got, want) {
		t.Errorf("bounds %v, want %v", got, want)
	}
}

// TestPast requires that a log that skips an entry, or whose entry does not fit the state
// before it, is refused.
func TestPast(t *testing.T) {
	t.Parallel()
	for _, e := range []*storage.Entry{entry(2, "", storage.TupleAdd, 1), entry(5, "", storage.TupleAdd, 2), entry(5, "", storage.TupleRemove, 9)} {
		p := &Past{}
		if e.Revision == 5 {
			p, _ = good(t)
		}
		if err := p.Add(e); err == nil {
			t.Errorf("entry %d: no error", e.Revision)
		}
	}
}
