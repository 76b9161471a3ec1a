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

// policy says who may do what to a document of this database.
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
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
	// Creator is kept with the row so that tests can hold it against the
	// registration.
	Creator string `json:"creator,omitempty"`
}

var (
	ErrNoDocument = errors.New("no such document")
	ErrDenied     = errors.New("access denied")
)

// Store is a small document database: rows under "row/" and access control
// under "acp/" in one Pebble, changed in one batch or not at all. A document
// that is created without an identity is public.
type Store struct {
	db     *ckpebble.DB
	access *acp.Engine
	policy string
}

// OpenStore opens a folder, or makes it.
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
	key, err := acp.GenerateKey(acp.KeyEd25519) // the database's own, to create the policy with
	if err != nil {
		return nil, err
	}
	s.policy, err = s.access.AddPolicy(ctx, key.Public().DID(), policy)
	return s, err
}

// Close closes the database.
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

// change commits rows and access control together. rows fills the batch; access
// may be empty.
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
	defer pending.Abort() // nothing, once it is published
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

// Create stores a document and returns its id. With an actor it is his; with
// readers besides, they may read it from the first moment on.
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

// get reads a row.
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

// allowed asks the one question for a document. Who may not even read it does
// not learn that it is there.
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

// Read returns a document.
func (s *Store) Read(ctx context.Context, actor, id string) (Document, error) {
	if err := s.allowed(ctx, actor, "read", id); err != nil {
		return Document{}, err
	}
	return s.get(id)
}

// Update replaces a document's title and text.
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

// Delete removes a document. Its registration stays, archived, so that nobody
// takes its id.
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
		access.Archive(owner, s.object(id)) // permitted above, and the owner's to do
	}
	return s.change(ctx, access, func(tx *ckpebble.Batch) error { return tx.Delete(row(id), nil) })
}

// Share gives somebody (acp.AllActors: everybody) a relation on a document.
func (s *Store) Share(ctx context.Context, actor, id, relation, with string) error {
	_, err := s.access.Relate(ctx, actor, s.object(id), relation, with)
	return err
}

// Unshare takes it away.
func (s *Store) Unshare(ctx context.Context, actor, id, relation, with string) error {
	_, err := s.access.Unrelate(ctx, actor, s.object(id), relation, with)
	return err
}

// listPage is how many rows are held against access control at a time.
const listPage = 1000

// List yields the documents that an actor may read, in order of id.
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

// quiet keeps Pebble's messages to itself.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
