package geo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict compares how all deployments take one step of one factor: from one cell to another
// one that differs in nothing else.
type Verdict struct {
	// Factor and Step name what changes, and Rule is when that is good if also at most
	// [LambdaMax] of the iterations of a scenario fail.
	Factor, Step, Rule string
	// Sides are the deployments in the order of [VerdictColumns].
	Sides []Side
}

// Side is how one deployment takes a step.
type Side struct {
	Column Column
	// Played is true if both cells of the step were played, and Good if the rule holds.
	Played, Good bool
	// Text has the figures, or why there are none.
	Text string
	// Mark is that of the cell that can be trusted less.
	Mark Mark
}

// String returns the side in a few words, with a star unless both cells were measured.
func (s Side) String() string {
	if !s.Played {
		return s.Text
	}
	star := ""
	if s.Mark != Measured {
		star = " *"
	}
	if s.Good {
		return "good: " + s.Text + star
	}
	return "bad: " + s.Text + star
}

// VerdictColumns are the deployments of verdicts. Those on the same database are beside each
// other.
func VerdictColumns() []Column {
	return []Column{{Ostiary, MariaDB, false}, {Keystone, MariaDB, false}, {Ostiary, Galera, false}, {Keystone, Galera, false}, {Ostiary, PostgreSQL, false}, {Ostiary, Raft, false}}
}

// The bounds of the rules.
const (
	// LambdaMax is the failure rate up to which a step may be good.
	LambdaMax = 0.01
	// readGrowth is how many times longer a read may take far away, and readSlack is added
	// to it: what a processor needs to begin a thread.
	readGrowth = 1.1
	readSlack  = 5 * time.Millisecond
	// queueGrowth is how many times longer an action may take for each client or instance
	// more that shares the processors.
	queueGrowth = 1.5
	// tripsMax is how many more round trips a write far away may take: one, the least that a
	// durable write elsewhere takes, and a little for the measurement.
	tripsMax = 1.05
	// groupsTrip is the shortest round trip between groups of a cell with locality.
	groupsTrip = 150 * time.Millisecond
)

// times are what a verdict compares of a record.
type times struct{ reads, writes, lambda float64 }

// rule is one row of verdicts.
type rule struct {
	factor, step, text string
	from, to           func(*Cell) // change the cell with 9 instances, no delay and low load
	local              bool        // of Ostiary with --acknowledge local
	judge              func(before, after times) (good bool, text string)
}

func near(*Cell) {}
func high(c *Cell) {
	c.High = true
}
func three(c *Cell)   { c.Instances, c.High = 3, true }
func most(c *Cell)    { c.Instances, c.High = 45, true }
func far(c *Cell)     { c.Delay = 150 }
func farHigh(c *Cell) { c.Delay, c.High = 150, true }
func groups(c *Cell)  { c.Delay = Hierarchical }

// rules are the rules of verdicts, in the order of the page.
func rules() []rule {
	localText := fmt.Sprintf("reads as for delay, and writes take less than %d ms more: half of the shortest round trip between groups", groupsTrip.Milliseconds()/2)
	queue := func(more float64) string {
		return fmt.Sprintf("reads and writes take at most %g times as long: %g for each of %.0f times the clients on the same processors", queueGrowth*more, queueGrowth, more)
	}
	return []rule{
		{"delay, reads", "0 → 300 ms round trip; 9 instances, low load", fmt.Sprintf("the median is at most %g times that without delay, and %d ms", readGrowth, readSlack.Milliseconds()), near, far, false, readsFar},
		{"delay, writes", "0 → 300 ms round trip; 9 instances, low load", "at most one round trip more: the least that a durable write elsewhere takes", near, far, false, func(a, b times) (bool, string) {
			trips := (b.writes - a.writes) / 0.3
			return trips <= tripsMax, fmt.Sprintf("%s, + %.1f round trips", step(a.writes, b.writes), trips)
		}},
		{"locality", "one place → three groups, 150 and 300 ms apart, the copies of the data and the client in one; 9 instances, low load", localText, near, groups, false, withinGroup},
		{"locality, local", "the same with --acknowledge local: a write is answered before other instances show it", localText, near, groups, true, withinGroup},
		{"load, far", "low → high, 9 times the clients; 300 ms round trip, 9 instances", fmt.Sprintf("reads as for delay, and writes take at most %g times as long: the network is not busier", queueGrowth), far, farHigh, false, func(a, b times) (bool, string) {
			ok, text := readsFar(a, b)
			return ok && b.writes <= queueGrowth*a.writes, both(text, step(a.writes, b.writes))
		}},
		{"load, near", "low → high, 9 times the clients; no delay, 9 instances", queue(9), near, high, false, queued(9)},
		{"scale", "3 → 9 instances and their clients; high load, no delay", queue(3), three, high, false, queued(3)},
		{"scale", "9 → 45 instances and their clients; high load, no delay", queue(5), high, most, false, queued(5)},
	}
}

