package kv

import (
	"context"
	"sync"

	"github.com/ostiary/ostiary/storage"
)

// noticesMax is the capacity of the channel that Notify returns.
const noticesMax = 1024

// watchers are who is notified of changes. Only this driver writes keys with its prefix,
// so they are notified of all.
type watchers struct {
	mu sync.Mutex
	// joined are the stores for which AppendTo was called, and their heads before it. The
	// driver does not notice the commit of the transaction.
	joined   map[storage.StoreID]storage.Head
	channels map[chan storage.StoreID]storage.WriterID // channels of Notify with their own; nil after close
}

func newWatchers() watchers {
	return watchers{joined: map[storage.StoreID]storage.Head{}, channels: map[chan storage.StoreID]storage.WriterID{}}
}

// moved notifies the watchers that a writer has moved the head of a store, except those of
// that writer. The zero writer is an unknown one.
func (w *watchers) moved(id storage.StoreID, by storage.WriterID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.joined, id)
	w.send(id, by)
}

// notify notifies all watchers of a store that was updated or deleted.
func (w *watchers) notify(id storage.StoreID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.send(id, storage.WriterID{})
}

// send notifies the watchers, except those of the writer by. The caller holds w.mu.
func (w *watchers) send(id storage.StoreID, by storage.WriterID) {
	for c, own := range w.channels {
		if own == by && by != (storage.WriterID{}) {
			continue
		}
		select {
		case c <- id:
		default:
		}
	}
}

// join notes that the head of a store will move when a transaction of the embedding
// program commits. after is the head before.
func (w *watchers) join(id storage.StoreID, after storage.Head) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joined[id] = after
}

// joinedHead returns the head of a store before the transaction of join, unless moved was
// called since.
func (w *watchers) joinedHead(id storage.StoreID) (before storage.Head, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok = w.joined[id]
	return before, ok
}

// forget removes a store that was deleted.
func (w *watchers) forget(id storage.StoreID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.joined, id)
}

func (w *watchers) add(own storage.WriterID) chan storage.StoreID {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan storage.StoreID, noticesMax)
	if w.channels == nil {
		close(c)
		return c
	}
	w.channels[c] = own
	return c
}

func (w *watchers) remove(c chan storage.StoreID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.channels[c]; ok {
		delete(w.channels, c)
		close(c)
	}
}

func (w *watchers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.channels {
		close(c)
	}
	w.channels = nil
}

// Notify implements [storage.Driver]. The channel has room for 1024 ids. If the head of a
// store moves in a transaction of the embedding program, the driver notices it only at the
// next call of Append or AppendTo.
func (d *Driver) Notify(ctx context.Context, own storage.WriterID) <-chan storage.StoreID {
	c := d.watchers.add(own)
	context.AfterFunc(ctx, func() { d.watchers.remove(c) })
	return c
}
