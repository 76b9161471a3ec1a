package geo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict is how a column takes a change of one of the study's parameters.
type Verdict struct {
	// Column is the deployment, or for a quoted verdict the database of the study.
	Column string
	// Quoted is true if the study printed it.
	Quoted bool
	// Scale, Delay and Locality are the verdicts; "" if no cells were played for them.
	Scale, Delay, Locality string
}

// The rules of verdicts, in the words of the page.
const (
	// LambdaMax is the failure rate up to which a column may be good.
	LambdaMax = 0.01
	// ReadGrowth is how much longer a read may take far away than with all in one place.
	ReadGrowth = 1.1
	// readSlack is added to it: what a processor needs to begin a thread.
	readSlack = 5 * time.Millisecond
	// ScaleGrowth is how much longer a scenario may take with more instances under high
	// load, for each instance that shares the processors.
	ScaleGrowth = 1.5
)

// Rules explains the verdicts.
var Rules = []string{
	fmt.Sprintf("Scale: good if at the most instances, under high load, at most %g %% of the iterations fail, and the mean of the sum of actions grows at most %g times as much as the number of instances that share this machine's processors. The study had a machine for each instance, so it compares the means themselves.", LambdaMax*100, ScaleGrowth),
	fmt.Sprintf("Delay: at the largest delay, under low load. Reads (get, list, validate) are good if their median is at most %g times that without delay plus %s. Writes are good if none fails and they take at most one round trip more than without delay: the least that a durable write elsewhere can take. Otherwise the number of round trips is given.", ReadGrowth, readSlack),
	"Locality: the same with instances in three groups, and all copies of the data in the group of the client: good if writes take less than half of the shortest round trip between groups more than without delay.",
}

// reading reports whether an action reads.
func reading(action string) bool {
	return strings.HasPrefix(action, "get_") || strings.HasPrefix(action, "list_") || action == "validate_token"
}

// split returns the medians of the actions that read and of those that write, each the
// mean over all scenarios. Logins are in the first action of an iteration, which counts
// for neither unless the action itself is one.
func (r *Record) split() (reads, writes, lambda float64) {
	var all [2][]float64
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		lambda = max(lambda, s.Lambda())
		f := FrameOf(s)
		for n, action := range f.Actions {
			if reading(action) {
				all[0] = append(all[0], Quantile(f.Column(n), 0.5))
			} else if action != "fetch_token" {
				all[1] = append(all[1], Quantile(f.Column(n), 0.5))
			}
		}
	}
	return Mean(all[0]), Mean(all[1]), lambda
}

// total returns the mean over the scenarios of the mean sum of actions.
func (r *Record) total() float64 {
	var all []float64
	for i := range r.Scenarios {
		all = append(all, Mean(FrameOf(&r.Scenarios[i]).Totals()))
	}
	return Mean(all)
}

// Verdicts returns the verdicts of all columns that have records, and those of the
// study.
func Verdicts(all []Record) (out []Verdict) {
	for _, c := range Columns() {
		var own []Record
		for _, r := range all {
			if r.Cell.Column == c {
				own = append(own, r)
			}
		}
		if len(own) > 0 {
			out = append(out, Verdict{Column: c.String(), Scale: scale(own), Delay: far(own, all), Locality: local(own)})
		}
	}
	return append(out,
		Verdict{"MariaDB, the study", true, "😺 (λ 0.98 at 45 under high load)", "😺", "😺"},
		Verdict{"Galera, the study", true, "😾", "😺 reads, 😾 writes", "😺 reads, 😾 writes"},
		Verdict{"CockroachDB, the study", true, "😺", "😾", "😺"})
}

// pick returns the record with the largest value of by among those that match, or nil.
func pick(all []Record, match func(Cell) bool, by func(Cell) int) (best *Record) {
	for i := range all {
		if match(all[i].Cell) && (best == nil || by(all[i].Cell) > by(best.Cell)) {
			best = &all[i]
		}
	}
	return best
}

func good(ok bool, text string) string {
	if ok {
		return "good: " + text
	}
	return "bad: " + text
}

func scale(all []Record) string {
	high := func(c Cell) bool { return c.High && c.Delay == 0 }
	most := pick(all, high, func(c Cell) int { return c.Instances })
	least := pick(all, high, func(c Cell) int { return -c.Instances })
	if most == nil || least == nil || most.Cell.Instances == least.Cell.Instances {
		return ""
	}
	_, _, lambda := most.split()
	if before := least.total(); before > 0 && most.total() > 0 {
		growth, more := most.total()/before, float64(most.Cell.Instances)/float64(least.Cell.Instances)
		return good(lambda <= LambdaMax && growth <= ScaleGrowth*more, fmt.Sprintf("λ %.2f, %.1f × longer with %.0f × the instances", lambda, growth, more))
	}
	return good(false, fmt.Sprintf("λ %.2f", lambda))
}

// far compares the record with the largest delay with the one of the same cell without.
func far(own, all []Record) string {
	most := pick(own, func(c Cell) bool { return !c.High && c.Delay != Hierarchical && c.Delay > 0 }, func(c Cell) int { return c.Delay*100 + c.Instances })
	if most == nil {
		return ""
	}
	base := near(all, most.Cell)
	if base == nil {
		return ""
	}
	trip := 2 * float64(most.Cell.Delay) / 1000
	reads, writes, lambda := most.split()
	readsBefore, writesBefore, _ := base.split()
	trips := (writes - writesBefore) / trip
	r := good(lambda <= LambdaMax && reads <= ReadGrowth*readsBefore+readSlack.Seconds(), fmt.Sprintf("reads %.0f → %.0f ms", readsBefore*1000, reads*1000))
	w := good(lambda <= LambdaMax && trips <= 1.05, fmt.Sprintf("writes + %.1f round trips", trips))
	return fmt.Sprintf("%s; %s; λ %.2f at %d ms", r, w, lambda, most.Cell.Delay)
}

// near returns the record without delay that a cell is compared with: the same number of
// instances, and of the column with the other --acknowledge if its own was not played.
func near(all []Record, c Cell) *Record {
	return pick(all, func(x Cell) bool {
		return x.System == c.System && x.Store == c.Store && x.Delay == 0 && !x.High && x.Instances == c.Instances
	}, func(x Cell) int { return number(x.Local == c.Local) })
}

func local(all []Record) string {
	at := slices.IndexFunc(all, func(r Record) bool { return r.Cell.Delay == Hierarchical && r.Cell.Zones == zonesSame && !r.Cell.High })
	if at < 0 {
		return ""
	}
	reads, writes, lambda := all[at].split()
	const shortest = 0.150
	return good(lambda <= LambdaMax && writes < shortest/2, fmt.Sprintf("reads %.0f ms, writes %.0f ms, λ %.2f", reads*1000, writes*1000, lambda))
}
