package commit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// A client whose write had an uncertain outcome sends it again; many client libraries
// do so on their own. If the first write was made, the second one would fail, for
// example because the tuple exists already. So the queue remembers the writes whose
// outcome it reported as uncertain. If the same caller repeats one of them, and that
// is refused although the first one is in the log, the answer is that of the first.

const (
	// repeatTime is how long an uncertain write is remembered.
	repeatTime = time.Minute
	// uncertainMax is how many uncertain writes of a store are remembered.
	uncertainMax = 256
)

// uncertainWrites are writes of one store whose outcome was reported as uncertain.
type uncertainWrites struct {
	count atomic.Int32 // of all, so that a refused write usually takes no lock
	mu    sync.Mutex
	all   []uncertainWrite // oldest first
}

// uncertainWrite is a write whose outcome was reported as uncertain.
type uncertainWrite struct {
	request [sha256.Size]byte
	head    storage.Head // after the entry of the write, if it was made
	until   rel.Time
}

// find returns the writes with a digest that are remembered at a time.
func (u *uncertainWrites) find(digest [sha256.Size]byte, now rel.Time) (found []uncertainWrite) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, w := range u.all {
		if w.request == digest && w.until >= now {
			found = append(found, w)
		}
	}
	return found
}

// forget forgets a write. It returns false if another caller has done so.
func (u *uncertainWrites) forget(w uncertainWrite) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.Index(u.all, w)
	if i < 0 {
		return false
	}
	u.all = slices.Delete(u.all, i, i+1)
	u.count.Store(int32(len(u.all)))
	return true
}

// requestDigest identifies the content of a request, and its caller and reason, by
// canonical bytes. Equal requests have equal digests, also if the caller makes the
// request again. It returns false for a request with schemas, which is not recognized
// again. The number of a forwarded request is left out, because a repetition has
// another one.
func requestDigest(r *authz.WriteRequest, origin *storage.Origin) (digest [sha256.Size]byte, ok bool) {
	if len(r.Schemas) > 0 {
		return digest, false
	}
	content := storage.Entry{Origin: storage.Origin{Caller: origin.Caller, Reason: origin.Reason}, Changes: requestedChanges(r)}
	required := storage.Entry{}
	for i := range r.Preconditions {
		filter := storage.Filter{Target: storage.FilterTuples, Tuple: r.Preconditions[i].Filter}
		required.Changes = append(required.Changes, storage.Change{Kind: storage.RemoveByFilter, Filter: filter})
	}
	b := storage.AppendEntry(nil, &content)
	b = storage.AppendEntry(b, &required)
	for i := range r.Preconditions {
		b = append(b, 0)
		if r.Preconditions[i].Absent {
			b[len(b)-1] = 1
		}
	}
	b = append(b, byte(r.OnDuplicate), byte(r.OnMissing))
	for _, text := range []string{string(r.After), r.SchemaID} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return sha256.Sum256(b), true
}

// requestedChanges returns the changes that a request names. Other than those of its
// entry, they do not depend on the state of the store.
func requestedChanges(r *authz.WriteRequest) (all []storage.Change) {
	for i := range r.RemoveMatching {
		all = append(all, storage.Change{Kind: storage.RemoveByFilter, Filter: r.RemoveMatching[i]})
	}
	for _, k := range r.Remove {
		all = append(all, removal(k))
	}
	for i := range r.Add {
		all = append(all, storage.Change{Kind: storage.TupleAdd, Tuple: r.Add[i]})
	}
	for i := range r.RemoveAttributes {
		all = append(all, storage.Change{Kind: storage.AttributeRemove, Attribute: r.RemoveAttributes[i]})
	}
	for i := range r.SetAttributes {
		all = append(all, storage.Change{Kind: storage.AttributeSet, Attribute: r.SetAttributes[i]})
	}
	for _, id := range r.RemoveSchemas {
		all = append(all, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: snapshot.SchemaKind, Key: id}})
	}
	secrets := make([]storage.Document, len(r.Secrets)) // the ciphertext of a repetition differs
	for i, d := range r.Secrets {
		secrets[i] = storage.Document{Kind: d.Kind, Key: d.Key, Secondary: d.Secondary, Body: d.Body}
	}
	return documentChanges(r, all, secrets)
}

// noteUncertain remembers a write whose outcome is uncertain.
func (q *Queue) noteUncertain(r *authz.WriteRequest, origin *storage.Origin, head storage.Head) {
	digest, ok := requestDigest(r, origin)
	if !ok {
		return
	}
	u := &q.uncertain
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.all) == uncertainMax {
		u.all = append(u.all[:0], u.all[1:]...)
	}
	until := q.shared.runtime.Now() + rel.Time(repeatTime)
	u.all = append(u.all, uncertainWrite{digest, head, until})
	u.count.Store(int32(len(u.all)))
}

// madeBefore returns the head after a write that was refused with err, if it repeats
// an uncertain one that was made. It forgets the uncertain one then: a second
// repetition is refused.
func (q *Queue) madeBefore(ctx context.Context, r *authz.WriteRequest, origin *storage.Origin, err error) (storage.Head, bool) {
	u := &q.uncertain
	if u.count.Load() == 0 || !errors.Is(err, authz.ErrTupleExists) && !errors.Is(err, authz.ErrTupleMissing) && !errors.Is(err, authz.ErrPrecondition) {
		return storage.Head{}, false
	}
	digest, ok := requestDigest(r, origin)
	if !ok {
		return storage.Head{}, false
	}
	for _, w := range u.find(digest, q.shared.runtime.Now()) {
		// Other writers do not wait while the log is read.
		if q.hasHead(ctx, w.head) && u.forget(w) {
			return w.head, true
		}
	}
	return storage.Head{}, false
}

// hasHead reports whether the log has an entry with the hash of a head, which readers
// on other nodes see.
func (q *Queue) hasHead(ctx context.Context, head storage.Head) bool {
	for e, err := range q.shared.runtime.Driver.Entries(ctx, q.timeline.ID, head.Revision) {
		return err == nil && e.Revision == head.Revision && e.Hash() == head.Hash && q.shared.runtime.Acknowledge(ctx) == nil
	}
	return false
}
