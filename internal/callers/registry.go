package callers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/tool/derived"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

const (
	// decisionsMax is the largest number of decisions that are remembered.
	decisionsMax = 20_000
	// followPause is how long [Registry.Follow] waits before it looks for the system
	// store again.
	followPause = 250 * time.Millisecond
)

// Options are the settings of a [Registry].
type Options struct {
	// Doors are the names of the doors that a key may name. Nil accepts every name.
	Doors []string
	// Clock returns the current time. Default time.Now.
	Clock func() time.Time
}

// Registry finds and changes the keys in the system store of an engine, which the first
// key creates. It sees every change that was acknowledged before a call, on whichever
// node. It may be used concurrently, and starts no goroutine.
type Registry struct {
	engine    *ostiary.Engine
	options   Options
	began     time.Time // see Elapsed
	decisions *derived.Cache[*documents.At[*value], decision, bool]

	documents *documents.System[*value]
	// unkeyed ends when the registry sees the first key, see Any.
	unkeyed context.Context
	keyed   context.CancelFunc

	avoided atomic.Pointer[func() []string] // see Avoid

	mu     sync.Mutex    // guards handed
	handed []*Credential // those that callers have got, and that have not ended
}

// value are the keys at one revision. It never changes.
type value struct {
	byID      map[string]*Key
	byName    map[string]*Key
	bySum     map[[sha256.Size]byte]*Credential
	byForward map[[sha256.Size]byte]*Credential
	limits    *limits
}

// decision is a question: a right of a key on a store, or whether it may use a door.
type decision struct {
	key    *Key
	store  storage.StoreID
	name   string // of the store
	right  authz.Right
	system bool // the store is the system store
	door   string
}

// New returns the registry of an engine. It reads nothing yet.
func New(e *ostiary.Engine, o Options) *Registry {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	r := &Registry{engine: e, options: o, began: time.Now(), decisions: derived.New[*documents.At[*value], decision, bool](decisionsMax)}
	r.unkeyed, r.keyed = context.WithCancel(context.Background())
	r.documents = documents.NewSystem(e, documents.Form[*value]{Kinds: []string{keyType, limitsKind}, Empty: empty,
		Apply: func(_ context.Context, old *value, changes []storage.Change) (*value, error) {
			return r.apply(old, changes)
		}})
	return r
}

func (r *Registry) now() time.Time { return r.options.Clock() }

// Elapsed returns the time of [Limited] in nanoseconds: it begins with the registry, and never
// jumps.
func (r *Registry) Elapsed(at time.Time) int64 { return int64(at.Sub(r.began)) }

// until returns a context that ends at a time of the registry's clock; zero: never.
func (r *Registry) until(end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return context.WithCancel(context.Background())
	}
	return context.WithDeadline(context.Background(), time.Now().Add(end.Sub(r.now())))
}

// create returns the replica of the system store with the model of keys. It makes what is
// missing.
func (r *Registry) create(ctx context.Context) (*documents.Stored[*value], error) {
	s, err := r.documents.Create(ctx)
	if err != nil {
		return nil, err
	}
	ctx = documents.SystemContext(ctx)
	_, err = s.Store.CurrentSchema(ctx, "")
	if errors.Is(err, authz.ErrNoSchema) {
		_, _, err = s.Store.WriteSchema(ctx, authz.SchemaSource{Model: Model(), Dialect: dialect})
	}
	return s, err
}

// empty are the keys of a system without any.
func empty() *value {
	return &value{map[string]*Key{}, map[string]*Key{}, map[[sha256.Size]byte]*Credential{}, map[[sha256.Size]byte]*Credential{}, nil}
}

// apply returns the keys after changes of their documents.
func (r *Registry) apply(old *value, changes []storage.Change) (*value, error) {
	next := &value{maps.Clone(old.byID), maps.Clone(old.byName), maps.Clone(old.bySum), maps.Clone(old.byForward), old.limits}
	var limited []storage.Change
	for i := range changes {
		c := &changes[i]
		if c.Document.Kind == limitsKind {
			limited = append(limited, *c)
			continue
		}
		switch c.Kind {
		case storage.DocumentPut:
			key, err := readKey(c.Document.Key, c.Document.Body)
			if err != nil {
				return nil, err
			}
			next.put(r, key)
		case storage.DocumentRemove:
			next.remove(c.Document.Key)
		case storage.RemoveByFilter:
			*next = *empty()
			limited = nil
		}
	}
	if limited == nil {
		return next, nil
	}
	var err error
	next.limits, err = next.limits.apply(limited)
	return next, err
}

