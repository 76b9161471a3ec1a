// Package document reads the documents and secrets of a store and encrypts
// secrets: [authz.Document] and [authz.DocumentKey] are its data, [Reader] reads, [Sealer]
// encrypts. Writing them is a part of a write (package commit). It never
// returns or stores a secret's plain text in an error.
package document

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/storage"
)

// ValidKey returns an error if a kind or key is empty, reserved or too long.
func ValidKey(kind, key string) error {
	if kind == "" || key == "" {
		return fmt.Errorf("%w: document %q/%q has an empty kind or key", authz.ErrInvalidRequest, kind, key)
	}
	if strings.HasPrefix(kind, snapshot.SchemaKind) {
		return fmt.Errorf("%w: kind %q of a document is reserved for the engine", authz.ErrInvalidRequest, kind)
	}
	return errs.CheckBound("DocumentKeyBytesMax", max(len(kind), len(key)), authz.DocumentKeyBytesMax)
}

// Reader reads the documents of one store. It is safe for concurrent use.
type Reader struct {
	// Timeline is the store.
	Timeline *snapshot.Timeline
	// Sealer decrypts secrets; nil if the engine has no key.
	Sealer *Sealer
}

// Get returns the newest document with the key, or ErrNoDocument.
func (r Reader) Get(ctx context.Context, k authz.DocumentKey) (authz.Document, error) {
	const op = "read document"
	t := r.Timeline
	if err := t.Begin(ctx); err != nil {
		return authz.Document{}, errs.Wrap(op, t.ID, err)
	}
	if err := ValidKey(k.Kind, k.Key); err != nil {
		return authz.Document{}, errs.Wrap(op, t.ID, err)
	}
	d, err := t.Runtime.Driver.Document(ctx, t.ID, k.Kind, k.Key)
	if err = t.ConfirmRead(ctx, err); err != nil {
		return authz.Document{}, errs.Wrap(op, t.ID, err)
	}
	return authz.Document{Kind: d.Kind, Key: d.Key, Secondary: d.Secondary, Body: d.Body}, nil
}

// By returns the newest documents of a kind that have a secondary key, in the
// order of their keys. More than Bounds.PageItems of them is an error.
func (r Reader) By(ctx context.Context, kind, secondary string) ([]authz.Document, error) {
	const op = "read documents"
	t := r.Timeline
	if err := t.Begin(ctx); err != nil {
		return nil, errs.Wrap(op, t.ID, err)
	}
	if err := ValidKey(kind, "key"); err != nil {
		return nil, errs.Wrap(op, t.ID, err)
	}
	var out []authz.Document
	for d, err := range t.Runtime.Driver.DocumentsBy(ctx, t.ID, kind, secondary) {
		if err != nil {
			return nil, errs.Wrap(op, t.ID, err)
		}
		if err := errs.CheckBound("PageItems", len(out)+1, t.Runtime.Bounds.PageItems); err != nil {
			return nil, errs.Wrap(op, t.ID, err)
		}
		out = append(out, authz.Document{Kind: d.Kind, Key: d.Key, Secondary: d.Secondary, Body: d.Body})
	}
	if err := t.ConfirmRead(ctx, nil); err != nil {
		return nil, errs.Wrap(op, t.ID, err)
	}
	return out, nil
}

// All calls visit for each document of some kinds, kind by kind and in the order of
// their keys, and returns the token of the revision that all of them belong to. An
// error of visit ends the call and is returned as it is.
func (r Reader) All(ctx context.Context, kinds []string, visit func(authz.Document) error) (authz.Token, error) {
	var visited error
	head, err := r.all(ctx, kinds, func(d authz.Document) error { visited = visit(d); return visited })
	switch {
	case visited != nil:
		return "", visited
	case err != nil:
		return "", errs.Wrap("read documents", r.Timeline.ID, err)
	}
	return r.Timeline.Token(head), nil
}

