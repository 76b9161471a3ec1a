package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	ckpebble "github.com/cockroachdb/pebble/v2"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/storage/pebble"
)

// policy is the access policy of the database's documents.
const policy = `
name: docstore
description: documents that their owners share
resources:
- name: document
  relations:
  - {name: reader, types: [actor]}
  - {name: writer, types: [actor]}
  - {name: admin, types: [actor], manages: [reader, writer]}
  permissions:
  - {name: read, expr: reader + writer + admin}
  - {name: update, expr: writer + admin}
  - {name: delete, expr: admin}
`

// Document is a row of the database.
type Document struct {
	// ID is chosen by [Store.Create].
	ID string `json:"id"`
	// Title and Text are the content.
	Title string `json:"title"`
	Text  string `json:"text"`
	// Creator is the actor that created the document, or "". Tests compare it with
	// the owner that is registered for access control.
	Creator string `json:"creator,omitempty"`
}

var (
	// ErrNoDocument: the document does not exist, or the actor may not read it.
	ErrNoDocument = errors.New("no such document")
	// ErrDenied: the actor may read the document, but lacks the needed permission.
	ErrDenied = errors.New("access denied")
)

// Store is a small document database. Its rows are under the prefix "row/" and its
// access control data under "acp/" of one Pebble database, and both change in one
// batch. A document that is created without an actor is public.
type Store struct {
	db     *ckpebble.DB
	access *acp.Engine
	policy string
}

