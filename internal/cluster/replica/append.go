package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/trail/traces"
	"github.com/ostiary/ostiary/storage"
)

// gatherBytes is the size up to which waiting appends are gathered into one segment.
// A single one may be larger.
const gatherBytes = 4 << 20

// request is a change that waits for the log. It has entries, or a change of the
// catalog, or a trim, or it is a barrier.
type request struct {
	id          storage.StoreID
	incarnation storage.Incarnation

	after   storage.Head
	entries []storage.Entry
	sealed  []storage.Sealed
	bytes   int
	last    storage.Head // the head after the entries

	catalog *sharedlog.CatalogChange
	old     *storage.StoreInfo // of an update

	trim *sharedlog.StoreTrim

	barrier bool
	epoch   uint64 // of a barrier

	// span is that of the caller, for the statements of the segment; nil if it is not traced.
	span traces.Span

	// next, if it is not nil, is closed when the caller may append what follows, before this
	// is durable.
	next chan struct{}

	// done is closed when head, at and err are the outcome.
	done chan struct{}
	head storage.Head
	at   sharedlog.Position // of the segment that has the change; zero if there is none
	err  error

	mu    sync.Mutex // held by the appender while it uses entries and sealed
	phase phase      // guarded by mu
}

// phase is how far a request has come.
type phase uint8

const (
	waiting   phase = iota // no attempt was made
	underway               // its segment is being appended
	withdrawn              // the caller has left before an attempt
	abandoned              // the caller has left after an attempt, and may reuse its memory
)

// queue holds the requests that wait.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	closed  bool
	wake    chan struct{} // gets an element when a request was added
}

func (q *queue) add(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return storage.ErrClosed
	}
	if r.barrier { // it decides whether the others may be appended
		q.waiting = slices.Insert(q.waiting, 0, r)
	} else {
		q.waiting = append(q.waiting, r)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// gather removes the requests of the next segment from the queue: the first one, and
// all of its kind that fit. Each store has one place in a segment, and so has a change
// of the catalog.
func (q *queue) gather() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var group []*request
	seen := map[storage.StoreID]bool{}
	size := 0
	rest := q.waiting[:0]
	for i, r := range q.waiting {
		first := i == 0
		fits := first || r.kind() == group[0].kind() && r.catalog == nil && !r.barrier && !seen[r.id] && size+r.bytes <= gatherBytes
		if !fits {
			rest = append(rest, r)
			continue
		}
		group = append(group, r)
		seen[r.id] = true
		size += r.bytes
	}
	clear(q.waiting[len(rest):])
	q.waiting = rest
	return group
}

// kind returns a number that is the same for requests that one segment can have.
func (r *request) kind() int {
	switch {
	case r.catalog != nil:
		return 1
	case r.trim != nil:
		return 2
	case r.barrier:
		return 3
	}
	return 0
}

// close fails the waiting requests and all later ones.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, r := range q.waiting {
		r.finish(storage.Head{}, storage.ErrClosed)
	}
	q.waiting = nil
}

// finish sets the outcome.
func (r *request) finish(head storage.Head, err error) {
	r.head, r.err = head, err
	close(r.done)
}

// submit adds a request and waits until it is applied. If ctx ends before an attempt was
// made, the request has no effect. If it ends later, submit returns an error that wraps
// storage.ErrUncertain, and the attempt goes on.
func (r *Driver) submit(ctx context.Context, q *request) error {
	if err := r.enqueue(ctx, q); err != nil {
		return err
	}
	return r.await(ctx, q)
}

// enqueue adds a request to the queue.
func (r *Driver) enqueue(ctx context.Context, q *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	q.done, q.span = make(chan struct{}), traces.Of(ctx)
	return r.queue.add(q)
}

// await waits until a request is applied. A request whose segment is in the log
// counts as made if the node stops before it is applied.
func (r *Driver) await(ctx context.Context, q *request) error {
	if err := q.wait(ctx, &r.left); err != nil || q.at.Sequence == 0 {
		return err
	}
	if err := r.WaitApplied(ctx, q.at.Sequence); err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: segment %s is in the log, but not in the copy: %w", storage.ErrUncertain, q.at, err)
	}
	return nil
}

