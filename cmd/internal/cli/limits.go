package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/internal/tool/turns"
)

// noLimit is the text of a flag that removes a limit.
const noLimit = "none"

// LimitFlags are flags for the limits of a key or of a store.
type LimitFlags struct{ requests, processor string }

// Add adds the flags to those of a command.
func (l *LimitFlags) Add(s *pflag.FlagSet) {
	s.StringVar(&l.requests, "requests", "", "requests in a second, with a burst: RATE or RATE:BURST, for example 100:200; 0 allows none, none lifts the limit")
	s.StringVar(&l.processor, "processor", "", "milliseconds of processor time in a second, with a burst: RATE or RATE:BURST, for example 250:1000; 0 allows none, none lifts the limit")
}

// Set reports whether one of the flags is set.
func (l *LimitFlags) Set() bool { return l.requests != "" || l.processor != "" }

// Change changes the limits that the flags name. It fails for a flag that is no rate.
func (l *LimitFlags) Change(limits *turns.Limits) error {
	for _, f := range []struct {
		name, text string
		to         **turns.Rate
	}{{"requests", l.requests, &limits.Requests}, {"processor", l.processor, &limits.ProcessorMillis}} {
		switch f.text {
		case "":
			continue
		case noLimit:
			*f.to = nil
			continue
		}
		rate, err := parseRate(f.text)
		if err != nil {
			return fmt.Errorf("%w: invalid --%s %q: expected RATE or RATE:BURST, whole numbers to %d and from 1 to %d, or %s", ErrUsage, f.name, f.text, turns.PerSecondMax, turns.BurstMax, noLimit)
		}
		*f.to = rate
	}
	return nil
}

// parseRate reads RATE or RATE:BURST.
func parseRate(text string) (*turns.Rate, error) {
	rate, burst, with := strings.Cut(text, ":")
	perSecond, err := strconv.ParseUint(rate, 10, 63)
	out := &turns.Rate{PerSecond: int64(perSecond)}
	if err == nil && with {
		var n uint64
		if n, err = strconv.ParseUint(burst, 10, 63); n == 0 && err == nil {
			err = strconv.ErrRange
		}
		out.Burst = int64(n)
	}
	if err == nil {
		err = (&turns.Limits{Requests: out}).Check()
	}
	return out, err
}