// OpenStore opens the database in a folder, and creates it if it does not exist.
func OpenStore(ctx context.Context, dir string) (_ *Store, err error) {
	db, err := ckpebble.Open(dir, &ckpebble.Options{Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	s := &Store{db: db}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	driver, err := pebble.New(db, []byte("acp/"))
	if err != nil {
		return nil, err
	}
	if s.access, err = acp.Open(ctx, acp.Options{Driver: driver}); err != nil {
		return nil, err
	}
	for rec, err := range s.access.Policies(ctx) {
		if err != nil {
			return nil, err
		}
		s.policy = rec.ID
		return s, nil
	}
	key, err := acp.GenerateKey(acp.KeyEd25519) // the identity of the database itself, which creates the policy
	if err != nil {
		return nil, err
	}
	s.policy, err = s.access.AddPolicy(ctx, key.Public().DID(), policy)
	return s, err
}

// Close closes the database. The store cannot be used after it.
func (s *Store) Close() error {
	var err error
	if s.access != nil {
		err = s.access.Close()
	}
	return errors.Join(err, s.db.Close())
}

func (s *Store) object(id string) acp.Object {
	return acp.Object{Policy: s.policy, Resource: "document", ID: id}
}

func row(id string) []byte { return []byte("row/" + id) }

// change commits rows and access control together. rows writes to the transaction;
// access may be empty.
func (s *Store) change(ctx context.Context, access *acp.Batch, rows func(tx *ckpebble.Batch) error) error {
	tx := s.db.NewBatch()
	defer tx.Close()
	if err := rows(tx); err != nil {
		return err
	}
	if access.Len() == 0 {
		return tx.Commit(ckpebble.Sync)
	}
	pending, err := access.Prepare(ctx)
	if err != nil {
		return err
	}
	defer pending.Abort() // has no effect after Publish
	if err := pending.AppendTo(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(ckpebble.Sync); err != nil {
		return err
	}
	return pending.Publish(ctx)
}

func put(tx *ckpebble.Batch, d Document) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return tx.Set(row(d.ID), body, nil)
}

// Create stores a document and returns its id. actor becomes its owner; if actor is
// "", the document is public. readers may read the document as soon as it exists.
func (s *Store) Create(ctx context.Context, actor string, d Document, readers ...string) (string, error) {
	d.ID, d.Creator = "doc-"+rand.Text(), actor
	access := s.access.Batch()
	if actor != "" {
		access.Register(actor, s.object(d.ID))
	}
	for _, r := range readers {
		access.Relate(actor, acp.Relationship{Object: s.object(d.ID), Relation: "reader", Subject: acp.ActorSubject(r)})
	}
	return d.ID, s.change(ctx, access, func(tx *ckpebble.Batch) error { return put(tx, d) })
}

// get reads a row, without an access check.
func (s *Store) get(id string) (d Document, err error) {
	body, closer, err := s.db.Get(row(id))
	if errors.Is(err, ckpebble.ErrNotFound) {
		return d, fmt.Errorf("%w: %s", ErrNoDocument, id)
	}
	if err != nil {
		return d, err
	}
	defer closer.Close()
	return d, json.Unmarshal(body, &d)
}

// allowed checks a permission of actor on a document. It fails with [ErrDenied], or
// with [ErrNoDocument] if the actor may not read the document, so that the error
// does not reveal that it exists.
func (s *Store) allowed(ctx context.Context, actor, permission, id string) error {
	a, err := s.access.Access(ctx, actor, permission, s.object(id))
	if err != nil || a != acp.Deny {
		return err
	}
	if a, err = s.access.Access(ctx, actor, "read", s.object(id)); err == nil && a == acp.Deny {
		return fmt.Errorf("%w: %s", ErrNoDocument, id)
	}
	return errors.Join(err, fmt.Errorf("%w: %s", ErrDenied, id))
}

// Read returns a document, if actor may read it.
func (s *Store) Read(ctx context.Context, actor, id string) (Document, error) {
	if err := s.allowed(ctx, actor, "read", id); err != nil {
		return Document{}, err
	}
	return s.get(id)
}

// Update replaces a document's title and text, if actor may update it.
func (s *Store) Update(ctx context.Context, actor string, d Document) error {
	if err := s.allowed(ctx, actor, "update", d.ID); err != nil {
		return err
	}
	old, err := s.get(d.ID)
	if err != nil {
		return err
	}
	old.Title, old.Text = d.Title, d.Text
	return s.change(ctx, s.access.Batch(), func(tx *ckpebble.Batch) error { return put(tx, old) })
}

// Delete removes a document, if actor may delete it. The document's registration
// stays, archived, so that its id cannot be used again.
func (s *Store) Delete(ctx context.Context, actor, id string) error {
	if err := s.allowed(ctx, actor, "delete", id); err != nil {
		return err
	}
	owner, registered, err := s.access.Owner(ctx, s.object(id))
	if err != nil {
		return err
	}
	access := s.access.Batch()
	if registered {
		access.Archive(owner, s.object(id)) // checked above; only the owner can archive
	}
	return s.change(ctx, access, func(tx *ckpebble.Batch) error { return tx.Delete(row(id), nil) })
}

// Share gives the actor with, or all actors if with is [acp.AllActors], a relation
// on a document. It fails if actor may not manage the relation.
func (s *Store) Share(ctx context.Context, actor, id, relation, with string) error {
	_, err := s.access.Relate(ctx, actor, s.object(id), relation, with)
	return err
}

// Unshare removes a relation that [Store.Share] gave.
func (s *Store) Unshare(ctx context.Context, actor, id, relation, with string) error {
	_, err := s.access.Unrelate(ctx, actor, s.object(id), relation, with)
	return err
}

// listPage is how many rows List checks at a time.
const listPage = 1000

// List yields the documents that actor may read, in the order of their ids.
func (s *Store) List(ctx context.Context, actor string) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		if err := s.list(ctx, actor, func(d Document) bool { return yield(d, nil) }); err != nil {
			yield(Document{}, err)
		}
	}
}

func (s *Store) list(ctx context.Context, actor string, yield func(Document) bool) error {
	rows, err := s.db.NewIter(&ckpebble.IterOptions{LowerBound: []byte("row/"), UpperBound: []byte("row0")})
	if err != nil {
		return err
	}
	defer rows.Close()
	for more := rows.First(); more; {
		var page []Document
		var ids []string
		for ; more && len(page) < listPage; more = rows.Next() {
			var d Document
			if err := json.Unmarshal(rows.Value(), &d); err != nil {
				return err
			}
			page, ids = append(page, d), append(ids, d.ID)
		}
		access, err := s.access.CheckMany(ctx, actor, "read", s.policy, "document", ids)
		if err != nil {
			return err
		}
		for i, a := range access {
			if a != acp.Deny && !yield(page[i]) {
				return nil
			}
		}
	}
	return rows.Error()
}

// quiet is a logger that discards Pebble's messages.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