// wait waits for the outcome of a request, or until ctx ends.
func (q *request) wait(ctx context.Context, left *sync.Map) error {
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.done: // meanwhile
		return q.err
	default:
	}
	if q.phase == waiting {
		q.phase = withdrawn
		return ctx.Err()
	}
	q.phase = abandoned
	if len(q.entries) > 0 {
		left.Store(q.id, true)
	}
	return fmt.Errorf("%w: %w", storage.ErrUncertain, ctx.Err())
}

// write appends the requests of one segment, and finishes each of them. confirmed is true if
// the copy is known to have been as new as the log since the requests were gathered.
func (r *Driver) write(group []*request, confirmed bool) {
	for len(group) > 0 {
		var err error
		if group, err = r.attempt(group, &confirmed); err != nil {
			r.fail(group, err)
			return
		}
	}
}

// fail finishes requests with an error.
func (r *Driver) fail(group []*request, err error) {
	if r.ctx.Err() != nil && !errors.Is(err, storage.ErrUncertain) {
		err = storage.ErrClosed
	}
	for _, q := range group {
		q.finish(storage.Head{}, err)
	}
}

// attempt appends the requests that are valid on the copy, and finishes them. It
// returns those that must be tried again. confirmed is true while the copy is known
// to have been as new as the log since the requests were gathered, so that a request
// that is not valid can be refused. After an error that does not wrap
// storage.ErrUncertain, the requests that it returns have no effect.
func (r *Driver) attempt(group []*request, confirmed *bool) (again []*request, err error) {
	s, again, err := r.prepare(group, nil, *confirmed)
	if err == nil && len(again) > 0 { // the copy may be older than what the caller knows
		err = r.unsure(r.ctx, r.catchUp(r.ctx))
		*confirmed = err == nil
	}
	if s == nil {
		return again, err
	}
	r.appending.Store(s.record.Sequence)
	defer r.appending.Store(0)
	began := time.Now()
	if err = sharedlog.Commit(r.traced(s.requests), r.log, s.base.applied, s.record, s.secrets); err == nil {
		r.commits = time.Since(began)
	}
	return r.conclude(s, err, confirmed)
}

// prepare makes the segment of requests that are valid on the copy, or after the segments of
// w that are on their way to the log. If some are not valid, it makes none and returns all
// requests, unless confirmed is true: then it refuses those.
func (r *Driver) prepare(group []*request, w *window, confirmed bool) (s *sent, again []*request, err error) {
	round := r.own.begin()
	epoch, err := r.mayAppend(group[0])
	if err != nil {
		return nil, group, err
	}
	if err := r.take(r.ctx); err != nil {
		return nil, group, err
	}
	if !w.follows(r.AppliedSequence()) {
		r.give()
		return nil, group, nil
	}
	base := w.end(r)
	if r.opts.Gate.MayAppend == nil && !group[0].barrier {
		epoch = base.epoch
	}
	if epoch < base.epoch {
		r.give()
		return nil, group, fmt.Errorf("%w: it has epoch %d, and segment %s has epoch %d", ErrFenced, epoch, base.applied, base.epoch)
	}
	valid, refused := r.validate(group, base, w)
	if confirmed {
		for _, f := range refused {
			if f.err == errNothing {
				f.err = nil
			}
			f.request.finish(storage.Head{}, f.err)
		}
		refused = nil
	}
	if len(refused) > 0 {
		unlock(valid, waiting)
		r.give()
		for _, f := range refused {
			valid = append(valid, f.request)
		}
		return nil, valid, nil
	}
	if len(valid) == 0 {
		r.give()
		return nil, nil, nil
	}
	segment := r.segment(valid, base, epoch)
	record, err := segment.Record()
	secrets := secretChanges(valid)
	r.own.add(valid)
	r.give() // others may apply what other nodes append
	if err != nil {
		unlock(valid, waiting)
		return nil, valid, err
	}
	unlock(valid, underway)
	next := *base
	next.follow(record.Position, epoch, len(record.Bytes))
	return &sent{requests: valid, base: base, next: &next, record: record, secrets: secrets, round: round}, nil, nil
}

