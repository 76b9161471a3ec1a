package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/storage"
)

const (
	// recentName is the file in a data folder that lists the ids of the stores that
	// a server used last, the last one first.
	recentName = "RECENT"
	// recentStoresMax is the largest number of ids in that file.
	recentStoresMax = 100
	// recentBytesMax is the largest size of the file that is read.
	recentBytesMax = 64 << 10
	// recentInterval is how often the file is brought up to date.
	recentInterval = 10 * time.Second

	// The values of --preload that are not names of stores.
	preloadRecent = "recent"
	preloadNone   = "none"

	// preloadLoads is how many stores are preloaded at the same time.
	preloadLoads = 4
)

// storesToPreload returns the stores that --preload selects. A name without a
// store is an error. A store of the list of recent ones may be deleted by now, and
// is left out. Stores that are named stay loaded; recent ones are unloaded when
// they are idle.
func (a *app) storesToPreload(ctx context.Context, e *ostiary.Engine, names []string) (stores []*ostiary.Store, err error) {
	switch {
	case len(names) == 1 && names[0] == preloadNone:
		return nil, nil
	case len(names) == 1 && names[0] == preloadRecent && a.Data == cli.InMemory:
		return nil, nil
	case len(names) == 1 && names[0] == preloadRecent:
		for _, id := range readRecent(a.Data) {
			s, err := e.Store(ctx, id)
			if errors.Is(err, authz.ErrNoStore) {
				continue
			}
			if err != nil {
				return nil, err
			}
			stores = append(stores, s)
		}
		return stores, nil
	}
	for _, name := range names {
		s, err := cli.FindStore(ctx, e, name)
		if err != nil {
			return nil, fmt.Errorf("--preload %s: %w", name, err)
		}
		s.Keep()
		stores = append(stores, s)
	}
	return stores, nil
}

// preload loads stores until ctx ends. If memoryMax is positive, it stops when the
// loaded stores use that much memory. It logs a store that cannot be loaded, which
// requests for the store then report.
func preload(ctx context.Context, e *ostiary.Engine, stores []*ostiary.Store, memoryMax int64, log *slog.Logger) {
	next := make(chan *ostiary.Store, len(stores))
	for _, s := range stores {
		next <- s
	}
	close(next)
	var workers sync.WaitGroup
	for range min(preloadLoads, len(stores)) {
		workers.Go(func() {
			for s := range next {
				if memoryMax > 0 && e.Bytes() >= memoryMax {
					return
				}
				if err := s.Load(ctx); err != nil && ctx.Err() == nil {
					log.Error("a store could not be preloaded", "store", s.ID().String(), "error", err)
				}
			}
		})
	}
	workers.Wait()
}

// readRecent returns the ids in a folder's list of recently used stores. It
// returns none if there is no such list, or if it is damaged: the list only makes
// the first requests faster.
func readRecent(dir string) (ids []storage.StoreID) {
	text, err := cli.ReadFile(filepath.Join(dir, recentName), recentBytesMax)
	var names []string
	if err != nil || json.Unmarshal(text, &names) != nil {
		return nil
	}
	for _, name := range names[:min(len(names), recentStoresMax)] {
		if id, err := storage.ParseStoreID(name); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// writeRecent replaces a folder's list of recently used stores.
func writeRecent(dir string, ids []storage.StoreID) error {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	text, err := json.Marshal(names)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, recentName)
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// mergeRecent returns the ids of a list after the stores loaded were used: new
// ones first, then the others that are loaded, then the rest, each in the order of
// the list.
func mergeRecent(list, loaded []storage.StoreID) []storage.StoreID {
	var out []storage.StoreID
	add := func(ids []storage.StoreID, when func(storage.StoreID) bool) {
		for _, id := range ids {
			if when(id) {
				out = append(out, id)
			}
		}
	}
	add(loaded, func(id storage.StoreID) bool { return !slices.Contains(list, id) })
	add(list, func(id storage.StoreID) bool { return slices.Contains(loaded, id) })
	add(list, func(id storage.StoreID) bool { return !slices.Contains(loaded, id) })
	return out[:min(len(out), recentStoresMax)]
}

// recordRecent keeps a folder's list of recently used stores up to date until the
// caller calls stop.
func (a *app) recordRecent(e *ostiary.Engine, log *slog.Logger) (stop func()) {
	list := readRecent(a.Data)
	record := func() {
		now := mergeRecent(list, e.LoadedStores())
		if slices.Equal(now, list) {
			return
		}
		if err := writeRecent(a.Data, now); err != nil {
			log.Warn("the list of recently used stores could not be written", "error", err)
			return
		}
		list = now
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(recentInterval)
		defer tick.Stop()
		for {
			select {
			case <-end:
				record()
				return
			case <-tick.C:
				record()
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}
