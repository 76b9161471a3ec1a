package cli

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage/pebble"
)

// OpenLog opens the shared log of a URL.
type OpenLog func(ctx context.Context, address string) (sharedlog.Log, error)

// AddLog adds the flag --log.
func AddLog(s *pflag.FlagSet, to *string) {
	s.StringVar(to, "log", "", "URL of the log that several nodes share: postgres://USER@HOST/NAME or mysql://USER@HOST/NAME; a password in it is visible to other users, so prefer the variable OSTIARY_LOG")
}

// SettingsFlags are the flags with the settings that all nodes of a cluster have alike.
type SettingsFlags struct {
	holderLease, readLease time.Duration
	acknowledge            string
}

// Add adds the flags. prefix begins the help of each of them, and unset ends it: what an
// unset flag means.
func (f *SettingsFlags) Add(s *pflag.FlagSet, prefix, unset string) {
	s.StringVar(&f.acknowledge, "acknowledge", "", prefix+"when a write is answered: leased (every node that may answer reads shows it) or local (it is in the log; other nodes show it a little later); "+unset)
	s.DurationVar(&f.holderLease, "holder-lease", 0, prefix+"how long the node that writes may be silent before another one takes over; "+unset)
	s.DurationVar(&f.readLease, "read-lease", 0, prefix+"how long a node may answer reads without news, and a write may wait for a node that is gone; "+unset)
}

// Settings checks the flags and returns the settings; those of unset flags are zero.
func (f *SettingsFlags) Settings() (s sharedlog.Settings, err error) {
	if f.acknowledge != "" {
		if s.Acknowledge, err = sharedlog.ParseAcknowledge(f.acknowledge); err != nil {
			return s, fmt.Errorf("%w: --acknowledge: %w", ErrUsage, err)
		}
	}
	for _, of := range [...]struct {
		flag string
		from time.Duration
		to   *time.Duration
	}{{"holder-lease", f.holderLease, &s.HolderLease}, {"read-lease", f.readLease, &s.ReadLease}} {
		if of.from < 0 || of.from > sharedlog.LeaseMax {
			return s, fmt.Errorf("%w: invalid --%s %s: expected above 0 and at most %s", ErrUsage, of.flag, of.from, sharedlog.LeaseMax)
		}
		*of.to = of.from
	}
	return s, nil
}

// OpenLog opens the shared log of --log.
func (a *App) OpenLog(ctx context.Context, text string) (sharedlog.Log, error) {
	return a.OpenLogOf(ctx, "--log", text)
}

// OpenLogOf opens the shared log of a URL that a flag or an argument has.
func (a *App) OpenLogOf(ctx context.Context, name, text string) (sharedlog.Log, error) {
	at, err := url.Parse(text)
	if err != nil { // its text may contain a password
		return nil, fmt.Errorf("%w: %s is no URL, expected SCHEME://…", ErrUsage, name)
	}
	open := a.Logs[at.Scheme]
	if open == nil {
		return nil, fmt.Errorf("%w: %s has the scheme %q, expected one of: %s", ErrUsage, name, at.Scheme, strings.Join(slices.Sorted(maps.Keys(a.Logs)), ", "))
	}
	log, err := open(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("shared log %s: %w", sharedlog.ShownAddress(text), sharedlog.HideSecrets(err, text))
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

// OpenFolder opens the data folder, which must exist, without an engine. It fails with
// [kv.ErrCopy] if the folder is the copy of a shared log.
func (a *App) OpenFolder(ctx context.Context) (*pebble.Driver, error) {
	if err := requireFolder(a.Data, false); err != nil {
		return nil, err
	}
	restrictNewFiles()
	return a.openDriver(ctx, pebble.Options{})
}

// Of returns a run of the same program whose data folder is another one.
func (a *App) Of(folder string) (*App, error) {
	other := *a
	other.Data = folder
	return &other, other.CleanData()
}
