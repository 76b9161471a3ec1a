package pdp

import (
	"time"

	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

// functionInRecurringRange is the function that compares a time of day with a
// range, in UTC (XACML 3.0 Time Extensions 1.0).
const functionInRecurringRange = functions3 + "time-in-recurring-range"

// inRecurringRange returns the function: whether the first time is between the
// second and the third, both inclusive. A range whose end is before its begin
// contains midnight.
func inRecurringRange() *function.Function {
	t := function.Shape{Type: value.Time}
	return &function.Function{ID: functionInRecurringRange,
		Signature: function.Signature{Params: []function.Shape{t, t, t}, Result: function.Shape{Type: value.Boolean}},
		Call: func(env *function.Env, args []function.Operand) (function.Operand, error) {
			zone := time.UTC
			if env != nil && env.Zone != nil {
				zone = env.Zone
			}
			now, begin, end := ofDay(args[0].Value, zone), ofDay(args[1].Value, zone), ofDay(args[2].Value, zone)
			in := begin <= now && now <= end
			if end < begin {
				in = begin <= now || now <= end
			}
			return function.Single(value.NewBoolean(in)), nil
		}}
}

// ofDay returns the time of day in UTC, in nanoseconds.
func ofDay(v value.Value, zone *time.Location) int64 {
	const day = 24 * int64(time.Hour)
	seconds, nanos := v.InZone(zone).SecondOfDay()
	return ((seconds*int64(time.Second)+int64(nanos))%day + day) % day
}
