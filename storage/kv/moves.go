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

// noticesMax is the capacity of the channel that Notify returns.
const noticesMax = 1024

// moveLog records in memory in which order the heads of stores moved. A mark, as
// [Driver.Changed] returns it, consists of an instance and a number. Only this
// driver writes keys with its prefix, so the log is complete for marks of its
// instance. It has no information for marks of other instances.
type moveLog struct {
	instance string // random; identifies the driver

	mu     sync.Mutex
	number uint64                            // number of the newest move
	recent *list.List                        // of *move, newest first, each store once
	at     map[storage.StoreID]*list.Element // the element of each store in recent
	// joined are the stores for which AppendTo was called, and their heads before
	// it. The driver does not notice the commit of the transaction, so Changed
	// reads these heads each time.
	joined   map[storage.StoreID]storage.Head
	watchers map[chan storage.StoreID]storage.WriterID // channels of Notify with their own; nil after close
}

// move is the last move of the head of a store.
type move struct {
	id     storage.StoreID
	number uint64 // moves have ascending numbers
}

func newMoveLog(instance string) moveLog {
	return moveLog{
		instance: instance,
		recent:   list.New(),
		at:       map[storage.StoreID]*list.Element{},
		joined:   map[storage.StoreID]storage.Head{},
		watchers: map[chan storage.StoreID]storage.WriterID{},
	}
}

// record records that a writer moved the head of a store, and notifies the other
// watchers. The zero writer is an unknown one.
func (m *moveLog) record(id storage.StoreID, by storage.WriterID) {
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
	m.send(id, by)
}

// notify notifies all watchers of a store that was updated or deleted.
func (m *moveLog) notify(id storage.StoreID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.send(id, storage.WriterID{})
}

// send notifies the watchers, except those of the writer by. The caller holds m.mu.
func (m *moveLog) send(id storage.StoreID, by storage.WriterID) {
	for c, own := range m.watchers {
		if own == by && by != (storage.WriterID{}) {
			continue
		}
		select {
		case c <- id:
		default:
		}
	}
}

// recordJoined records that the head of a store will move when a transaction of
// the embedding program commits. after is the head before.
func (m *moveLog) recordJoined(id storage.StoreID, after storage.Head) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined[id] = after
}

// forget removes a store that was deleted.
func (m *moveLog) forget(id storage.StoreID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.joined, id)
	if e := m.at[id]; e != nil {
		m.recent.Remove(e)
		delete(m.at, id)
	}
}

// joinedHeads returns the stores of recordJoined for which record was not called
// since, and their heads before the transaction.
func (m *moveLog) joinedHeads() map[storage.StoreID]storage.Head {
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

// since returns the stores with a move after the move of the given number,
// newest first, and the next mark.
func (m *moveLog) since(number uint64) (ids []storage.StoreID, next string) {
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

func (m *moveLog) mark() string { return m.instance + "." + strconv.FormatUint(m.number, 10) }

func (m *moveLog) watch(own storage.WriterID) chan storage.StoreID {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan storage.StoreID, noticesMax)
	if m.watchers == nil {
		close(c)
		return c
	}
	m.watchers[c] = own
	return c
}

func (m *moveLog) unwatch(c chan storage.StoreID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.watchers[c]; ok {
		delete(m.watchers, c)
		close(c)
	}
}

func (m *moveLog) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.watchers {
		close(c)
	}
	m.watchers = nil
}

// Changed implements [storage.Driver].
func (d *Driver) Changed(ctx context.Context, mark string) (stores []storage.StoreID, next string, err error) {
	done, err := d.begin(ctx)
	if err != nil {
		return nil, "", err
	}
	defer done()
	number, mine, err := d.moves.parse(mark)
	if err != nil {
		return nil, "", err
	}
	for id, before := range d.moves.joinedHeads() {
		h, err := d.readHead(d.store, id)
		if errors.Is(err, storage.ErrNoStore) {
			continue // the store was deleted
		}
		if err != nil {
			return nil, "", wrap("head of", id, err)
		}
		if h.Head != before {
			d.moves.record(id, storage.WriterID{})
		}
	}
	if mark == "" || mine {
		if mark == "" {
			number = ^uint64(0)
		}
		stores, next = d.moves.since(number)
		return stores, next, nil
	}
	// Take the next mark before reading the stores. A move in between is then
	// reported twice instead of never.
	_, next = d.moves.since(^uint64(0))
	for info, err := range d.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return nil, "", err
		}
		stores = append(stores, info.ID)
	}
	return stores, next, nil
}

// parse returns the number of a mark, and whether the mark is of this instance.
func (m *moveLog) parse(mark string) (number uint64, mine bool, err error) {
	if mark == "" {
		return 0, true, nil
	}
	instance, digits, ok := strings.Cut(mark, ".")
	number, bad := strconv.ParseUint(digits, 10, 64)
	if !ok || bad != nil || len(instance) != len(m.instance) {
		return 0, false, fmt.Errorf("%w: mark %q is not a mark that Changed returned", storage.ErrFormat, mark)
	}
	return number, instance == m.instance, nil
}

// Notify implements [storage.Notifier]. The channel has room for 1024 ids. If the
// head of a store moves in a transaction of the embedding program, the driver
// notices it only at the next call of Changed, Append or AppendTo.
func (d *Driver) Notify(ctx context.Context, own storage.WriterID) <-chan storage.StoreID {
	c := d.moves.watch(own)
	context.AfterFunc(ctx, func() { d.moves.unwatch(c) })
	return c
}
