package callers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/storage"
)

// ErrNoMatch means that no key matches what a caller has shown. It is a kind of
// [authz.ErrForbidden].
var ErrNoMatch = fmt.Errorf("%w: no key matches the caller (ostiary key create with --match-issuer, --match-claim and --match-value, or --match-certificate)", authz.ErrForbidden)

// Matched are the keys that match a caller who has no secret of Ostiary. The caller may
// do what any of the keys may do. It never changes; its methods may be called
// concurrently.
type Matched struct {
	registry    *Registry
	at          *documents.At[*value] // where the keys were found
	credentials []*Credential         // in the order of the names of their keys
	ends        time.Time             // of what the caller has shown; zero: never
	doors       sync.Map              // of Through: *Matched by the name of the door
}

// Matching returns the keys whose [Match] fulfills accepts, for a caller who is known
// until ends; zero means for ever. It returns old, an earlier result for the same caller
// or nil, if the keys are still the same.
func (r *Registry) Matching(ctx context.Context, old *Matched, ends time.Time, fulfills func(Match) bool) (m *Matched, err error) {
	err = r.search(ctx, func(at *documents.At[*value]) (found bool) {
		if m = old; m == nil || m.at != at || m.Ended() {
			m = r.matching(at, ends, fulfills)
		}
		return len(m.credentials) > 0
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// matching returns the keys of at whose [Match] fulfills accepts.
func (r *Registry) matching(at *documents.At[*value], ends time.Time, fulfills func(Match) bool) *Matched {
	m := &Matched{registry: r, at: at, ends: ends}
	for _, k := range at.Value.byID {
		for _, c := range k.credentials {
			if c.matched && !c.Ended() && fulfills(k.Match) {
				m.credentials = append(m.credentials, r.hand(c))
			}
		}
	}
	slices.SortFunc(m.credentials, func(a, b *Credential) int { return strings.Compare(a.key.Name, b.key.Name) })
	return m
}

// ByIDs returns the keys with the ids of [Matched.IDs], or nil if one of them was revoked,
// has expired, or has a secret.
func (r *Registry) ByIDs(ctx context.Context, ids [][sha256.Size]byte) (*Matched, error) {
	m := &Matched{registry: r}
	for _, id := range ids {
		c, err := r.ByID(ctx, id)
		if err != nil || c == nil || !c.matched {
			return nil, err
		}
		m.credentials = append(m.credentials, c)
	}
	return m, nil
}

// Names are the names of the keys, in their order.
func (m *Matched) Names() (names []string) {
	for _, c := range m.credentials {
		names = append(names, c.key.Name)
	}
	return names
}

// IDs identify the keys for other nodes.
func (m *Matched) IDs() (ids [][sha256.Size]byte) {
	for _, c := range m.credentials {
		ids = append(ids, c.forward)
	}
	return ids
}

// Ended reports whether what the caller has shown has expired, or whether one of the keys
// is known to be revoked or has expired. It does not look at the store.
func (m *Matched) Ended() bool {
	return m.Expired() || slices.ContainsFunc(m.credentials, (*Credential).Ended)
}

// Expired reports whether what the caller has shown has expired.
func (m *Matched) Expired() bool { return !m.ends.IsZero() && !m.registry.now().Before(m.ends) }

// Until is like [Credential.Until]: the context ends when Ended becomes true.
func (m *Matched) Until() (ctx context.Context, release func()) {
	ctx, cancel := m.registry.until(m.ends)
	ends := []func(){cancel}
	for _, c := range m.credentials {
		one, done := c.Until()
		stop := context.AfterFunc(one, cancel)
		ends = append(ends, func() { stop(); done() })
	}
	return ctx, func() {
		for _, end := range ends {
			end()
		}
	}
}

// Opens fails with [ErrNoMatch] if there are no keys, and with [authz.ErrForbidden] if
// none of them may use a door.
func (m *Matched) Opens(ctx context.Context, door string) error {
	return m.any(func(c *Credential) error { return c.Opens(ctx, door) })
}

// Through returns what the caller may do through a door: what the keys that may use it
// allow.
func (m *Matched) Through(door string) authz.Access {
	if known, ok := m.doors.Load(door); ok {
		return known.(*Matched)
	}
	through := &Matched{registry: m.registry, at: m.at, ends: m.ends}
	for _, c := range m.credentials {
		if c.key.opens(door) {
			through.credentials = append(through.credentials, c)
		}
	}
	known, _ := m.doors.LoadOrStore(door, through)
	return known.(*Matched)
}

// Allow implements [authz.Access].
func (m *Matched) Allow(ctx context.Context, right authz.Right, store storage.StoreInfo) error {
	if m.Expired() {
		return fmt.Errorf("%w: the token or the certificate of the caller has expired", authz.ErrForbidden)
	}
	return m.any(func(c *Credential) error { return c.Allow(ctx, right, store) })
}

// any returns nil if allowed does for one of the keys, and otherwise its first error that
// is not a denial, or else the last denial.
func (m *Matched) any(allowed func(*Credential) error) error {
	why := ErrNoMatch
	for _, c := range m.credentials {
		if err := allowed(c); err == nil {
			return nil
		} else if why == ErrNoMatch || errors.Is(why, authz.ErrForbidden) {
			why = err
		}
	}
	return why
}

// AdministersAll reports whether one of the keys does.
func (m *Matched) AdministersAll() bool {
	return !m.Expired() && slices.ContainsFunc(m.credentials, (*Credential).AdministersAll)
}