// put adds or replaces a key. The credentials that stay the same keep their values.
func (v *value) put(r *Registry, k *Key) {
	old := v.byID[k.ID]
	v.remove(k.ID)
	for i, c := range k.credentials {
		c.registry = r
		if old != nil && old.sameScope(k) {
			for _, known := range old.credentials {
				if known.sum == c.sum && known.ends.Equal(c.ends) {
					c, k.credentials[i] = known, known
				}
			}
		}
		v.bySum[c.sum], v.byForward[c.forward] = c, c
	}
	v.byID[k.ID], v.byName[k.Name] = k, k
}

// sameScope reports whether two versions of a key differ in their secrets only.
func (k *Key) sameScope(other *Key) bool {
	return k.Name == other.Name && k.Owner == other.Owner && k.Match == other.Match && k.Expires.Equal(other.Expires) &&
		slices.Equal(k.Stores, other.Stores) && slices.Equal(k.Rights, other.Rights) && slices.Equal(k.Doors, other.Doors)
}

func (v *value) remove(id string) {
	k := v.byID[id]
	if k == nil {
		return
	}
	for _, c := range k.credentials {
		delete(v.bySum, c.sum)
		delete(v.byForward, c.forward)
	}
	delete(v.byID, id)
	delete(v.byName, k.Name)
}

// newest returns the keys at the newest revision, see [documents.Documents.Newest].
func (r *Registry) newest(ctx context.Context) (*documents.At[*value], error) {
	return r.noted(r.documents.Newest(ctx))
}

// confirmed returns the keys at the newest revision, see [documents.Documents.Confirmed].
func (r *Registry) confirmed(ctx context.Context) (*documents.At[*value], error) {
	return r.noted(r.documents.Confirmed(ctx))
}

// noted returns keys that were read, and notes whether there are any.
func (r *Registry) noted(at *documents.At[*value], err error) (*documents.At[*value], error) {
	if at == nil && err == nil {
		at = noKeys
	}
	if err == nil && len(at.Value.byID) > 0 && !r.Any() {
		r.keyed()
	}
	return at, err
}

// noKeys is the value without a system store.
var noKeys = &documents.At[*value]{Value: empty()}

// Secret returns the credential of a secret, or nil if no key has it, or only one that
// has expired.
func (r *Registry) Secret(ctx context.Context, secret string) (*Credential, error) {
	return r.live(ctx, func(v *value) *Credential {
		if c := v.bySum[sha256.Sum256([]byte(secret))]; c != nil && !c.matched {
			return c
		}
		return nil
	})
}

// ByID returns the credential with an id of [Credential.ID], or nil.
func (r *Registry) ByID(ctx context.Context, id [sha256.Size]byte) (*Credential, error) {
	return r.live(ctx, func(v *value) *Credential { return v.byForward[id] })
}

func (r *Registry) live(ctx context.Context, find func(*value) *Credential) (c *Credential, err error) {
	err = r.search(ctx, func(at *documents.At[*value]) (found bool) {
		if c = find(at.Value); c != nil && c.Ended() {
			c = nil
		}
		return c != nil
	})
	if c == nil || err != nil {
		return nil, err
	}
	return r.hand(c), nil
}

// search calls find with the keys at the newest revision. A node that may lack acknowledged writes
// uses what it has, as [documents.System.Newest] does, but what find does not find there another
// node may have: search fails with ErrNoLease then.
func (r *Registry) search(ctx context.Context, find func(at *documents.At[*value]) (found bool)) error {
	at, err := r.confirmed(ctx)
	if err == nil {
		find(at)
		return nil
	}
	if loaded := r.documents.Loaded(); loaded != nil && errors.Is(err, authz.ErrNoLease) && find(loaded) {
		return nil
	}
	return err
}

// hand returns a credential for a caller, and notes it for sweep.
func (r *Registry) hand(c *Credential) *Credential {
	if !c.known.Load() && !c.known.Swap(true) {
		r.mu.Lock()
		r.handed = append(r.handed, c)
		r.mu.Unlock()
	}
	return c
}

// Len returns the number of keys, with expired ones.
func (r *Registry) Len(ctx context.Context) (int, error) {
	at, err := r.newest(ctx)
	if err != nil {
		return 0, err
	}
	return len(at.Value.byID), nil
}

