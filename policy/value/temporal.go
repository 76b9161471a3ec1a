package value

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The bounds of dates and times.
const (
	// yearDigitsMax is the bound "year digits": the number of digits of a year.
	yearDigitsMax = 9
	// fractionDigitsMax is the bound "fraction digits": the number of digits of a
	// fraction of a second, apart from zeros at its end.
	fractionDigitsMax = 9
)

const (
	noZone        = math.MinInt16 // the offset of dates and times without a zone, and of no other value
	offsetMax     = 14 * 60       // minutes
	secondsPerDay = 24 * 60 * 60
)

// NewDateTime returns the dateTime of an instant, in its zone.
func NewDateTime(t time.Time) Value {
	offset, local := localSeconds(t)
	return Value{typ: DateTime, number: local, nanos: int32(t.Nanosecond()), offset: offset}
}

// NewDate returns the date of an instant in its zone.
func NewDate(t time.Time) Value {
	offset, local := localSeconds(t)
	return Value{typ: Date, number: floorDay(local), offset: offset}
}

// NewTime returns the time of day of an instant in its zone.
func NewTime(t time.Time) Value {
	offset, local := localSeconds(t)
	return Value{typ: Time, number: local - floorDay(local), nanos: int32(t.Nanosecond()), offset: offset}
}

// localSeconds returns the offset of the zone of t in minutes, and the seconds
// since 1970 that a clock with this offset shows. The seconds of an offset, which
// only historic zones have, are dropped from the offset but not from the instant.
func localSeconds(t time.Time) (offset int16, local int64) {
	_, seconds := t.Zone()
	offset = int16(seconds / 60)
	return offset, t.Unix() + int64(offset)*60
}

// floorDay returns the beginning of the day of local seconds.
func floorDay(local int64) int64 { return local - mod(local, secondsPerDay) }

// mod returns the remainder of a/b that is not negative.
func mod(a, b int64) int64 { return (a%b + b) % b }

// HasZone reports whether a date or time has a time zone. It is false for every
// other type.
func (v Value) HasZone() bool {
	return (v.typ == Time || v.typ == Date || v.typ == DateTime) && v.offset != noZone
}

// InZone returns a date or time without a zone as the same one in the zone; nil
// means UTC. The offset of a time of day is that of the zone on 2000-01-01. Every
// other value is returned unchanged.
func (v Value) InZone(zone *time.Location) Value {
	if v.offset != noZone {
		return v
	}
	v.offset = int16((v.number - v.instant(zone)) / 60)
	v.text = ""
	return v
}

// InZoneOf returns a date or time without a zone as the same one in the zone of
// other, which must have one. Every other value is returned unchanged.
func (v Value) InZoneOf(other Value) Value {
	if v.offset == noZone && other.HasZone() {
		v.offset, v.text = other.offset, ""
	}
	return v
}

// reference is 2000-01-01 in seconds, the day whose offset a time of day uses.
const reference = 946684800

// instant returns the seconds since 1970 of a dateTime, of the beginning of a
// date, or of a time of day as if it were on 1970-01-01.
func (v Value) instant(zone *time.Location) int64 {
	switch {
	case v.offset != noZone:
		return v.number - int64(v.offset)*60
	case zone == nil || zone == time.UTC:
		return v.number
	}
	local := v.number
	if v.typ == Time {
		local += reference
	}
	t := time.Unix(local, 0).UTC()
	in := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, zone)
	offset, _ := localSeconds(in)
	return v.number - int64(offset)*60
}

// SecondOfDay returns the seconds since midnight of a time of day in its own
// zone, moved to UTC by the offset of the zone if it has one, and its
// nanoseconds. The seconds are from 0 to 86,399.
func (v Value) SecondOfDay() (seconds int64, nanos int32) {
	return mod(v.instant(nil), secondsPerDay), v.nanos
}

// parseTime reads an xs:time, for example "09:30:10.5Z".
func parseTime(text string) (Value, error) {
	v := Value{typ: Time, offset: noZone}
	rest, err := v.scanClock(text)
	if err == nil {
		err = v.scanZone(rest)
	}
	v.number %= secondsPerDay
	return v, explain(err, "for example 09:30:10, 09:30:10.5Z or 09:30:10+01:00")
}

// parseDate reads an xs:date, for example "2002-10-10+13:00".
func parseDate(text string) (Value, error) {
	v := Value{typ: Date, offset: noZone}
	rest, err := v.scanDay(text)
	if err == nil {
		err = v.scanZone(rest)
	}
	return v, explain(err, "for example 2002-10-10, 2002-10-10Z or 2002-10-10+01:00")
}

