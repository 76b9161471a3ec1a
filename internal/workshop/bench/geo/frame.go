package geo

import (
	"math"
	"slices"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// Frame is a table of times of one scenario, as the study makes it: a row for each
// iteration that succeeded, and a column for each action.
type Frame struct {
	// Actions are the names of the columns, without "keystone_v3.", in the order of play.
	Actions []string
	// Rows are times in seconds, by action. NaN is a time that was dropped.
	Rows [][]float64
	// Durations are the durations of the iterations in seconds, with the logins outside
	// of actions. [Frame.Dropped] keeps them all.
	Durations []float64
	// Lambda is the failure rate.
	Lambda float64
}

// actionPrefix is the beginning of Rally's names of actions.
const actionPrefix = "keystone_v3."

// FrameOf returns the frame of a scenario. Actions within others are no columns.
func FrameOf(s *Scenario) Frame {
	f := Frame{Lambda: s.Lambda()}
	for _, i := range s.Result.Iterations {
		if len(i.Error) > 0 {
			continue
		}
		for _, a := range i.Actions {
			if name := a.Name[len(actionPrefix):]; !slices.Contains(f.Actions, name) {
				f.Actions = append(f.Actions, name)
			}
		}
	}
	for _, i := range s.Result.Iterations {
		if len(i.Error) > 0 {
			continue
		}
		row := make([]float64, len(f.Actions))
		for _, a := range i.Actions {
			row[slices.Index(f.Actions, a.Name[len(actionPrefix):])] += a.Finished - a.Started
		}
		f.Rows, f.Durations = append(f.Rows, row), append(f.Durations, i.Duration)
	}
	return f
}

// Percentile is the part of the times of an action that the study keeps.
const Percentile = 0.95

// Dropped returns the frame without the times of each action that are above the 95th
// percentile of that action.
func (f Frame) Dropped() Frame {
	out := f
	out.Rows = make([][]float64, len(f.Rows))
	for i, row := range f.Rows {
		out.Rows[i] = slices.Clone(row)
	}
	for n := range f.Actions {
		bound := Quantile(f.Column(n), Percentile)
		for _, row := range out.Rows {
			if row[n] > bound {
				row[n] = math.NaN()
			}
		}
	}
	return out
}

// Column returns the times of an action, without those that were dropped.
func (f Frame) Column(n int) (out []float64) {
	for _, row := range f.Rows {
		if !math.IsNaN(row[n]) {
			out = append(out, row[n])
		}
	}
	return out
}

// Totals returns the sums of the rows from which nothing was dropped.
func (f Frame) Totals() (out []float64) {
	for _, row := range f.Rows {
		sum := 0.0
		for _, v := range row {
			sum += v
		}
		if !math.IsNaN(sum) {
			out = append(out, sum)
		}
	}
	return out
}

// Means returns the mean of each action.
func (f Frame) Means() []float64 {
	out := make([]float64, len(f.Actions))
	for n := range f.Actions {
		out[n] = Mean(f.Column(n))
	}
	return out
}

// Mean returns the mean of values, 0 for none.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Deviation returns the sample standard deviation of values, 0 for fewer than two.
func Deviation(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	mean, sum := Mean(values), 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// Quantile returns the value below which a part q of the values is, between two values
// in proportion, as pandas does. It returns 0 for no values.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// Names are the names of Rally's seven scenarios in the order of play.
func Names() (all []string) {
	for _, w := range bench.RallySeven() {
		all = append(all, w.Scenario)
	}
	return all
}

// Find returns the result of a scenario in a record, or nil.
func (r *Record) Find(scenario string) *Scenario {
	for i := range r.Scenarios {
		if r.Scenarios[i].Result.Workload.Scenario == scenario {
			return &r.Scenarios[i]
		}
	}
	return nil
}
