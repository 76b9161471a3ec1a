package ostiary

import (
	"context"
	"sync"

	"github.com/ostiary/ostiary/storage"
)

// aliasesKept bounds the aliases that an engine remembers; beyond it they are
// forgotten, all at once.
const aliasesKept = 10_000

// cataloguer is an optional power of a driver: it tells, cheaply, whether any
// store or alias has changed since somebody looked. A driver whose data other
// processes may change does not have it.
type cataloguer interface {
	// CatalogChanges is another number after every such change, before the one
	// who made it knows that it is done.
	CatalogChanges() uint64
}

// aliases remembers which store a door's alias means: doors whose protocol
// knows no store ids ask with every request.
type aliases struct {
	mu    sync.RWMutex
	at    uint64 // the catalog's number that known is of
	known map[aliasKey]*Store
}

type aliasKey struct{ door, alias string }

func (a *aliases) get(k aliasKey, at uint64) *Store {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.at != at {
		return nil
	}
	return a.known[k]
}

func (a *aliases) put(k aliasKey, at uint64, s *Store) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at != at || a.known == nil || len(a.known) >= aliasesKept {
		a.at, a.known = at, map[aliasKey]*Store{}
	}
	a.known[k] = s
}

// StoreByAlias returns the store that a door knows by an alias.
func (e *Engine) StoreByAlias(ctx context.Context, door, alias string) (*Store, error) {
	const op = "find store"
	if e.closed.Load() {
		return nil, failed(op, storage.StoreID{}, ErrClosed)
	}
	key, at := aliasKey{door, alias}, uint64(0)
	catalog, ok := e.driver.(cataloguer)
	if ok {
		// The number is read before the alias: what changes in between makes what
		// is remembered of no use.
		at = catalog.CatalogChanges()
		if s := e.aliases.get(key, at); s != nil && s.state() == nil {
			return s, nil
		}
	}
	info, err := e.driver.StoreByAlias(ctx, door, alias)
	if err != nil {
		return nil, failed(op, storage.StoreID{}, err)
	}
	s := e.handle(info)
	if ok {
		e.aliases.put(key, at, s)
	}
	return s, nil
}
