package cli

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// OpenLog opens the shared log of a URL.
type OpenLog func(ctx context.Context, address string) (sharedlog.Log, error)

// AddLog adds the flag --log.
func AddLog(s *pflag.FlagSet, to *string) {
	s.StringVar(to, "log", "", "URL of the log that several nodes share: postgres://USER@HOST/NAME or mysql://USER@HOST/NAME; a password in it is visible to other users, so prefer the variable OSTIARY_LOG")
}

// OpenLog opens the shared log of --log.
func (a *App) OpenLog(ctx context.Context, text string) (sharedlog.Log, error) {
	at, err := url.Parse(text)
	if err != nil { // its text may contain a password
		return nil, fmt.Errorf("%w: --log is no URL, expected SCHEME://…", ErrUsage)
	}
	open := a.Logs[at.Scheme]
	if open == nil {
		return nil, fmt.Errorf("%w: --log has the scheme %q, expected one of: %s", ErrUsage, at.Scheme, strings.Join(slices.Sorted(maps.Keys(a.Logs)), ", "))
	}
	log, err := open(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("shared log %s: %w", at.Redacted(), err)
	}
	return log, nil
}

// OpenCopy opens the data folder as the copy of a shared log, and creates it if it is
// missing. A write is in the log before it is in the copy, so the copy does not wait for
// the disk.
func (a *App) OpenCopy(ctx context.Context) (*pebble.Driver, error) {
	if a.Data == InMemory || a.model != "" || a.tuples != "" {
		return nil, fmt.Errorf("%w: --log needs a data folder for the copy of this node, expected --data FOLDER without --model and --tuples", ErrUsage)
	}
	restrictNewFiles()
	return a.openDriver(ctx, pebble.Options{Copy: true, NoSync: true})
}
