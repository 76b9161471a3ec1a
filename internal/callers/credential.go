package callers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Credential is one way to authenticate as a key: one of its secrets, or its [Match]. It
// is the same value as long as neither it nor the scope of the key changes. Its methods may
// be called concurrently.
type Credential struct {
	key     *Key
	sum     [sha256.Size]byte
	forward [sha256.Size]byte
	until   time.Time // the end of this credential; zero: that of the key
	ends    time.Time // zero: never
	matched bool      // no secret, but a Match

	registry *Registry
	known    atomic.Bool // to the registry, which ends it
	revoked  atomic.Bool
	shorter  atomic.Pointer[time.Time] // an end that was set later, by a rotation
	bound    sync.Once
	binding  any

	mu      sync.Mutex
	streams map[*context.CancelFunc]struct{} // of [Credential.Until]
}

// Key returns the key.
func (c *Credential) Key() *Key { return c.key }

// ID identifies the credential for other nodes. It does not help to find the secret.
func (c *Credential) ID() [sha256.Size]byte { return c.forward }

// Bind returns what make returned when Bind was called for the first time.
func (c *Credential) Bind(make func() any) any {
	c.bound.Do(func() { c.binding = make() })
	return c.binding
}

func (c *Credential) expired(now time.Time) bool {
	if end := c.shorter.Load(); end != nil && !now.Before(*end) {
		return true
	}
	return !c.ends.IsZero() && !now.Before(c.ends)
}

// Ended reports whether the credential is known to be revoked, or has expired. It does
// not look at the store.
func (c *Credential) Ended() bool { return c.revoked.Load() || c.expired(c.registry.now()) }

// Until returns a context that ends when the credential is revoked or expires. It needs
// [Registry.Follow]. The caller calls release when it no longer needs the context.
func (c *Credential) Until() (ctx context.Context, release func()) {
	ctx, cancel := c.registry.until(c.ends)
	c.mu.Lock()
	if c.streams == nil {
		c.streams = map[*context.CancelFunc]struct{}{}
	}
	c.streams[&cancel] = struct{}{}
	c.mu.Unlock()
	if c.revoked.Load() || !c.registry.has(c) {
		cancel()
	}
	return ctx, func() {
		cancel()
		c.mu.Lock()
		delete(c.streams, &cancel)
		c.mu.Unlock()
	}
}

// revoke ends the credential.
func (c *Credential) revoke() {
	c.revoked.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.streams {
		(*cancel)()
	}
}

// shorten makes the credential end at a time, unless a call before has done so.
func (c *Credential) shorten(end time.Time) {
	if known := c.shorter.Load(); known != nil && known.Equal(end) {
		return
	}
	c.shorter.Store(&end)
	time.AfterFunc(end.Sub(c.registry.now()), c.revoke)
}

// AdministersAll reports whether the key has not ended and administers all stores.
func (c *Credential) AdministersAll() bool {
	return !c.Ended() && slices.Contains(c.key.Rights, authz.RightAdmin) && slices.Contains(c.key.Stores, Place{Pattern: all})
}

// Through returns the credential: a door does not change what its key may do.
func (c *Credential) Through(string) authz.Access { return c }

// Opens fails with [authz.ErrForbidden] if the key may not use a door.
func (c *Credential) Opens(ctx context.Context, door string) error {
	ok, err := c.registry.decide(ctx, decision{key: c.key, door: door})
	if err == nil && !ok {
		err = fmt.Errorf("%w: the key %q is not for the door %s", authz.ErrForbidden, c.key.Name, door)
	}
	return err
}

// Allow implements [authz.Access]. It fails as well once the credential has ended.
func (c *Credential) Allow(ctx context.Context, right authz.Right, store storage.StoreInfo) error {
	name := c.key.Name
	v, err := c.registry.newest(ctx)
	if err != nil {
		return err
	}
	if c = v.Value.bySum[c.sum]; c == nil || c.Ended() {
		return fmt.Errorf("%w: the key %q was revoked or has expired", authz.ErrForbidden, name)
	}
	ok, err := c.registry.decideAt(ctx, v, decision{key: c.key, store: store.ID, name: store.Name, right: right, system: store.Aliases[ostiary.SystemDoor] != ""})
	if err == nil && !ok {
		err = fmt.Errorf("%w: the key %q has no right %q on this store", authz.ErrForbidden, c.key.Name, right)
	}
	return err
}
