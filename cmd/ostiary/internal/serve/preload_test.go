package serve

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/storage"
)

// Stores that --preload names stay loaded, and those that were used last do not.
func TestPreloadedStay(t *testing.T) {
	t.Parallel()
	ctx, a := context.Background(), &app{&cli.App{Data: filepath.Join(t.TempDir(), "data")}}
	err := a.WithEngine(ctx, true, func(e *ostiary.Engine) error {
		for _, c := range []struct {
			preload string
			loaded  int
		}{{"named", 1}, {preloadRecent, 0}} {
			s, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: c.preload + " store"})
			if err != nil {
				return err
			}
			names := []string{c.preload}
			if c.preload == "named" {
				names = []string{s.ID().String()}
			} else if err := writeRecent(a.Data, []storage.StoreID{s.ID()}); err != nil {
				return err
			}
			stores, err := a.storesToPreload(ctx, e, names)
			if err != nil {
				return err
			}
			preload(ctx, e, stores, 0, slog.New(slog.DiscardHandler))
			if !slices.Contains(e.LoadedStores(), s.ID()) {
				t.Errorf("--preload %s: the store was not loaded", c.preload)
			}
			e.DropIdle()
			e.DropIdle()
			if slices.Contains(e.LoadedStores(), s.ID()) != (c.loaded == 1) {
				t.Errorf("--preload %s: loaded stores are %v, want %d of %v", c.preload, e.LoadedStores(), c.loaded, s.ID())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