// Counts are the numbers of keys by state, and when the next valid one expires; zero if none
// does.
type Counts struct {
	Valid, Expired int
	Next           time.Time
}

// Count counts the keys as the registry has read them last. It does not look at the store, which
// may wait for other nodes.
func (r *Registry) Count() (c Counts) {
	at := r.documents.Loaded()
	if at == nil {
		return c
	}
	for _, k := range at.Value.byID {
		switch {
		case k.Expires.IsZero():
			c.Valid++
		case k.expired(r.now()):
			c.Expired++
		default:
			c.Valid++
			if c.Next.IsZero() || k.Expires.Before(c.Next) {
				c.Next = k.Expires
			}
		}
	}
	return c
}

// Any reports whether there was a key since the registry was made, as far as it has looked:
// it looks at each change that it makes, and while Follow runs at all others. Once Any is
// true it stays so.
func (r *Registry) Any() bool { return r.unkeyed.Err() != nil }

func (r *Registry) decide(ctx context.Context, d decision) (bool, error) {
	at, err := r.newest(ctx)
	if err != nil {
		return false, err
	}
	return r.decideAt(ctx, at, d)
}

// decideAt returns the answer of the system store to a question. It remembers the answers
// of the newest revision.
func (r *Registry) decideAt(ctx context.Context, at *documents.At[*value], d decision) (bool, error) {
	if yes, known := r.decisions.Get(at, d); known {
		return yes, nil
	}
	ctx = documents.SystemContext(ctx)
	s, err := r.documents.Find(ctx)
	if err != nil || s == nil {
		return false, err
	}
	q := d.question()
	q.Consistency = authz.MinimizeLatency()
	answer, err := s.Store.Check(ctx, q)
	if err != nil {
		return false, err
	}
	yes := answer.Allowed()
	r.decisions.Add(at, d, yes)
	return yes, nil
}

// question returns the check of a decision.
func (d *decision) question() authz.CheckRequest {
	q := authz.CheckRequest{Subject: rel.Subject{Type: keyType, ID: d.key.ID}}
	if d.door != "" {
		q.Object, q.Relation = rel.Object{Type: doorType, ID: d.door}, useRelation
		q.Tuples = []rel.Tuple{tuple(doorType, d.door, everyDoor, doorType, anyID)}
		return q
	}
	id := d.store.String()
	q.Object, q.Relation = rel.Object{Type: storeType, ID: id}, d.right.String()
	if d.system {
		q.Tuples = []rel.Tuple{tuple(storeType, id, systemOf, namesType, anyID)}
		return q
	}
	for _, p := range d.key.Stores {
		if p.matches(d.name) {
			q.Tuples = append(q.Tuples, tuple(storeType, id, namedBy, namesType, namesID(p.Pattern)))
		}
	}
	return q
}

// Follow ends the streams of keys that are revoked, on whichever node, until ctx ends.
func (r *Registry) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		s, err := r.documents.Find(ctx)
		if err == nil && s != nil {
			// From the revision of the sweep on: a change before the watch begins is not missed.
			after := r.sweep(ctx)
			for _, err := range s.Store.Watch(documents.SystemContext(ctx), authz.WatchRequest{After: after}) {
				r.sweep(ctx)
				if err != nil {
					break
				}
			}
		}
		r.sweep(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(followPause):
		}
	}
}

// has reports whether the newest revision that was read has a credential.
func (r *Registry) has(c *Credential) bool {
	at := r.documents.Loaded()
	return at != nil && at.Value.bySum[c.sum] != nil
}

// sweep ends the credentials that the newest revision no longer has. It returns the token of that
// revision, or "" if it cannot be read.
func (r *Registry) sweep(ctx context.Context) authz.Token {
	at, err := r.newest(ctx)
	if err != nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handed = slices.DeleteFunc(r.handed, func(c *Credential) bool {
		now := at.Value.bySum[c.sum]
		switch {
		case now == c:
			return false
		case now == nil || !now.key.sameScope(c.key):
			c.revoke()
		case !now.ends.IsZero():
			c.shorten(now.ends)
		}
		return c.Ended()
	})
	return at.Token
}

// noKey is the error of a name that no key has.
func noKey(name string) error { return fmt.Errorf("%w: %q", ErrNoKey, name) }