func readsFar(a, b times) (bool, string) {
	return b.reads <= readGrowth*a.reads+readSlack.Seconds(), step(a.reads, b.reads)
}

func withinGroup(a, b times) (bool, string) {
	ok, text := readsFar(a, b)
	return ok && b.writes-a.writes < groupsTrip.Seconds()/2, both(text, step(a.writes, b.writes))
}

func queued(more float64) func(a, b times) (bool, string) {
	return func(a, b times) (bool, string) {
		return b.reads <= queueGrowth*more*a.reads && b.writes <= queueGrowth*more*a.writes, both(step(a.reads, b.reads), step(a.writes, b.writes))
	}
}

func both(reads, writes string) string { return "reads " + reads + ", writes " + writes }

// step returns two times in milliseconds.
func step(from, to float64) string { return Millis(from) + " → " + Millis(to) + " ms" }

// Millis returns seconds in milliseconds, with a digit after the point below 10.
func Millis(seconds float64) string {
	if ms := seconds * 1000; ms >= 9.95 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.1f", seconds*1000)
}

// reading reports whether an action reads.
func reading(action string) bool {
	return strings.HasPrefix(action, "get_") || strings.HasPrefix(action, "list_") || action == "validate_token"
}

// Writing reports whether an action writes. A login, fetch_token, neither reads nor writes.
func Writing(action string) bool { return !reading(action) && action != "fetch_token" }

// Medians returns the medians of the actions that read and of those that write, each the
// mean over all scenarios, and the largest failure rate of a scenario. The login that the
// first action of an iteration contains counts as a part of it; fetch_token, which is one,
// counts for neither.
func (r *Record) Medians() (reads, writes, lambda float64) {
	var all [2][]float64
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		lambda = max(lambda, s.Lambda())
		f := FrameOf(s)
		for n, action := range f.Actions {
			if reading(action) {
				all[0] = append(all[0], Quantile(f.Column(n), 0.5))
			} else if Writing(action) {
				all[1] = append(all[1], Quantile(f.Column(n), 0.5))
			}
		}
	}
	return Mean(all[0]), Mean(all[1]), lambda
}

// Verdicts returns a verdict for each rule. Each of them compares the same step on all
// deployments.
func Verdicts(all []Record) (out []Verdict) {
	for _, r := range rules() {
		v := Verdict{Factor: r.factor, Step: r.step, Rule: r.text}
		for _, c := range VerdictColumns() {
			v.Sides = append(v.Sides, r.side(all, c))
		}
		out = append(out, v)
	}
	return out
}

// side judges a deployment.
func (r *rule) side(all []Record, c Column) Side {
	find := func(c Column, change func(*Cell)) *Record {
		cell := Cell{Column: c, Instances: 9, Zones: zonesSame}
		change(&cell)
		cell.Rounds = rounds(cell.Instances, cell.High)
		if at := slices.IndexFunc(all, func(r Record) bool { return r.Cell == cell }); at >= 0 {
			return &all[at]
		}
		return nil
	}
	if r.local && c.System == Keystone {
		return Side{Column: c, Text: "no partner: it has no such setting"}
	}
	from := find(c, r.from) // without delay --acknowledge makes no difference
	if c.Local = r.local; c.Local && c.Store == PostgreSQL {
		return Side{Column: c, Text: notPlayed}
	}
	to := find(c, r.to)
	switch {
	case from == nil && to == nil:
		return Side{Column: c, Text: notPlayed}
	case from == nil:
		return Side{Column: c, Text: "no partner: the first cell was not played"}
	case to == nil:
		return Side{Column: c, Text: "no partner: the second cell was not played"}
	}
	s := Side{Column: c, Played: true, Mark: from.Mark}
	if to.Mark != Measured {
		s.Mark = to.Mark
	}
	if from.Mark == Failed || to.Mark == Failed {
		s.Text = "the cell failed"
		return s
	}
	before, after := from.times(), to.times()
	s.Good, s.Text = r.judge(before, after)
	if s.Good = s.Good && after.lambda <= LambdaMax; after.lambda > 0 {
		s.Text += fmt.Sprintf(", λ %.2g", after.lambda)
	}
	return s
}

// notPlayed is the text of a side of which neither cell was played.
const notPlayed = "not played"

func (r *Record) times() (t times) {
	t.reads, t.writes, t.lambda = r.Medians()
	return t
}

// Summary counts the verdicts of steps that both systems have played on the same database.
func Summary(all []Verdict) (compared, ours, theirs int) {
	for _, v := range all {
		for i := 0; i+1 < len(v.Sides); i++ {
			a, b := v.Sides[i], v.Sides[i+1]
			if a.Column.Store != b.Column.Store || !a.Played || !b.Played {
				continue
			}
			compared, ours, theirs = compared+1, ours+number(a.Good), theirs+number(b.Good)
		}
	}
	return compared, ours, theirs
}
