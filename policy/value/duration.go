package value

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// durationDigitsMax bounds each number of a duration, so that the sum of its
// parts fits into an int64.
const durationDigitsMax = 12

// NewDayTimeDuration returns a dayTimeDuration. Both parts must have the same
// sign, and the nanoseconds must be less than a second.
func NewDayTimeDuration(seconds int64, nanos int32) Value {
	return Value{typ: DayTimeDuration, number: seconds, nanos: nanos}
}

// NewYearMonthDuration returns a yearMonthDuration.
func NewYearMonthDuration(months int64) Value { return Value{typ: YearMonthDuration, number: months} }

// part reads "12D" at the beginning of text, for the unit 'D', and returns the
// number and the rest. If text begins with no such part, it returns 0 and text.
func part(text string, unit byte) (n int64, rest string, err error) {
	rest = strings.TrimLeft(text, "0123456789")
	digits := strings.TrimLeft(text[:len(text)-len(rest)], "0")
	if len(rest) == len(text) || rest == "" || rest[0] != unit {
		return 0, text, nil
	}
	if len(digits) > durationDigitsMax {
		return 0, "", fmt.Errorf("expected numbers of at most %d digits (bound duration digits)", durationDigitsMax)
	}
	n, _ = strconv.ParseInt("0"+digits, 10, 64)
	return n, rest[1:], nil
}

// parts reads the parts with the units, in their order, and adds them multiplied
// by their weights. Parts that are missing are 0.
func parts(text, units string, weights ...int64) (sum int64, rest string, err error) {
	for i := range len(units) {
		var n int64
		if n, text, err = part(text, units[i]); err != nil {
			return 0, "", err
		}
		sum += n * weights[i]
	}
	return sum, text, nil
}

// parseDayTime reads an xs:dayTimeDuration, for example "-P1DT2H30M1.5S".
func parseDayTime(text string) (Value, error) {
	const example = "for example P1DT2H, PT30M, PT1.5S or -P1D"
	body, ok := strings.CutPrefix(strings.TrimPrefix(text, "-"), "P")
	if !ok || body == "" || strings.HasSuffix(body, "T") {
		return Value{}, explain(errForm, example)
	}
	seconds, rest, err := parts(body, "D", secondsPerDay)
	nanos := int32(0)
	if clock, ok := strings.CutPrefix(rest, "T"); ok && err == nil {
		var more int64
		more, nanos, err = parseClockParts(clock)
		seconds, rest = seconds+more, ""
	}
	if err == nil && rest != "" {
		err = errForm
	}
	if text[0] == '-' {
		seconds, nanos = -seconds, -nanos
	}
	return NewDayTimeDuration(seconds, nanos), explain(err, example)
}

// parseClockParts reads what follows T in a duration: hours, minutes and seconds
// with a fraction.
func parseClockParts(text string) (seconds int64, nanos int32, err error) {
	seconds, rest, err := parts(text, "HM", 3600, 60)
	if err != nil || rest == "" {
		return seconds, 0, err
	}
	if whole, fraction, ok := strings.Cut(rest, "."); ok && isDigits(whole) {
		after, n, err := scanFraction("." + fraction)
		if err != nil {
			return 0, 0, err
		}
		rest, nanos = whole+after, n
	}
	n, rest, err := part(rest, 'S')
	if err == nil && rest != "" {
		err = errForm
	}
	return seconds + n, nanos, err
}

// parseYearMonth reads an xs:yearMonthDuration, for example "P1Y2M".
func parseYearMonth(text string) (Value, error) {
	body, ok := strings.CutPrefix(strings.TrimPrefix(text, "-"), "P")
	months, rest, err := parts(body, "YM", 12, 1)
	if err == nil && (!ok || body == "" || rest != "") {
		err = errForm
	}
	if err == nil && text[0] == '-' {
		months = -months
	}
	return NewYearMonthDuration(months), explain(err, "for example P1Y2M, P18M or -P1Y")
}