func (r Reader) all(ctx context.Context, kinds []string, visit func(authz.Document) error) (head storage.Head, err error) {
	t := r.Timeline
	if err := t.Begin(ctx); err != nil {
		return head, err
	}
	for _, kind := range kinds {
		if err := ValidKey(kind, "key"); err != nil {
			return head, err
		}
	}
	state, err := t.Runtime.Driver.Load(ctx, t.ID, storage.LoadOptions{})
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	for _, kind := range kinds {
		for d, err := range state.Bodies(kind) {
			if err == nil {
				err = visit(authz.Document{Kind: d.Kind, Key: d.Key, Secondary: d.Secondary, Body: d.Body})
			}
			if err != nil {
				return head, err
			}
		}
	}
	return state.Head, t.ConfirmRead(ctx, nil)
}

// Secret returns the newest secret with the key, decrypted, or ErrNoDocument.
// It fails with ErrNoSecretKey if the engine has no key or another one.
func (r Reader) Secret(ctx context.Context, k authz.DocumentKey) (authz.Document, error) {
	d, err := r.secret(ctx, k)
	return d, errs.Wrap("read secret", r.Timeline.ID, err)
}

func (r Reader) secret(ctx context.Context, k authz.DocumentKey) (authz.Document, error) {
	t := r.Timeline
	if err := t.Begin(ctx); err != nil {
		return authz.Document{}, err
	}
	if r.Sealer == nil {
		return authz.Document{}, authz.ErrNoSecretKey
	}
	d, err := t.Runtime.Driver.Secret(ctx, t.ID, k.Kind, k.Key)
	if err = t.ConfirmRead(ctx, err); err != nil {
		return authz.Document{}, err
	}
	plain, err := r.Sealer.open(t.Incarnation, k, d.Body)
	return authz.Document{Kind: k.Kind, Key: k.Key, Body: plain}, err
}

// Sealer encrypts secrets with AES-256-GCM.
type Sealer struct{ cipher cipher.AEAD }

// secretVersion is the first byte of an encrypted secret. The nonce and the
// ciphertext follow it.
const secretVersion = 1

// NewSealer returns a sealer with the key.
func NewSealer(key [32]byte) (*Sealer, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	c, err := cipher.NewGCM(block)
	return &Sealer{c}, err
}

// Seal encrypts secrets of the incarnation of a store. A nil Sealer returns
// ErrNoSecretKey if there are any.
func (s *Sealer) Seal(incarnation storage.Incarnation, secrets []authz.Document) ([]storage.Document, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	if s == nil {
		return nil, authz.ErrNoSecretKey
	}
	out := make([]storage.Document, len(secrets))
	for i, d := range secrets {
		nonce := make([]byte, s.cipher.NonceSize())
		rand.Read(nonce)
		body := append([]byte{secretVersion}, nonce...)
		body = s.cipher.Seal(body, nonce, d.Body, label(incarnation, authz.DocumentKey{Kind: d.Kind, Key: d.Key}))
		out[i] = storage.Document{Kind: d.Kind, Key: d.Key, Body: body}
	}
	return out, nil
}

// open decrypts the body of a secret.
func (s *Sealer) open(incarnation storage.Incarnation, k authz.DocumentKey, body []byte) ([]byte, error) {
	n := s.cipher.NonceSize()
	if len(body) < 1+n || body[0] != secretVersion {
		return nil, fmt.Errorf("%w: stored secret %s/%s has an unknown version", authz.ErrFormat, k.Kind, k.Key)
	}
	plain, err := s.cipher.Open(nil, body[1:1+n], body[1+n:], label(incarnation, k))
	if err != nil { // its text adds nothing
		return nil, fmt.Errorf("%w: cannot decrypt secret %s/%s", authz.ErrNoSecretKey, k.Kind, k.Key)
	}
	return plain, nil
}

// label returns the data that a ciphertext is authenticated with. It names the
// store and the key, so that no secret can be stored in place of another.
func label(incarnation storage.Incarnation, k authz.DocumentKey) []byte {
	text := append([]byte(nil), incarnation[:]...)
	text = binary.AppendUvarint(text, uint64(len(k.Kind)))
	text = append(text, k.Kind...)
	text = append(text, k.Key...)
	sum := sha256.Sum256(text)
	return sum[:]
}
