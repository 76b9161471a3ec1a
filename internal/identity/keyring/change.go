package keyring

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
)

// Errors of changes.
var (
	// ErrNone means that the system store has no keys for a purpose.
	ErrNone = errors.New("the system store has no keys of this kind")
	// ErrOther means that the system store has other keys than those of an import.
	ErrOther = errors.New("the system store has other keys")
	// ErrBehind means that a node lacks the staged key.
	ErrBehind = errors.New("the staged key cannot become the primary one")
	// ErrRotated means that another rotation was faster.
	ErrRotated = errors.New("the keys were changed meanwhile")
)

// Nodes is what a rotation needs to know of the nodes of a cluster. Its methods may be
// called concurrently.
type Nodes interface {
	// Applied returns the sequence of the shared log that this node has applied.
	Applied() uint64
	// Behind returns the registered nodes that have not reported yet that they have applied
	// a sequence, except those that no longer count because they were not seen for long.
	Behind(ctx context.Context, sequence uint64) ([]Lagging, error)
}

// Lagging is a node that has not reported that it has applied a sequence.
type Lagging struct {
	// Name names the node for people: its id and its address.
	Name string `json:"name"`
	// Applied is the sequence that it has applied at its last report.
	Applied uint64 `json:"applied"`
	// Seen is how long ago the report was.
	Seen time.Duration `json:"seen"`
	// Runs is false if the node does not run, so that waiting does not help.
	Runs bool `json:"runs"`
}

// String describes the node.
func (l Lagging) String() string {
	state := "runs"
	if !l.Runs {
		state = "does not run"
	}
	return fmt.Sprintf("node %s, which %s, reported %s ago", l.Name, state, l.Seen.Round(time.Second))
}

