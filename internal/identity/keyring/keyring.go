// Package keyring keeps the Fernet keys of tokens and of receipts in the system store, so
// that all nodes of a cluster have the same ones: each key is a secret, and a document
// for each [Purpose] has their numbers. Its main type is [Keyring]. It makes no token.
//
// As in the folders of Keystone, number 0 is the staged key, and the highest number is the
// primary key, which makes tokens. All keys read tokens. A rotation makes the staged key
// the primary one, but only when every node has it.
package keyring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage"
)

// Purpose is what keys are for.
type Purpose string

// The purposes.
const (
	Tokens   Purpose = "tokens"
	Receipts Purpose = "receipts"
)

// Purposes returns all purposes.
func Purposes() []Purpose { return []Purpose{Tokens, Receipts} }

const (
	// documentKind is the kind of the documents with the numbers of keys. The key of each
	// is its purpose.
	documentKind = "fernet"
	// secretKind is the kind of the keys, which are never replaced. The key of each is the
	// id of a Key.
	secretKind = "fernet-key"
)

// KeysMax is the largest number of keys for one purpose.
const KeysMax = 100

// Key describes a key.
type Key struct {
	// Number is 0 for the staged key. The highest number is that of the primary key.
	Number int `json:"number"`
	// Made is when the key was made or imported.
	Made time.Time `json:"made"`
	// ID is random. It names the secret.
	ID string `json:"id"`
}

// keys are the keys of one purpose at one revision. They never change.
type keys struct {
	// Keys are the keys: the primary one first, the staged one last.
	Keys []Key `json:"keys"`
	// StagedAt is a sequence of the shared log at which the staged key was there, or 0 if
	// that is not known.
	StagedAt uint64 `json:"stagedAt,omitempty"`
}

// primary returns the number of the primary key.
func (k *keys) primary() int { return k.Keys[0].Number }

// staged returns the staged key.
func (k *keys) staged() Key { return k.Keys[len(k.Keys)-1] }

// has reports whether a key is one of them.
func (k *keys) has(other Key) bool {
	return slices.ContainsFunc(k.Keys, func(key Key) bool { return key.ID == other.ID })
}

// read reads the body of a document.
func read(purpose string, body []byte) (*keys, error) {
	k := &keys{}
	if err := json.Unmarshal(body, k); err != nil {
		return nil, fmt.Errorf("%w: the document of the keys of %s in the system store: %w", authz.ErrFormat, purpose, err)
	}
	if len(k.Keys) < 2 || k.staged().Number != 0 || k.primary() == 0 {
		return nil, fmt.Errorf("%w: the document of the keys of %s in the system store: expected a primary key first, and the staged one last", authz.ErrFormat, purpose)
	}
	return k, nil
}

func (k *keys) document(p Purpose) (authz.Document, error) {
	body, err := json.Marshal(k)
	return authz.Document{Kind: documentKind, Key: string(p), Body: body}, err
}

// value are the keys of all purposes that have some.
type value map[Purpose]*keys

// Keyring reads and changes the keys in the system store of an engine. It sees every
// change that was acknowledged before a call, on whichever node. It may be used
// concurrently, and starts no goroutine.
type Keyring struct {
	nodes     Nodes
	documents *documents.System[value]
	opened    map[Purpose]*atomic.Pointer[opened]
}

// opened are the keys of one purpose with their secrets.
type opened struct {
	of   *keys
	keys []settings.Key
}

// New returns the keyring of an engine. nodes is nil for an engine that is no node of a
// cluster. It reads nothing yet.
func New(e *ostiary.Engine, nodes Nodes) *Keyring {
	k := &Keyring{nodes: nodes, documents: documents.NewSystem(e, form), opened: map[Purpose]*atomic.Pointer[opened]{}}
	for _, p := range Purposes() {
		k.opened[p] = &atomic.Pointer[opened]{}
	}
	return k
}

// form is how documents become a value.
var form = documents.Form[value]{Kinds: []string{documentKind}, Empty: func() value { return value{} },
	Apply: func(_ context.Context, old value, changes []storage.Change) (value, error) {
		next := maps.Clone(old)
		for i := range changes {
			c := &changes[i]
			switch c.Kind {
			case storage.DocumentPut:
				k, err := read(c.Document.Key, c.Document.Body)
				if err != nil {
					return nil, err
				}
				next[Purpose(c.Document.Key)] = k
			case storage.DocumentRemove:
				delete(next, Purpose(c.Document.Key))
			case storage.RemoveByFilter:
				clear(next)
			}
		}
		return next, nil
	}}

// newest returns the keys at the newest revision, see [documents.Documents.Newest].
func (k *Keyring) newest(ctx context.Context) (value, error) {
	at, err := k.documents.Newest(ctx)
	if at == nil || err != nil {
		return nil, err
	}
	return at.Value, nil
}

// attemptsMax is how often the secrets are read again if other ones have replaced them
// meanwhile.
const attemptsMax = 10

// Keys returns the keys of a purpose: the primary one first, and the staged one last. It
// returns nil if the system store has none. It fails if one of them cannot be read, because
// a token of that key would look like an invalid one.
func (k *Keyring) Keys(ctx context.Context, p Purpose) ([]settings.Key, error) {
	for attempt := 1; ; attempt++ {
		all, err := k.newest(ctx)
		if err != nil || all[p] == nil {
			return nil, err
		}
		before := k.opened[p].Load()
		if before != nil && before.of == all[p] {
			return before.keys, nil
		}
		now, err := k.open(ctx, all[p], before)
		switch {
		case err == nil:
			k.opened[p].Store(now)
			return now.keys, nil
		case !isGone(err) || attempt == attemptsMax:
			return nil, fmt.Errorf("read the keys of %s in the system store: %w", p, err)
		}
	}
}

// isGone reports whether a secret was removed by a change that is not known yet.
func isGone(err error) bool {
	return errors.Is(err, authz.ErrNoDocument) || errors.Is(err, storage.ErrSecretReplaced)
}

// open reads the secrets of keys that were not read before.
func (k *Keyring) open(ctx context.Context, of *keys, before *opened) (*opened, error) {
	now := &opened{of: of}
	for _, key := range of.Keys {
		if before != nil {
			if i := slices.IndexFunc(before.of.Keys, func(o Key) bool { return o.ID == key.ID }); i >= 0 {
				now.keys = append(now.keys, before.keys[i])
				continue
			}
		}
		secret, err := k.secret(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", key.Number, err)
		}
		now.keys = append(now.keys, secret)
	}
	return now, nil
}

// secret reads a key from the system store, which newest has found.
func (k *Keyring) secret(ctx context.Context, key Key) (settings.Key, error) {
	d, err := k.documents.Found().Store.Secret(documents.SystemContext(ctx), authz.DocumentKey{Kind: secretKind, Key: key.ID})
	if err != nil {
		return settings.Key{}, err
	}
	out, err := settings.ParseKey(string(d.Body))
	if err != nil {
		err = fmt.Errorf("%w: %w", authz.ErrFormat, err)
	}
	return out, err
}
