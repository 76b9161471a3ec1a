package cel

import (
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// zoned are the methods of timestamps that take the name of a time zone, with their
// overloads. Those of cel-go use the zones of the machine.
var zoned = []struct {
	name, overload string
	part           func(time.Time) int
}{
	{overloads.TimeGetFullYear, overloads.TimestampToYearWithTz, time.Time.Year},
	{overloads.TimeGetMonth, overloads.TimestampToMonthWithTz, func(t time.Time) int { return int(t.Month()) - 1 }},
	{overloads.TimeGetDayOfYear, overloads.TimestampToDayOfYearWithTz, func(t time.Time) int { return t.YearDay() - 1 }},
	{overloads.TimeGetDayOfMonth, overloads.TimestampToDayOfMonthZeroBasedWithTz, func(t time.Time) int { return t.Day() - 1 }},
	{overloads.TimeGetDate, overloads.TimestampToDayOfMonthOneBasedWithTz, time.Time.Day},
	{overloads.TimeGetDayOfWeek, overloads.TimestampToDayOfWeekWithTz, func(t time.Time) int { return int(t.Weekday()) }},
	{overloads.TimeGetHours, overloads.TimestampToHoursWithTz, time.Time.Hour},
	{overloads.TimeGetMinutes, overloads.TimestampToMinutesWithTz, time.Time.Minute},
	{overloads.TimeGetSeconds, overloads.TimestampToSecondsWithTz, time.Time.Second},
	{overloads.TimeGetMilliseconds, overloads.TimestampToMillisecondsWithTz, func(t time.Time) int { return t.Nanosecond() / int(time.Millisecond) }},
}

// zoneLibrary replaces the methods of timestamps that take the name of a time zone.
type zoneLibrary struct{}

func (zoneLibrary) CompileOptions() []cel.EnvOption {
	var options []cel.EnvOption
	for _, m := range zoned {
		options = append(options, cel.Function(m.name, cel.MemberOverload(m.overload, []*cel.Type{cel.TimestampType, cel.StringType}, cel.IntType,
			cel.BinaryBinding(func(at, zone ref.Val) ref.Val {
				t, ok := at.(types.Timestamp)
				name, isText := zone.(types.String)
				switch {
				case !ok || !isText:
					return types.MaybeNoSuchOverloadErr(zone)
				case strings.Contains(string(name), ":"): // an offset, such as +02:00
					return t.Receive(m.name, m.overload, []ref.Val{zone})
				}
				location, err := loadZone(string(name))
				if err != nil {
					return types.WrapErr(err)
				}
				return types.Int(m.part(t.In(location)))
			}))))
	}
	return options
}

func (zoneLibrary) ProgramOptions() []cel.ProgramOption { return nil }
