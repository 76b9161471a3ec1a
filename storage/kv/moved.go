package kv

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/storage"
)

// noticesMax is how many notices a Notify channel holds before it drops some.
const noticesMax = 1024

// moved remembers, in memory, in which order stores' heads moved. Only this
// driver writes to its prefix, so a mark of its own instance tells exactly; a
// mark of an earlier instance tells nothing, and all stores are named.
type moved struct {
	instance string

	mu     sync.Mutex
	number uint64
	recent *list.List // of *move, newest first, each store once
	at     map[storage.StoreID]*list.Element
	// joined are stores whose head moves when an embedder's transaction commits,
	// which nobody tells us; they are looked at on each question.
	joined   map[storage.StoreID]storage.Head
	watchers map[chan storage.StoreID]struct{}
}

type move struct {
	id     storage.StoreID
	number uint64
}

func newMoved(instance string) moved {
	return moved{
		instance: instance,
		recent:   list.New(),
		at:       map[storage.StoreID]*list.Element{},
		joined:   map[storage.StoreID]storage.Head{},
		watchers: map[chan storage.StoreID]struct{}{},
	}
}

// note records that id's head moved, and tells the watchers.
func (m *moved) note(id storage.StoreID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.joined, id)
	m.number++
	if e := m.at[id]; e != nil {
		e.Value.(*move).number = m.number
		m.recent.MoveToFront(e)
	} else {
		m.at[id] = m.recent.PushFront(&move{id, m.number})
	}
	for c := range m.watchers {
		select {
		case c <- id:
		default:
		}
	}
}

// join records that id's head moves from after when a transaction commits.
func (m *moved) join(id storage.StoreID, after storage.Head) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined[id] = after
}

func (m *moved) forget(id storage.StoreID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.joined, id)
	if e := m.at[id]; e != nil {
		m.recent.Remove(e)
		delete(m.at, id)
	}
}

// pending returns what join recorded and note did not settle.
func (m *moved) pending() map[storage.StoreID]storage.Head {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.joined) == 0 {
		return nil
	}
	out := make(map[storage.StoreID]storage.Head, len(m.joined))
	for id, h := range m.joined {
		out[id] = h
	}
	return out
}

// since returns the stores that moved after the mark's number, newest first,
// and the next mark.
func (m *moved) since(number uint64) (ids []storage.StoreID, next string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.recent.Front(); e != nil; e = e.Next() {
		mv := e.Value.(*move)
		if mv.number <= number {
			break
		}
		ids = append(ids, mv.id)
	}
	return ids, m.mark()
}

func (m *moved) mark() string { return m.instance + "." + strconv.FormatUint(m.number, 10) }

func (m *moved) watch() chan storage.StoreID {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan storage.StoreID, noticesMax)
	if m.watchers == nil {
		close(c)
		return c
	}
	m.watchers[c] = struct{}{}
	return c
}

func (m *moved) unwatch(c chan storage.StoreID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.watchers[c]; ok {
		delete(m.watchers, c)
		close(c)
	}
}

func (m *moved) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.watchers {
		close(c)
	}
	m.watchers = nil
}

// Changed tells which stores' heads moved since mark.
func (d *Driver) Changed(ctx context.Context, mark string) (stores []storage.StoreID, next string, err error) {
	done, err := d.begin(ctx)
	if err != nil {
		return nil, "", err
	}
	defer done()
	number, mine, err := d.moved.parse(mark)
	if err != nil {
		return nil, "", err
	}
	for id, before := range d.moved.pending() {
		h, err := d.readHead(d.store, id)
		if errors.Is(err, storage.ErrNoStore) {
			continue // deleted in between
		}
		if err != nil {
			return nil, "", failed("head of", id, err)
		}
		if h.Head != before {
			d.moved.note(id)
		}
	}
	if mark == "" || mine {
		if mark == "" {
			number = ^uint64(0)
		}
		stores, next = d.moved.since(number)
		return stores, next, nil
	}
	// The next mark is taken before the stores are read, so that a move in
	// between is told twice rather than never.
	_, next = d.moved.since(^uint64(0))
	for info, err := range d.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return nil, "", err
		}
		stores = append(stores, info.ID)
	}
	return stores, next, nil
}

// parse says whether the mark is of this instance, and its number.
func (m *moved) parse(mark string) (number uint64, mine bool, err error) {
	if mark == "" {
		return 0, true, nil
	}
	instance, digits, ok := strings.Cut(mark, ".")
	number, bad := strconv.ParseUint(digits, 10, 64)
	if !ok || bad != nil || len(instance) != len(m.instance) {
		return 0, false, fmt.Errorf("%w: mark %q", storage.ErrFormat, mark)
	}
	return number, instance == m.instance, nil
}

// Notify returns a channel of stores whose head moved. When it holds 1024
// notices that nobody received, further ones are dropped: a watcher that finds
// it full asks Changed. It is closed when ctx ends or the driver is closed.
// The head of a store that moved in an embedder's transaction is not noticed
// before the next question for Changed or the next Append.
func (d *Driver) Notify(ctx context.Context) <-chan storage.StoreID {
	c := d.moved.watch()
	context.AfterFunc(ctx, func() { d.moved.unwatch(c) })
	return c
}