// conclude applies a segment that is in the log and finishes its requests, or returns them
// and why it is not there. After a conflict, they are tried again.
func (r *Driver) conclude(s *sent, err error, confirmed *bool) (again []*request, _ error) {
	if isConflict(err) {
		err = r.unsure(r.ctx, r.catchUp(r.ctx))
		*confirmed = err == nil
		return s.requests, err
	}
	if errors.Is(err, sharedlog.ErrTrimmed) {
		_ = r.catchUp(r.ctx) // so that writers find in the copy what was made
	}
	if err != nil {
		return s.requests, err
	}
	if r.opts.Gate.Appended != nil {
		passed := sharedlog.Passed{Record: s.record}
		for i := range s.secrets {
			if !s.secrets[i].Removed {
				passed.Secrets = append(passed.Secrets, s.secrets[i].Body)
			}
		}
		r.opts.Gate.Appended(passed)
	}
	r.finishAppended(s.requests, s.base, s.next, s.round)
	return nil, nil
}

// isConflict reports whether a segment cannot be in the log, because another one has its place.
func isConflict(err error) bool {
	_, is := errors.AsType[*sharedlog.ConflictError](err)
	return is
}

// traced returns the context of a segment. What is done for it is a part of the first request
// that is traced.
func (r *Driver) traced(group []*request) context.Context {
	for _, q := range group {
		if q.span != nil {
			return context.WithValue(r.ctx, traces.Key{}, q.span)
		}
	}
	return r.ctx
}

// mayAppend returns the epoch of the segment of a request, if the node may append it.
func (r *Driver) mayAppend(q *request) (epoch uint64, err error) {
	switch {
	case q.barrier:
		return q.epoch, nil
	case r.opts.Gate.MayAppend == nil:
		return 0, nil
	}
	return r.opts.Gate.MayAppend(r.ctx)
}

// unlock sets the phase of requests that validate has locked, and unlocks them.
func unlock(valid []*request, p phase) {
	for _, q := range valid {
		q.phase = p
		q.mu.Unlock()
	}
}

// finishAppended applies requests whose segment is in the log and leads from base to
// next, and finishes them. If they cannot be applied, the node stops serving; they count as
// made nevertheless.
func (r *Driver) finishAppended(valid []*request, base, next *state, round uint64) {
	at := next.applied
	if !r.applyOwn(valid, base, next, round) {
		_ = r.catchUp(r.ctx) // an error has stopped the node, or the follower tries again
	}
	for _, q := range valid {
		head := storage.Head{}
		if n := len(q.sealed); n > 0 {
			head = q.last
		}
		q.at = at
		q.finish(head, nil)
	}
}

// applyOwn applies requests whose segment is in the log, without reading it. It
// returns false if it must be read: a caller has left and may reuse its entries, or
// another goroutine applies it already.
func (r *Driver) applyOwn(valid []*request, base, next *state, round uint64) bool {
	if r.take(r.ctx) != nil {
		return false
	}
	defer r.give()
	if r.check() != nil || r.applied.Load().applied != base.applied || !r.own.in(round) {
		return false
	}
	for i, q := range valid {
		q.mu.Lock()
		if q.phase == abandoned {
			for _, locked := range valid[:i+1] {
				locked.mu.Unlock()
			}
			return false
		}
	}
	defer func() {
		for _, q := range valid {
			q.mu.Unlock()
		}
	}()
	switch {
	case valid[0].catalog != nil:
		_ = r.applyCatalog(valid[0].catalog, next)
	case valid[0].trim != nil:
		trims := make([]sharedlog.StoreTrim, len(valid))
		for i, q := range valid {
			trims[i] = *q.trim
		}
		_ = r.applyTrims(trims, next)
	case valid[0].barrier:
		_ = r.applyCommit(r.copy.Begin(), next)
	default:
		tx := r.copy.Begin()
		for _, q := range valid {
			if err := tx.Append(r.ctx, q.id, q.entries, q.sealed, true); err != nil {
				tx.Close()
				_ = r.stop(fmt.Errorf("segment %s is in the log, but not in the copy: %w", next.applied, err))
				return true
			}
		}
		_ = r.applyCommit(tx, next)
	}
	return true
}

// secretChanges returns what requests do to secrets.
func secretChanges(valid []*request) (all []sharedlog.SecretChange) {
	for _, q := range valid {
		key := sharedlog.SecretKey{Store: q.id, Incarnation: q.incarnation}
		if q.catalog != nil && q.catalog.Op == sharedlog.DeleteStore {
			all = append(all, sharedlog.SecretChange{SecretKey: key, Removed: true})
		}
		all = appendSecrets(all, key, q.entries)
	}
	return all
}

