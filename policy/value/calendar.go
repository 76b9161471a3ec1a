package value

import (
	"fmt"
	"strings"
)

// The proleptic Gregorian calendar. Years are astronomical: 0 is the year before
// 1, which XML Schema writes as -0001.

// daysIn returns the number of days of a month.
func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// dayNumber returns the number of days from 1970-01-01. It counts years from
// March, so that a leap day is the last day of its year.
func dayNumber(year, month, day int) int64 {
	y := int64(year)
	if month <= 2 {
		y--
	}
	era := (y - mod(y, 400)) / 400
	yearOfEra := y - era*400
	dayOfYear := int64((153*((month+9)%12)+2)/5 + day - 1)
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// civil returns the date of a number of days from 1970-01-01. It is the inverse
// of dayNumber.
func civil(days int64) (year, month, day int) {
	days += 719468
	era := (days - mod(days, 146097)) / 146097
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153 // months since March
	day = int(dayOfYear - (153*shifted+2)/5 + 1)
	month = int((shifted+2)%12 + 1)
	year = int(yearOfEra + era*400)
	if month <= 2 {
		year++
	}
	return year, month, day
}

// formatDay returns the date of local seconds as XML Schema writes it.
func formatDay(local int64) string {
	year, month, day := civil(floorDay(local) / secondsPerDay)
	sign := ""
	if year <= 0 {
		sign, year = "-", 1-year
	}
	return fmt.Sprintf("%s%04d-%02d-%02d", sign, year, month, day)
}

// formatClock returns the time of day of local seconds.
func formatClock(local int64, nanos int32) string {
	s := mod(local, secondsPerDay)
	return fmt.Sprintf("%02d:%02d:%02d%s", s/3600, s/60%60, s%60, formatFraction(nanos))
}

// formatFraction returns nanoseconds as a fraction of a second, "" for none.
func formatFraction(nanos int32) string {
	if nanos == 0 {
		return ""
	}
	return "." + strings.TrimRight(fmt.Sprintf("%09d", nanos), "0")
}

// formatDateTime returns the canonical form: in UTC if there is a zone (XML
// Schema part 2, section 3.2.7.2).
func (v Value) formatDateTime() string {
	at := v.instant(nil)
	return formatDay(at) + "T" + formatClock(at, v.nanos) + v.formatUTC()
}

// formatTime returns the canonical form: in UTC if there is a zone.
func (v Value) formatTime() string { return formatClock(v.instant(nil), v.nanos) + v.formatUTC() }

func (v Value) formatUTC() string {
	if v.offset == noZone {
		return ""
	}
	return "Z"
}

// formatLocal returns the lexical form of a date or time in its own zone.
func (v Value) formatLocal() string {
	zone := formatZone(int(v.offset))
	switch v.typ {
	case Time:
		return formatClock(v.number, v.nanos) + zone
	case Date:
		return formatDay(v.number) + zone
	}
	return formatDay(v.number) + "T" + formatClock(v.number, v.nanos) + zone
}

// formatZone returns the offset of a zone in minutes as "+hh:mm", 0 as "Z", and "" for
// no zone.
func formatZone(offset int) string {
	sign := "+"
	switch {
	case offset == noZone:
		return ""
	case offset == 0:
		return "Z"
	case offset < 0:
		sign, offset = "-", -offset
	}
	return fmt.Sprintf("%s%02d:%02d", sign, offset/60, offset%60)
}

// formatDate returns the canonical form: with a zone from -11:59 to +12:00 that
// lets the day begin at the same instant (XML Schema part 2, section 3.2.9.2).
func (v Value) formatDate() string {
	local, offset := v.number, int(v.offset)
	switch {
	case offset == noZone:
	case offset > 12*60:
		local, offset = local-secondsPerDay, offset-24*60
	case offset <= -12*60:
		local, offset = local+secondsPerDay, offset+24*60
	}
	return formatDay(local) + formatZone(offset)
}