// parseDateTime reads an xs:dateTime, for example "2002-10-10T12:00:00-05:00".
func parseDateTime(text string) (Value, error) {
	v := Value{typ: DateTime, offset: noZone}
	rest, err := v.scanDay(text)
	if err == nil && !strings.HasPrefix(rest, "T") {
		err = errForm
	}
	if err == nil {
		rest, err = v.scanClock(rest[1:])
	}
	if err == nil {
		err = v.scanZone(rest)
	}
	return v, explain(err, "for example 2002-10-10T12:00:00, 2002-10-10T12:00:00.5Z or 2002-10-10T12:00:00-05:00")
}

// errForm is the error of a text that has not the form of its type. The callers
// add an example.
var errForm = errors.New("expected")

func explain(err error, example string) error {
	if err == nil || err != errForm {
		return err
	}
	return fmt.Errorf("expected a valid one, %s", example)
}

// scanDay adds the day at the beginning of text, "-?yyyy-mm-dd", and returns the
// rest.
func (v *Value) scanDay(text string) (rest string, err error) {
	digits := strings.TrimPrefix(text, "-")
	end := strings.IndexByte(digits, '-')
	switch {
	case end < 4 || !isDigits(digits[:end]) || end > 4 && digits[0] == '0' || digits[:end] == "0000":
		return "", errForm
	case end > yearDigitsMax:
		return "", fmt.Errorf("expected a year of at most %d digits (bound year digits)", yearDigitsMax)
	case len(digits) < end+6 || digits[end+3] != '-':
		return "", errForm
	}
	year, _ := strconv.Atoi(digits[:end])
	if len(digits) < len(text) {
		year = 1 - year // there is no year 0: -1 is the year before 1
	}
	month, okMonth := twoDigits(digits[end+1:], 1, 12)
	day, okDay := twoDigits(digits[end+4:], 1, 31)
	if !okMonth || !okDay || day > daysIn(year, month) {
		return "", errForm
	}
	v.number += dayNumber(year, month, day) * secondsPerDay
	return digits[end+6:], nil
}

// scanClock adds the time at the beginning of text, "hh:mm:ss(.s+)?", and
// returns the rest. 24:00:00 is the beginning of the next day.
func (v *Value) scanClock(text string) (rest string, err error) {
	if len(text) < 8 || text[2] != ':' || text[5] != ':' {
		return "", errForm
	}
	hour, okHour := twoDigits(text, 0, 24)
	minute, okMinute := twoDigits(text[3:], 0, 59)
	second, okSecond := twoDigits(text[6:], 0, 59)
	rest, v.nanos, err = scanFraction(text[8:])
	if err != nil {
		return "", err
	}
	if !okHour || !okMinute || !okSecond || hour == 24 && (minute > 0 || second > 0 || v.nanos > 0) {
		return "", errForm
	}
	v.number += int64(hour*3600 + minute*60 + second)
	return rest, nil
}

// scanFraction reads the fraction of a second at the beginning of text, if there
// is one, and returns the rest.
func scanFraction(text string) (rest string, nanos int32, err error) {
	if !strings.HasPrefix(text, ".") {
		return text, 0, nil
	}
	digits := text[1:]
	rest = strings.TrimLeft(digits, "0123456789")
	digits = digits[:len(digits)-len(rest)]
	if digits == "" {
		return "", 0, errForm
	}
	digits = strings.TrimRight(digits, "0")
	if len(digits) > fractionDigitsMax {
		return "", 0, fmt.Errorf("expected a fraction of at most %d digits (bound fraction digits)", fractionDigitsMax)
	}
	n, _ := strconv.Atoi((digits + "000000000")[:9])
	return rest, int32(n), nil
}

// scanZone reads a time zone: nothing, "Z", or "+hh:mm" up to 14 hours.
func (v *Value) scanZone(text string) error {
	switch {
	case text == "":
		return nil
	case text == "Z":
		v.offset = 0
		return nil
	case len(text) != 6 || text[0] != '+' && text[0] != '-' || text[3] != ':':
		return errForm
	}
	hours, okHours := twoDigits(text[1:], 0, 14)
	minutes, okMinutes := twoDigits(text[4:], 0, 59)
	offset := hours*60 + minutes
	if !okHours || !okMinutes || offset > offsetMax {
		return errForm
	}
	if text[0] == '-' {
		offset = -offset
	}
	v.offset = int16(offset)
	return nil
}

// twoDigits returns the number that the first two bytes of text are, and whether
// they are one from least to most.
func twoDigits(text string, least, most int) (int, bool) {
	if len(text) < 2 || !isDigits(text[:2]) {
		return 0, false
	}
	n := int(text[0]-'0')*10 + int(text[1]-'0')
	return n, n >= least && n <= most
}