// List returns the keys of a purpose, the primary one first and the staged one last, and
// the nodes that lack the staged one. It fails with [ErrNone].
func (k *Keyring) List(ctx context.Context, p Purpose) ([]Key, []Lagging, error) {
	now, err := k.now(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	behind, err := k.behind(ctx, now)
	return slices.Clone(now.Keys), behind, err
}

// now returns the keys of a purpose. It fails with [ErrNone].
func (k *Keyring) now(ctx context.Context, p Purpose) (*keys, error) {
	all, err := k.newest(ctx)
	if err == nil && all[p] == nil {
		err = fmt.Errorf("%w: %s", ErrNone, p)
	}
	return all[p], err
}

// behind returns the nodes that lack the staged key.
func (k *Keyring) behind(ctx context.Context, now *keys) ([]Lagging, error) {
	if k.nodes == nil {
		return nil, nil
	}
	// Without the sequence, the one now is late enough; a later one is of another log.
	at := k.nodes.Applied()
	if now.StagedAt > 0 {
		at = min(at, now.StagedAt)
	}
	return k.nodes.Behind(ctx, at)
}

// Export returns the keys of a purpose in the form of a folder of Keystone. It fails with
// [ErrNone].
func (k *Keyring) Export(ctx context.Context, p Purpose) (out []token.NumberedKey, err error) {
	now, err := k.now(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, key := range now.Keys {
		secret, err := k.secret(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("key %d of %s: %w", key.Number, p, err)
		}
		out = append(out, token.NumberedKey{Number: key.Number, Key: secret})
	}
	return out, nil
}

// Setup makes a primary and a staged key for each purpose that has none.
func (k *Keyring) Setup(ctx context.Context) error {
	return k.change(ctx, func(old value) (value, []authz.Document, error) {
		next, secrets := value{}, []authz.Document(nil)
		for _, p := range Purposes() {
			if old[p] == nil {
				secrets = append(secrets, next.add(p, []token.NumberedKey{{Number: 1, Key: settings.NewKey()}})...)
			}
		}
		return next, secrets, nil
	})
}

// Import replaces the keys of purposes by those of folders. At least one of each must not
// be staged. It makes a staged key where there is none. Import leaves a purpose as it is
// if the system store has the same keys. It fails with [ErrOther], and changes nothing, if
// the system store has other ones and replace is not set.
func (k *Keyring) Import(ctx context.Context, from map[Purpose][]token.NumberedKey, replace bool) error {
	wanted := map[Purpose][]token.NumberedKey{}
	for p, keys := range from {
		keys, err := p.checked(keys)
		if err != nil {
			return err
		}
		if had, err := k.Export(ctx, p); err != nil || !covers(had, keys) {
			wanted[p] = keys
		}
	}
	return k.change(ctx, func(old value) (value, []authz.Document, error) {
		next, secrets := value{}, []authz.Document(nil)
		for p, keys := range wanted {
			if old[p] != nil && !replace {
				return nil, nil, fmt.Errorf("%w: %s", ErrOther, p)
			}
			secrets = append(secrets, next.add(p, keys)...)
		}
		return next, secrets, nil
	})
}

// checked returns the keys of a folder, the primary one first. It fails if they are not
// what a folder of Keystone has.
func (p Purpose) checked(keys []token.NumberedKey) ([]token.NumberedKey, error) {
	keys = slices.SortedFunc(slices.Values(keys), func(a, b token.NumberedKey) int { return b.Number - a.Number })
	switch {
	case !slices.Contains(Purposes(), p):
		return nil, fmt.Errorf("%w: unknown kind of keys %q: expected one of %q", authz.ErrInvalidRequest, p, Purposes())
	case len(keys) == 0 || keys[0].Number == 0:
		return nil, fmt.Errorf("%w: the keys of %s have no primary key: expected a file that is named by a number above 0", authz.ErrInvalidRequest, p)
	case len(keys) >= KeysMax:
		return nil, &authz.BoundError{Name: "KeysMax", Max: KeysMax - 1, Got: int64(len(keys))}
	case keys[len(keys)-1].Number < 0:
		return nil, fmt.Errorf("%w: a key of %s has the number %d", authz.ErrInvalidRequest, p, keys[len(keys)-1].Number)
	}
	for i := range keys[1:] {
		if keys[i].Number == keys[i+1].Number {
			return nil, fmt.Errorf("%w: two keys of %s have the number %d", authz.ErrInvalidRequest, p, keys[i].Number)
		}
	}
	return keys, nil
}

// covers reports whether keys are those of an import, to which a staged key may have been
// added.
func covers(had, from []token.NumberedKey) bool {
	if len(had) == len(from)+1 && from[len(from)-1].Number != 0 {
		had = had[:len(from)]
	}
	return slices.Equal(had, from)
}

// add sets the keys of a purpose to those of a folder, the primary one first, and returns
// their secrets.
func (v value) add(p Purpose, from []token.NumberedKey) (secrets []authz.Document) {
	if from[len(from)-1].Number != 0 {
		from = append(slices.Clone(from), token.NumberedKey{Key: settings.NewKey()})
	}
	next := &keys{}
	for _, f := range from {
		key, secret := sealed(f.Number, f.Key)
		next.Keys, secrets = append(next.Keys, key), append(secrets, secret)
	}
	v[p] = next
	return secrets
}

// sealed returns a key with a new id, and its secret.
func sealed(number int, k settings.Key) (Key, authz.Document) {
	key := Key{Number: number, Made: time.Now().UTC().Truncate(time.Second), ID: strings.ToLower(rand.Text())}
	return key, authz.Document{Kind: secretKind, Key: key.ID, Body: []byte(k.Encode())}
}

// Rotation is a rotation to make.
type Rotation struct {
	// Purpose is what the keys are for.
	Purpose Purpose
	// ActiveMax is the number of keys that are left, at least 2: the staged key and the
	// primary one.
	ActiveMax int
	// Force makes the staged key the primary one although nodes lack it.
	Force bool
	// Wait is how long the rotation waits for nodes that run.
	Wait time.Duration
}

// Rotated is what a rotation did.
type Rotated struct {
	// Primary is the number of the key that was staged.
	Primary int `json:"primary"`
	// Removed are the numbers of the removed keys, whose tokens are no longer valid.
	Removed []int `json:"removed"`
	// Lacking are the nodes that lacked the key, if Force is set.
	Lacking []Lagging `json:"lacking,omitempty"`
}

// behindPause is how long a rotation waits before it looks at the nodes again.
const behindPause = 200 * time.Millisecond

// Rotate makes the staged key the primary one when every registered node has applied it,
// stages a new key, and removes the oldest keys beyond ActiveMax. It fails with [ErrNone];
// with [ErrBehind], which names the nodes, if a node lacks the key and does not run, or has
// not applied it after Wait; and with [ErrRotated].
func (k *Keyring) Rotate(ctx context.Context, r Rotation) (*Rotated, error) {
	if r.ActiveMax < 2 || r.ActiveMax > KeysMax {
		return nil, fmt.Errorf("%w: invalid number of keys %d: expected 2 to %d", authz.ErrInvalidRequest, r.ActiveMax, KeysMax)
	}
	now, err := k.now(ctx, r.Purpose)
	if err != nil {
		return nil, err
	}
	if _, err := k.secret(ctx, now.staged()); err != nil {
		return nil, fmt.Errorf("the staged key of %s: %w", r.Purpose, err)
	}
	out := &Rotated{Removed: []int{}}
	if out.Lacking, err = k.everywhere(ctx, now, r); err != nil {
		return nil, err
	}
	err = k.change(ctx, func(base value) (value, []authz.Document, error) {
		old := base[r.Purpose]
		if old == nil || old.staged().ID != now.staged().ID {
			return nil, nil, fmt.Errorf("%w: %s", ErrRotated, r.Purpose)
		}
		next, secret := old.rotated(r.ActiveMax)
		out.Primary, out.Removed = next.primary(), []int{}
		for _, key := range old.Keys {
			if !next.has(key) {
				out.Removed = append(out.Removed, key.Number)
			}
		}
		return value{r.Purpose: next}, []authz.Document{secret}, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// rotated returns the keys after a rotation, and the secret of the new staged key.
func (k *keys) rotated(activeMax int) (*keys, authz.Document) {
	primary := k.staged()
	primary.Number = k.primary() + 1
	staged, secret := sealed(0, settings.NewKey())
	next := append([]Key{primary}, k.Keys[:len(k.Keys)-1]...)
	next = next[:min(len(next), activeMax-1)]
	return &keys{Keys: append(next, staged)}, secret
}

// everywhere waits until every node has the staged key. It returns the nodes that lack it
// if the rotation is forced.
func (k *Keyring) everywhere(ctx context.Context, now *keys, r Rotation) ([]Lagging, error) {
	for end := time.Now().Add(r.Wait); ; {
		behind, err := k.behind(ctx, now)
		if err != nil || len(behind) == 0 || r.Force {
			return behind, err
		}
		if time.Now().After(end) || slices.ContainsFunc(behind, func(l Lagging) bool { return !l.Runs }) {
			var names []string
			for _, l := range behind {
				names = append(names, l.String())
			}
			return nil, fmt.Errorf("%w: some nodes have not applied it: %s", ErrBehind, strings.Join(names, "; "))
		}
		select {
		case <-time.After(behindPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// change changes the keys, and creates the system store if there is none. decide returns
// the purposes that change, and the secrets of new keys; the secrets of keys that it leaves
// out are removed. The position of new staged keys is noted.
func (k *Keyring) change(ctx context.Context, decide func(old value) (value, []authz.Document, error)) error {
	ctx = documents.SystemContext(ctx)
	s, err := k.documents.Create(ctx)
	if err != nil {
		return err
	}
	var made value
	_, err = s.Change(ctx, func(base *documents.At[value]) (*authz.WriteRequest, value, error) {
		next, secrets, err := decide(base.Value)
		if made = next; err != nil {
			return nil, nil, err
		}
		return write(base.Value, next, secrets)
	})
	if err != nil || k.nodes == nil {
		return err
	}
	// If this is not noted, the next rotation waits for a later sequence.
	at := k.nodes.Applied()
	_, _ = s.Change(ctx, func(base *documents.At[value]) (*authz.WriteRequest, value, error) {
		next := value{}
		for p, m := range made {
			if now := base.Value[p]; now != nil && now.staged().ID == m.staged().ID {
				next[p] = &keys{Keys: now.Keys, StagedAt: at}
			}
		}
		return write(base.Value, next, nil)
	})
	return nil
}

// write returns the write that makes next the keys of its purposes, and the value after it.
// The write is nil if there are none.
func write(base, next value, secrets []authz.Document) (*authz.WriteRequest, value, error) {
	if len(next) == 0 {
		return nil, nil, nil
	}
	w := &authz.WriteRequest{Secrets: secrets}
	after := maps.Clone(base)
	for _, p := range slices.Sorted(maps.Keys(next)) {
		document, err := next[p].document(p)
		if err != nil {
			return nil, nil, err
		}
		w.Documents = append(w.Documents, document)
		if old := base[p]; old != nil {
			for _, key := range old.Keys {
				if !next[p].has(key) {
					w.RemoveSecrets = append(w.RemoveSecrets, authz.DocumentKey{Kind: secretKind, Key: key.ID})
				}
			}
		}
		after[p] = next[p]
	}
	return w, after, nil
}
