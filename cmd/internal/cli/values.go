package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/rel"
)

// byteUnits are the units of sizes, largest first.
var byteUnits = [...]struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// bytesValue is the value of a flag for a size: a number of bytes, or a number
// with a unit such as 512MiB or 1GiB.
type bytesValue[T int | int64] struct{ to *T }

// BytesVar adds a flag for a size to s.
func BytesVar[T int | int64](s *pflag.FlagSet, to *T, name string, byDefault T, usage string) {
	*to = byDefault
	s.Var(bytesValue[T]{to}, name, usage)
}

// Type implements [pflag.Value].
func (bytesValue[T]) Type() string { return "bytes" }

// String formats the size in the largest binary unit that divides it.
func (v bytesValue[T]) String() string {
	if v.to == nil || *v.to == 0 {
		return "0"
	}
	n := int64(*v.to)
	for _, u := range byteUnits[:4] {
		if n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Set parses a size.
func (v bytesValue[T]) Set(text string) error {
	digits, unit := text, int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("invalid size %q: expected a number of bytes, or a number with a unit, for example 512MiB or 1GiB", text)
	}
	*v.to = T(n * unit)
	return nil
}

// countValue is the value of a flag for a number of things. A number below least
// is an error.
type countValue struct {
	to    *int
	least int
}

// CountVar adds a flag for a number of at least least to s.
func CountVar(s *pflag.FlagSet, to *int, name string, least, byDefault int, usage string) {
	*to = byDefault
	s.Var(countValue{to, least}, name, usage)
}

// Type implements [pflag.Value].
func (countValue) Type() string { return "number" }

// String formats the number.
func (v countValue) String() string {
	if v.to == nil {
		return "0"
	}
	return strconv.Itoa(*v.to)
}

// Set parses a number.
func (v countValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < v.least {
		return fmt.Errorf("invalid value %q: expected a whole number of at least %d", text, v.least)
	}
	*v.to = n
	return nil
}

// ParseExpires parses the value of --expires: a time (RFC 3339), or a duration from
// now such as 1h30m or 7d.
func ParseExpires(text string, now time.Time) (rel.Time, error) {
	days, isDays := strings.CutSuffix(text, "d")
	if n, err := strconv.Atoi(days); isDays && err == nil && n > 0 && n <= 36_500 {
		return rel.TimeOf(now.AddDate(0, 0, n)), nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d <= 0 {
			return 0, fmt.Errorf("%w: invalid --expires %q: expected a positive duration", ErrUsage, text)
		}
		return rel.TimeOf(now.Add(d)), nil
	}
	t, err := rel.ParseExpiry(text)
	if err != nil {
		return 0, fmt.Errorf("%w: invalid --expires %q: expected RFC 3339, for example 2026-01-02T15:04:05Z, or a duration, for example 1h or 7d", ErrUsage, text)
	}
	return t, nil
}
