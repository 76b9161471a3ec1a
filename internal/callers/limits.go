package callers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
)

const (
	// LimitedMax is the largest number of callers and stores with limits.
	LimitedMax = 2 * KeysMax
	// limitsKind is the kind of the documents with limits in the system store.
	limitsKind = "limits"
)

// Limited is a caller or a store with limits, and what it has used on this node.
type Limited struct {
	// Caller is the name of a key: the limits are for its callers, and for those of all keys
	// that it has made. "" for a store.
	Caller string `json:"caller,omitempty"`
	// Store is the id of a store, and Incarnation its incarnation; "" for a caller.
	Store       string `json:"store,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	turns.Limits

	id          storage.StoreID // Store
	incarnation storage.Incarnation
	// RequestShare and ProcessorShare are what is used on this node; nil without a limit.
	RequestShare   *turns.Share `json:"-"`
	ProcessorShare *turns.Share `json:"-"`
}

// Name is the name of the key, or the id of the store, and kind which of both it is.
func (l *Limited) Name() (kind, name string) {
	if l.Store != "" {
		return "store", l.Store
	}
	return "key", l.Caller
}

// key is the key of the document. The name of a caller is hashed, because it can have each
// character.
func (l *Limited) key() string {
	if l.Store != "" {
		return "store:" + l.Store
	}
	sum := sha256.Sum256([]byte(l.Caller))
	return "caller:" + hex.EncodeToString(sum[:16])
}

// write adds the document to a write, or its removal if nothing is limited.
func (l *Limited) write(w *authz.WriteRequest) error {
	if l.None() {
		w.RemoveDocuments = append(w.RemoveDocuments, authz.DocumentKey{Kind: limitsKind, Key: l.key()})
		return nil
	}
	body, err := json.Marshal(l)
	w.Documents = append(w.Documents, authz.Document{Kind: limitsKind, Key: l.key(), Body: body})
	return err
}

// limits are those with limits at one revision. They never change. Nil is none.
type limits struct {
	all     map[string]*Limited // by the key of the document
	callers map[string]*Limited // by the name
	stores  map[storage.StoreID]*Limited
}

// ofCaller returns the limits of the caller with a name, or nil.
func (l *limits) ofCaller(name string) *Limited {
	if l == nil {
		return nil
	}
	return l.callers[name]
}

// apply returns the limits after changes of documents of limitsKind. Limits that stay the same
// keep their shares; changed ones begin with a full burst.
func (l *limits) apply(changes []storage.Change) (*limits, error) {
	next := &limits{map[string]*Limited{}, map[string]*Limited{}, map[storage.StoreID]*Limited{}}
	if l != nil {
		next = &limits{maps.Clone(l.all), maps.Clone(l.callers), maps.Clone(l.stores)}
	}
	for i := range changes {
		d := &changes[i].Document
		if old := next.all[d.Key]; old != nil {
			delete(next.all, d.Key)
			delete(next.callers, old.Caller)
			delete(next.stores, old.id)
		}
		if changes[i].Kind != storage.DocumentPut {
			continue
		}
		n, err := readLimited(d)
		if err != nil {
			return nil, err
		}
		next.all[d.Key] = n
		if n.Store != "" {
			next.stores[n.id] = n
		} else {
			next.callers[n.Caller] = n
		}
	}
	if len(next.all) == 0 {
		return nil, nil
	}
	return next, nil
}

// readLimited reads a document of limitsKind.
func readLimited(d *storage.Document) (*Limited, error) {
	l := &Limited{}
	err := json.Unmarshal(d.Body, l)
	if err == nil {
		err = l.Check()
	}
	if err == nil && l.Store != "" && len(l.Incarnation) != 2*len(l.incarnation) {
		err = fmt.Errorf("an incarnation of %d characters", len(l.Incarnation))
	}
	if err == nil && l.Store != "" {
		if l.id, err = storage.ParseStoreID(l.Store); err == nil {
			_, err = hex.Decode(l.incarnation[:], []byte(l.Incarnation))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: limits %s: %w", authz.ErrDamaged, d.Key, err)
	}
	l.RequestShare, l.ProcessorShare = l.Shares()
	return l, nil
}

// limits returns the limits of the revision that was read last, without a look at the store.
func (r *Registry) limits() *limits {
	if at := r.documents.Loaded(); at != nil {
		return at.Value.limits
	}
	return nil
}

// AnyLimited reports whether a caller or a store has limits.
func (r *Registry) AnyLimited() bool { return r.limits() != nil }

// LimitsOfCaller appends to all the limits that count for the caller with a name: its own, and
// those of the keys that made it.
func (r *Registry) LimitsOfCaller(all []*Limited, name string) []*Limited {
	l := r.limits()
	if l == nil || len(l.callers) == 0 {
		return all
	}
	for {
		if n := l.callers[name]; n != nil && !slices.Contains(all, n) {
			all = append(all, n)
		}
		end := strings.LastIndexByte(name, makerEnd[0])
		if end < 0 {
			return all
		}
		name = name[:end]
	}
}

// LimitsOfStore returns the limits of a store, or nil.
func (r *Registry) LimitsOfStore(store storage.StoreInfo) *Limited {
	if l := r.limits(); l != nil {
		if n := l.stores[store.ID]; n != nil && n.incarnation == store.Incarnation {
			return n
		}
	}
	return nil
}

// SetLimits sets the limits of a key, or of a caller of another kind: a preshared key or a user
// with a password. Limits that limit nothing are removed. SetLimits fails with [ErrNoKey] if the
// caller of ctx sees no key with the name, with [authz.ErrInvalidRequest] for invalid limits,
// and with [authz.ErrForbidden] unless the caller administers all stores, or its key has made
// that key: a key does not change its own limits.
func (r *Registry) SetLimits(ctx context.Context, name string, n turns.Limits) error {
	if err := n.Check(); err != nil {
		return invalid("%w", err)
	}
	return r.change(ctx, func(v *value) (*authz.WriteRequest, error) {
		k := v.byName[name]
		switch names := r.avoided.Load(); {
		case k != nil && sees(ctx, k):
		case k == nil && r.administers(ctx, v) && (v.limits.ofCaller(name) != nil || names != nil && slices.Contains((*names)(), name)):
		default:
			return nil, noKey(name)
		}
		if !r.mayLimit(ctx, v, name) {
			return nil, fmt.Errorf("%w: the limits of the key %q are set by a key that has made it, or by callers with admin on all stores", authz.ErrForbidden, name)
		}
		w := &authz.WriteRequest{OnMissing: authz.Ignore}
		return w, r.writeLimits(ctx, v, w, &Limited{Caller: name, Limits: n})
	})
}

// SetStoreLimits sets the limits of a store, for all its callers together. Limits that limit
// nothing are removed. It fails with [authz.ErrInvalidRequest] for invalid limits and for the
// system store, and with [authz.ErrForbidden] unless the caller of ctx administers all stores.
func (r *Registry) SetStoreLimits(ctx context.Context, store storage.StoreInfo, n turns.Limits) error {
	if err := n.Check(); err != nil {
		return invalid("%w", err)
	}
	if store.Aliases[ostiary.SystemDoor] != "" {
		return invalid("the system store has no limits: requests to other stores need it")
	}
	return r.change(ctx, func(v *value) (*authz.WriteRequest, error) {
		if !r.administers(ctx, v) {
			return nil, fmt.Errorf("%w: the limits of a store are set by callers with admin on all stores", authz.ErrForbidden)
		}
		w := &authz.WriteRequest{OnMissing: authz.Ignore}
		return w, r.writeLimits(ctx, v, w, &Limited{Store: store.ID.String(), Incarnation: hex.EncodeToString(store.Incarnation[:]), Limits: n})
	})
}

// Limited returns the callers and stores with limits that the caller of ctx may see: those of the
// keys that it sees, and all if it administers all stores; the keys first, by their names.
func (r *Registry) Limited(ctx context.Context) (all []*Limited, err error) {
	at, err := r.confirmed(ctx)
	if err != nil || at.Value.limits == nil {
		return nil, err
	}
	v := at.Value
	for name, l := range v.limits.callers {
		if k := v.byName[name]; k != nil && sees(ctx, k) || r.administers(ctx, v) {
			all = append(all, l)
		}
	}
	for _, l := range v.limits.stores {
		if r.administers(ctx, v) {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *Limited) int {
		return cmp.Or(strings.Compare(a.Store, b.Store), strings.Compare(a.Caller, b.Caller))
	})
	return all, nil
}

// StoreLimits returns the limits of a store, or none, at the newest revision.
func (r *Registry) StoreLimits(ctx context.Context, store storage.StoreInfo) (turns.Limits, error) {
	if _, err := r.newest(ctx); err != nil {
		return turns.Limits{}, err
	}
	if l := r.LimitsOfStore(store); l != nil {
		return l.Limits, nil
	}
	return turns.Limits{}, nil
}

// Limits returns the limits of the key with a name, or none, of the revision that was read last.
func (r *Registry) Limits(name string) turns.Limits {
	if n := r.limits().ofCaller(name); n != nil {
		return n.Limits
	}
	return turns.Limits{}
}

// administers reports whether the caller of ctx may do everything, or administers all stores.
func (r *Registry) administers(ctx context.Context, v *value) bool {
	_, own := callersOf(ctx)
	return own || administersAll(ctx, v)
}

// Administers returns nil if the caller of ctx may do everything, or administers all stores, and
// otherwise an error that wraps [authz.ErrForbidden].
func (r *Registry) Administers(ctx context.Context) error {
	at, err := r.confirmed(ctx)
	if err == nil && !r.administers(ctx, at.Value) {
		err = fmt.Errorf("%w: the calling key needs the right admin on all stores", authz.ErrForbidden)
	}
	return err
}

// Unlimited reports whether a caller with an access, which is nil for everything, may set all
// limits. So no limit must keep it from setting them.
func (r *Registry) Unlimited(access authz.Access) bool {
	ctx := context.Background()
	if access != nil {
		ctx = authz.WithAccess(ctx, access)
	}
	at := r.documents.Loaded()
	return at != nil && r.administers(ctx, at.Value)
}

// mayLimit reports whether the caller of ctx may set the limits of the caller with a name.
func (r *Registry) mayLimit(ctx context.Context, v *value, name string) bool {
	if r.administers(ctx, v) {
		return true
	}
	callers, _ := callersOf(ctx)
	return slices.ContainsFunc(callers, func(c *Credential) bool {
		return v.bySum[c.sum] != nil && !c.Ended() && strings.HasPrefix(name, c.key.Name+makerEnd) && (v.byName[name] == nil || c.key.Covers(v.byName[name]))
	})
}

// writeLimits adds limits to a write, and the removal of some of stores that no longer exist. A
// [authz.BoundError] names the bound of LimitedMax.
func (r *Registry) writeLimits(ctx context.Context, v *value, w *authz.WriteRequest, l *Limited) error {
	if l.None() && (v.limits == nil || v.limits.all[l.key()] == nil) {
		return nil
	}
	left := 0
	if v.limits != nil {
		left = len(v.limits.all)
		for _, old := range v.limits.stores {
			if len(w.RemoveDocuments) == expiredMax || left < LimitedMax/2 {
				break
			}
			if s, err := r.engine.Store(documents.SystemContext(ctx), old.id); old.key() != l.key() && (errors.Is(err, authz.ErrNoStore) || err == nil && s.Info().Incarnation != old.incarnation) {
				w.RemoveDocuments = append(w.RemoveDocuments, authz.DocumentKey{Kind: limitsKind, Key: old.key()})
				left--
			}
		}
		if v.limits.all[l.key()] != nil {
			left--
		}
	}
	if left >= LimitedMax && !l.None() {
		return fmt.Errorf("callers and stores with limits: %w", &authz.BoundError{Name: "LimitedMax", Max: LimitedMax, Got: int64(left) + 1})
	}
	return l.write(w)
}