// appendSecrets appends what the entries of a store do to secrets.
func appendSecrets(all []sharedlog.SecretChange, key sharedlog.SecretKey, entries []storage.Entry) []sharedlog.SecretChange {
	for i := range entries {
		for j := range entries[i].Changes {
			c := &entries[i].Changes[j]
			if c.Kind != storage.SecretPut && c.Kind != storage.SecretRemove {
				continue
			}
			key.Kind, key.Key = c.Document.Kind, c.Document.Key
			change := sharedlog.SecretChange{SecretKey: key, Removed: c.Kind == storage.SecretRemove}
			if !change.Removed {
				change.Body = bytes.Clone(c.Document.Body)
				change.Digest = sha256.Sum256(change.Body)
			}
			all = append(all, change)
		}
	}
	return all
}

// refusal is a request that is not valid on the copy.
type refusal struct {
	request *request
	err     error
}

// validate checks requests on the copy. It drops those whose callers have left: they
// have no effect. The valid ones stay locked, so that their callers do not leave while
// their memory is read. The caller has the turn.
func (r *Driver) validate(group []*request, base *state, w *window) (valid []*request, refused []refusal) {
	for _, q := range group {
		q.mu.Lock()
		if q.phase == withdrawn || q.phase == abandoned {
			q.finish(storage.Head{}, context.Canceled)
			q.mu.Unlock()
			continue
		}
		q.phase = waiting
		err := r.valid(q, base, w)
		if err == nil {
			valid = append(valid, q)
			continue
		}
		q.mu.Unlock()
		refused = append(refused, refusal{q, err})
	}
	return valid, refused
}

// errNothing means that a request changes nothing.
var errNothing = errors.New("nothing to do")

// valid returns why a request cannot follow the copy and the segments of w.
func (r *Driver) valid(q *request, base *state, w *window) error {
	switch {
	case q.barrier:
		return nil
	case q.catalog != nil:
		q.catalog.Expected = base.catalog
		tx := r.copy.Begin()
		defer tx.Close()
		return stageCatalog(tx, q.old, q.catalog)
	case q.trim != nil:
		incarnation, err := r.copy.Incarnation(q.id)
		if err != nil {
			return err
		}
		q.trim.Incarnation = incarnation
		tx := r.copy.Begin()
		defer tx.Close()
		trims, err := tx.Trim(q.id, incarnation, q.trim.Log, q.trim.Rows)
		if err == nil && !trims {
			err = errNothing
		}
		return err
	}
	incarnation, err := r.copy.Incarnation(q.id)
	if err != nil {
		return err
	}
	head, ahead := w.head(q.id)
	if !ahead {
		head, err = r.copy.Head(q.id, incarnation)
	}
	switch {
	case err != nil:
		return err
	case head.Revision != q.after.Revision || head.Hash != q.after.Hash:
		return &storage.ConflictError{Head: head}
	case incarnation != q.incarnation:
		return fmt.Errorf("%w: the incarnation of the entries differs from the incarnation of the store", storage.ErrEntry)
	case q.entries[0].Time < head.Time:
		return fmt.Errorf("%w: the time of revision %d is earlier than its predecessor's", storage.ErrEntry, q.entries[0].Revision)
	}
	return nil
}

// segment returns the segment of valid requests, which follows base.
func (r *Driver) segment(valid []*request, base *state, epoch uint64) sharedlog.Segment {
	s := sharedlog.Segment{Version: uint8(r.version.Load()), Sequence: base.applied.Sequence + 1, Previous: base.applied.Hash, Epoch: epoch, Writer: base.node}
	slices.SortFunc(valid, func(a, b *request) int { return slices.Compare(a.id[:], b.id[:]) })
	for _, q := range valid {
		switch {
		case q.barrier: // its segment is empty
		case q.catalog != nil:
			s.Catalog = q.catalog
		case q.trim != nil:
			s.Trims = append(s.Trims, *q.trim)
		default:
			of := sharedlog.StoreEntries{Store: q.id, Incarnation: q.incarnation, Entries: make([][]byte, len(q.sealed))}
			for i := range q.sealed {
				of.Entries[i] = q.sealed[i].Bytes
			}
			s.Stores = append(s.Stores, of)
		}
	}
	return s
}
