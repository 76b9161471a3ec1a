package function

import (
	"cmp"

	"github.com/ostiary/ostiary/policy/value"
)

// dates adds the arithmetic of dates and times (appendix A.3.7) and the
// functions on ranges of times (A.3.8).
func (b *builder) dates() {
	b.moved(value.DateTime, value.DayTimeDuration, v3, v1)
	b.moved(value.DateTime, value.YearMonthDuration, v3, v1)
	b.moved(value.Date, value.YearMonthDuration, v3, v1)
	b.moved(value.Time, value.DayTimeDuration, v3)
	three := Signature{Params: []Shape{one(value.Time), one(value.Time), one(value.Time)}, Result: one(value.Boolean)}
	b.add(&Function{ID: v2 + "time-in-range", Signature: three, Call: timeInRange})
	b.add(&Function{ID: v3 + "time-in-recurring-range", Signature: three, Call: timeInRecurringRange})
	b.test(v3+"recurring-time-equal", value.Time, value.Time, func(env *Env, x, y value.Value) (bool, error) {
		return compareClocks(x.InZone(env.zone()), y.InZone(env.zone())) == 0, nil
	})
}

// moved adds the functions that add a duration to a date or time, and subtract
// it, in each namespace.
func (b *builder) moved(t, duration value.Type, namespaces ...string) {
	for _, namespace := range namespaces {
		for verb, negate := range map[string]bool{"-add-": false, "-subtract-": true} {
			b.add(&Function{
				ID:        namespace + t.String() + verb + duration.String(),
				Signature: Signature{Params: []Shape{one(t), one(duration)}, Result: one(t)},
				Call: func(_ *Env, args []Operand) (Operand, error) {
					v, err := args[0].Value.AddDuration(args[1].Value, negate)
					if err != nil {
						return Operand{}, processing("%s %s %s: %v", cut(args[0].Value), verb[1:len(verb)-1], cut(args[1].Value), err)
					}
					return Single(v), nil
				},
			})
		}
	}
}

// timeInRange reports whether a time is between two others, which are included.
// If the end is before the beginning, the range passes midnight. A time without
// a zone is in the zone of the request; an end without a zone is in the zone of
// the time.
func timeInRange(env *Env, args []Operand) (Operand, error) {
	at := args[0].Value.InZone(env.zone())
	begin, end := args[1].Value.InZoneOf(at), args[2].Value.InZoneOf(at)
	after := func(x, y value.Value) bool {
		c, _ := value.Compare(x, y, nil)
		return c >= 0
	}
	if after(end, begin) {
		return boolean(after(at, begin) && after(end, at)), nil
	}
	return boolean(after(at, begin) || after(end, at)), nil
}

// timeInRecurringRange is like timeInRange, but compares what clocks in UTC
// show: 23:30:00-01:00 is 00:30:00Z. AT&T's engine defines it, and ONAP's guards
// use it.
func timeInRecurringRange(env *Env, args []Operand) (Operand, error) {
	at := args[0].Value.InZone(env.zone())
	begin, end := args[1].Value.InZoneOf(at), args[2].Value.InZoneOf(at)
	if compareClocks(end, begin) >= 0 {
		return boolean(compareClocks(at, begin) >= 0 && compareClocks(at, end) <= 0), nil
	}
	return boolean(compareClocks(at, begin) >= 0 || compareClocks(at, end) <= 0), nil
}

// compareClocks compares what clocks in UTC show at two times of day.
func compareClocks(x, y value.Value) int {
	a, aNanos := x.SecondOfDay()
	b, bNanos := y.SecondOfDay()
	return cmp.Or(cmp.Compare(a, b), cmp.Compare(aNanos, bNanos))
}