// formatDayTime returns the canonical form of XQuery 1.0 functions, section
// 17.1.4, for example "P1DT2H".
func formatDayTime(seconds int64, nanos int32) string {
	if seconds == 0 && nanos == 0 {
		return "PT0S"
	}
	var b strings.Builder
	s, n := uint64(seconds), nanos
	if seconds < 0 || nanos < 0 {
		b.WriteByte('-')
		s, n = -s, -n
	}
	b.WriteByte('P')
	writePart(&b, s/secondsPerDay, "D")
	if s %= secondsPerDay; s > 0 || n != 0 {
		b.WriteByte('T')
	}
	writePart(&b, s/3600, "H")
	writePart(&b, s/60%60, "M")
	if s%60 > 0 || n != 0 {
		b.WriteString(strconv.FormatUint(s%60, 10) + formatFraction(n) + "S")
	}
	return b.String()
}

// formatYearMonth returns the canonical form, for example "P1Y2M".
func formatYearMonth(months int64) string {
	if months == 0 {
		return "P0M"
	}
	var b strings.Builder
	m := uint64(months)
	if months < 0 {
		b.WriteByte('-')
		m = -m
	}
	b.WriteByte('P')
	writePart(&b, m/12, "Y")
	writePart(&b, m%12, "M")
	return b.String()
}

// writePart writes a number with its unit, unless the number is 0.
func writePart(b *strings.Builder, n uint64, unit string) {
	if n > 0 {
		b.WriteString(strconv.FormatUint(n, 10) + unit)
	}
}

// errRange is the error of arithmetic that leaves the range of dates.
var errRange = errors.New("the result is out of range: expected a year of at most 9 digits")

// AddDuration adds a dayTimeDuration to a dateTime or a time, or a
// yearMonthDuration to a dateTime or a date; negate subtracts it instead. A time
// stays within its day. The day of a month that is too short becomes its last
// one: 31 January plus P1M is 28 or 29 February (XML Schema part 2, appendix E).
// It fails if the result is out of range, or if the types do not fit.
func (v Value) AddDuration(d Value, negate bool) (Value, error) {
	amount, nanos := d.number, d.nanos
	if negate {
		amount, nanos = -amount, -nanos
	}
	switch {
	case d.typ == DayTimeDuration && (v.typ == DateTime || v.typ == Time):
		return v.addSeconds(amount, nanos)
	case d.typ == YearMonthDuration && (v.typ == DateTime || v.typ == Date):
		return v.addMonths(amount)
	}
	return Value{}, fmt.Errorf("cannot add a %s to a %s", typeName(d.typ), typeName(v.typ))
}

func (v Value) addSeconds(seconds int64, nanos int32) (Value, error) {
	n := int64(v.nanos) + int64(nanos)
	v.nanos = int32(mod(n, 1e9))
	seconds += (n - mod(n, 1e9)) / 1e9
	v.number += seconds
	v.text = ""
	if v.typ == Time {
		v.number = mod(v.number, secondsPerDay)
		return v, nil
	}
	return v, v.checkRange()
}

func (v Value) addMonths(months int64) (Value, error) {
	clock := mod(v.number, secondsPerDay)
	year, month, day := civil(floorDay(v.number) / secondsPerDay)
	total := int64(year)*12 + int64(month-1) + months
	if total > math.MaxInt32*12 || total < math.MinInt32*12 {
		return Value{}, errRange
	}
	month = int(mod(total, 12)) + 1
	year = int((total - mod(total, 12)) / 12)
	v.number = dayNumber(year, month, min(day, daysIn(year, month)))*secondsPerDay + clock
	v.text = ""
	return v, v.checkRange()
}

// checkRange fails if the year of a date has more than yearDigitsMax digits.
func (v Value) checkRange() error {
	const yearMax = 999_999_999
	if v.number >= dayNumber(yearMax+1, 1, 1)*secondsPerDay || v.number < dayNumber(1-yearMax, 1, 1)*secondsPerDay {
		return errRange
	}
	return nil
}
