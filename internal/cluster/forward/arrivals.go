package forward

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/storage"
)

// Arrivals are the forwarded requests that this node is serving.
type Arrivals struct {
	Engine *ostiary.Engine

	mu  sync.Mutex
	all map[storage.RequestID]chan struct{} // closed when the request is served
}

// Begin begins with a forwarded request. If it was sent before, Begin waits until this
// node no longer serves it, and returns what it has led to.
func (a *Arrivals) Begin(ctx context.Context, as *Head) (made storage.RequestTrace, leave func(), err error) {
	id := as.Origin.Request
	for {
		a.mu.Lock()
		before := a.all[id]
		if before == nil {
			break
		}
		a.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return made, nil, ctx.Err()
		}
	}
	done := make(chan struct{})
	if a.all == nil {
		a.all = map[storage.RequestID]chan struct{}{}
	}
	a.all[id] = done
	a.mu.Unlock()
	leave = func() {
		a.mu.Lock()
		delete(a.all, id)
		a.mu.Unlock()
		close(done)
	}
	if as.Repeated {
		if made, err = a.Engine.FindRequest(ctx, id, as.After); err != nil {
			leave()
			return made, nil, err
		}
	}
	return made, leave, nil
}

// LostAnswer reports whether an error is the answer to a request that was sent before and
// has written: the error is then about what the request itself has changed.
func LostAnswer(j *journal.Journal) bool { return j.Repeated && j.Made.Made() }

// ChangesText returns the stores that a forwarded request has changed, with
// their newest revisions, for the other node.
func ChangesText(j *journal.Journal) string {
	var b strings.Builder
	for i, c := range j.ChangedStores() {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(c.Store.String() + "=" + strconv.FormatUint(uint64(c.Revision), 10))
	}
	return b.String()
}

// NoteChanges notes what ChangesText has returned on the other node.
func NoteChanges(j *journal.Journal, text string) {
	for word := range strings.FieldsSeq(text) {
		id, n, _ := strings.Cut(word, "=")
		store, err := storage.ParseStoreID(id)
		revision, wrong := strconv.ParseUint(n, 10, 64)
		switch {
		case err != nil || wrong != nil:
		case revision == 0:
			j.Note(store, nil)
		default:
			j.Wrote(store, storage.Revision(revision))
		}
	}
}
