package backup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"strconv"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// ContentOf returns the stores and the heads of data.
func ContentOf(ctx context.Context, data *kv.Driver) (c Content, err error) {
	sum := sha256.New()
	for info, err := range data.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return c, err
		}
		head, err := data.Head(ctx, info.ID)
		if err != nil {
			return c, err
		}
		sum.Write(info.ID[:])
		sum.Write(info.Incarnation[:])
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(head.Revision)))
		sum.Write(head.Hash[:])
		if c.Stores++; c.Stores <= storesMax {
			c.First = append(c.First, Store{info.ID.String(), fmt.Sprintf("%x", info.Incarnation), info.Name, head.Revision})
		}
	}
	for _, err := range data.Secrets(ctx) {
		if err != nil {
			return c, err
		}
		c.Secrets++
	}
	c.Heads = fmt.Sprintf("%x", sum.Sum(nil))
	return c, nil
}

// Proof is what [Prove] has counted.
type Proof struct {
	Stores     int `json:"stores"`
	Entries    int `json:"entries"`    // entries of logs
	Tuples     int `json:"tuples"`     // live tuples
	Attributes int `json:"attributes"` // live attributes
	Documents  int `json:"documents"`  // live documents
	Secrets    int `json:"secrets"`
	Past       int `json:"past"` // rows that were removed or replaced, and are kept for the past
}

// Prove reads all rows of data, and compares what follows from each other: each entry with the
// hash in the next one, and the last with the head; the rows that the log says were made with
// those that are there; the names and aliases of stores, the documents, their bodies and
// their secondary keys with what finds them. The driver compares each row with its checksum. It
// fails with [storage.ErrDamaged], and the name of the store. Where the log or the past was
// trimmed, no one knows which rows were made before. progress is called with the number of rows so
// far.
func Prove(ctx context.Context, data *kv.Driver, progress func(rows int)) (p Proof, err error) {
	for info, err := range data.Stores(ctx, storage.StoreID{}) {
		if err == nil {
			p.Stores++
			s := prover{ctx: ctx, data: data, info: info, count: &p, progress: progress}
			err = s.prove()
		}
		if err != nil {
			return p, fmt.Errorf("store %s (%s): %w", info.Name, info.ID, err)
		}
	}
	for s, err := range data.Secrets(ctx) {
		if err != nil {
			return p, err
		}
		p.Secrets++
		found, err := data.Secret(ctx, s.Store, s.Secret.Kind, s.Secret.Key)
		if err == nil && sha256.Sum256(found.Body) != s.Secret.Digest {
			err = fmt.Errorf("%w: the key %q of kind %q leads to another secret", storage.ErrDamaged, s.Secret.Key, s.Secret.Kind)
		}
		if err != nil {
			return p, fmt.Errorf("store %s: %w", s.Store, err)
		}
	}
	return p, nil
}

// prover proves one store.
type prover struct {
	ctx      context.Context
	data     *kv.Driver
	info     storage.StoreInfo
	count    *Proof
	progress func(rows int)

	head storage.Head
	// from is the oldest revision of which the log and the rows that it made are whole.
	from storage.Revision
	seed maphash.Seed
	made sums // of the log
	have sums // of the rows
	// secrets are the digests of the last secrets of the log, by kind and key.
	secrets map[[2]string]storage.Hash
}

// sums are sums of hashes of rows, which do not depend on their order.
type sums struct{ tuples, attributes, documents uint64 }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{storage.ErrDamaged}, args...)...)
}

func (s *prover) prove() (err error) {
	s.seed, s.secrets = maphash.MakeSeed(), map[[2]string]storage.Hash{}
	if err := s.catalog(); err != nil {
		return err
	}
	if s.head, err = s.data.Head(s.ctx, s.info.ID); err != nil {
		return err
	}
	log, rows, err := s.data.Oldest(s.ctx, s.info.ID)
	if err != nil {
		return err
	}
	s.from = max(log, rows+1)
	if err := s.log(log); err != nil {
		return err
	}
	if err := s.rows(rows); err != nil {
		return err
	}
	for key, digest := range s.secrets {
		d, err := s.data.Secret(s.ctx, s.info.ID, key[0], key[1])
		if errors.Is(err, storage.ErrNoDocument) || err == nil && sha256.Sum256(d.Body) != digest {
			return damaged("the secret %q of kind %q is not the one that the log has", key[1], key[0])
		}
		if err != nil {
			return err
		}
	}
	if s.made != s.have {
		return damaged("the rows are not those that the log has made from revision %d on", s.from)
	}
	return nil
}

// catalog proves that the store is found by its aliases and by its name.
func (s *prover) catalog() error {
	for door, alias := range s.info.Aliases {
		found, err := s.data.StoreByAlias(s.ctx, door, alias)
		if err != nil && !errors.Is(err, storage.ErrNoStore) {
			return err
		}
		if found.ID != s.info.ID {
			return damaged("its alias %q of the door %s leads to store %s", alias, door, found.ID)
		}
	}
	before := s.info.ID // the id before this one
	for i := len(before) - 1; i >= 0; i-- {
		if before[i]--; before[i] != 0xff {
			break
		}
	}
	for found, err := range s.data.StoresByName(s.ctx, s.info.Name, before) {
		if err != nil {
			return err
		}
		if found.ID == s.info.ID {
			return nil
		}
		break
	}
	return damaged("its name does not lead to it")
}

// log proves the chain of entries from a revision on, and adds up what they make.
func (s *prover) log(from storage.Revision) error {
	last := storage.Head{Revision: from - 1}
	for e, err := range s.data.Entries(s.ctx, s.info.ID, from) {
		if err != nil {
			return err
		}
		if e.Revision != last.Revision+1 || e.Incarnation != s.info.Incarnation || e.Time < last.Time {
			return damaged("entry %d follows entry %d in the log", e.Revision, last.Revision)
		}
		last.Revision, last.Time = e.Revision, e.Time
		s.step(&s.count.Entries, len(e.Changes))
		for i := range e.Changes {
			switch c := &e.Changes[i]; c.Kind {
			case storage.SecretPut:
				s.secrets[[2]string{c.Document.Kind, c.Document.Key}] = c.Document.Digest
			case storage.SecretRemove:
				delete(s.secrets, [2]string{c.Document.Kind, c.Document.Key})
			}
		}
		if e.Revision >= s.from {
			s.entry(&e)
		}
	}
	if last.Revision != s.head.Revision {
		return damaged("the log ends with revision %d, expected %d", last.Revision, s.head.Revision)
	}
	return nil
}

// step counts what was read.
func (s *prover) step(of *int, rows int) {
	*of++
	if *of%1024 == 0 || rows > 1024 {
		c := s.count
		s.progress(c.Entries + c.Tuples + c.Attributes + c.Documents + c.Past)
	}
}

// entry adds up the rows that an entry makes: a row that it removes or replaces itself was
// never there.
func (s *prover) entry(e *storage.Entry) {
	one, room := len(e.Changes) == 1, 0
	if len(e.Changes) > 1 && e.Changes[0].Kind == storage.TupleAdd { // most likely an import: growing the map would take a fifth of the time
		room = len(e.Changes)
	}
	tuples, attributes, documents := make(map[rel.Key]uint64, room), map[rel.Attribute]uint64{}, map[[2]string]uint64{}
	for i := range e.Changes {
		c := &e.Changes[i]
		switch c.Kind {
		case storage.TupleAdd:
			if sum := s.tuple(&c.Tuple, e.Revision); one {
				s.made.tuples += sum
			} else {
				tuples[c.Tuple.Key()] = sum
			}
		case storage.TupleRemove:
			delete(tuples, c.Tuple.Key())
		case storage.AttributeSet:
			attributes[nameOf(&c.Attribute)] = s.attribute(&c.Attribute, e.Revision)
		case storage.AttributeRemove:
			delete(attributes, nameOf(&c.Attribute))
		case storage.DocumentPut:
			d := &c.Document
			documents[[2]string{d.Kind, d.Key}] = s.document(d.Kind, d.Key, d.Secondary, len(d.Body), e.Revision)
		case storage.DocumentRemove:
			delete(documents, [2]string{c.Document.Kind, c.Document.Key})
		case storage.RemoveByFilter:
			remove(tuples, attributes, documents, &c.Filter)
		}
	}
	for _, sum := range tuples {
		s.made.tuples += sum
	}
	for _, sum := range attributes {
		s.made.attributes += sum
	}
	for _, sum := range documents {
		s.made.documents += sum
	}
}

// nameOf is an attribute without its value.
func nameOf(a *rel.Attribute) rel.Attribute { return rel.Attribute{Object: a.Object, Name: a.Name} }

// remove removes what a filter selects.
func remove(tuples map[rel.Key]uint64, attributes map[rel.Attribute]uint64, documents map[[2]string]uint64, f *storage.Filter) {
	same := func(want, have string) bool { return want == "" || want == have }
	switch f.Target {
	case storage.FilterTuples:
		for k := range tuples {
			if f.Tuple.Match(k) {
				delete(tuples, k)
			}
		}
	case storage.FilterAttributes:
		for a := range attributes {
			if same(f.ObjectType, a.Object.Type) && same(f.ObjectID, a.Object.ID) && same(f.Name, a.Name) {
				delete(attributes, a)
			}
		}
	case storage.FilterDocuments:
		for d := range documents {
			if d[0] == f.DocumentKind && len(d[1]) >= len(f.DocumentKeyPrefix) && d[1][:len(f.DocumentKeyPrefix)] == f.DocumentKeyPrefix {
				delete(documents, d)
			}
		}
	}
}

// rows adds up the rows of the state and of the past, and proves the documents.
func (s *prover) rows(oldest storage.Revision) error {
	state, err := s.data.Load(s.ctx, s.info.ID, storage.LoadOptions{RemovedAfter: &oldest})
	if err != nil {
		return err
	}
	defer state.Close()
	if state.Head != s.head {
		return damaged("the state has revision %d, expected %d", state.Head.Revision, s.head.Revision)
	}
	for row, err := range state.Tuples {
		if err != nil {
			return err
		}
		if err := s.row(&s.count.Tuples, row.Created, row.Removed); err != nil {
			return fmt.Errorf("tuple %s: %w", row.Tuple, err)
		}
		if row.Created >= s.from {
			s.have.tuples += s.tuple(&row.Tuple, row.Created)
		}
	}
	for row, err := range state.Attributes {
		if err != nil {
			return err
		}
		if err := s.row(&s.count.Attributes, row.Created, row.Removed); err != nil {
			return fmt.Errorf("attribute %s of %s: %w", row.Attribute.Name, row.Attribute.Object, err)
		}
		if row.Created >= s.from {
			s.have.attributes += s.attribute(&row.Attribute, row.Created)
		}
	}
	return s.documents(state.Documents, state.Bodies)
}

// row counts a row, and proves that its revisions are those of the log.
func (s *prover) row(of *int, created, removed storage.Revision) error {
	if created == 0 || created > s.head.Revision || removed > s.head.Revision || removed != 0 && removed <= created {
		return damaged("it was made at revision %d and removed at %d, and the head is %d", created, removed, s.head.Revision)
	}
	if removed != 0 {
		of = &s.count.Past
	}
	s.step(of, 1)
	return nil
}

// documents proves that each live document has its body, and is found by its secondary keys.
func (s *prover) documents(rows iter.Seq2[storage.DocumentRow, error], bodies func(string) iter.Seq2[storage.Document, error]) error {
	live := map[string]int{}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := s.row(&s.count.Documents, row.Created, row.Removed); err != nil {
			return fmt.Errorf("document %q of kind %q: %w", row.Key, row.Kind, err)
		}
		if row.Created >= s.from {
			s.have.documents += s.document(row.Kind, row.Key, row.Secondary, row.BodyBytes, row.Created)
		}
		if row.Removed == 0 {
			live[row.Kind]++
			if err := s.body(&row); err != nil {
				return err
			}
		}
	}
	for kind, n := range live {
		found := 0
		for _, err := range bodies(kind) {
			if err != nil {
				return err
			}
			found++
		}
		if found != n {
			return damaged("there are %d documents of kind %q with a body, expected %d", found, kind, n)
		}
	}
	return nil
}

// body proves that a live document is found by its keys.
func (s *prover) body(row *storage.DocumentRow) error {
	d, err := s.data.Document(s.ctx, s.info.ID, row.Kind, row.Key)
	if errors.Is(err, storage.ErrNoDocument) || err == nil && len(d.Body) != row.BodyBytes {
		return damaged("the document %q of kind %q has no body of %d bytes", row.Key, row.Kind, row.BodyBytes)
	}
	if err != nil {
		return err
	}
	for _, by := range row.Secondary {
		found := false
		for d, err := range s.data.DocumentsBy(s.ctx, s.info.ID, row.Kind, by) {
			if err != nil {
				return err
			}
			if found = d.Key == row.Key; found {
				break
			}
		}
		if !found {
			return damaged("the secondary key %q does not lead to the document %q of kind %q", by, row.Key, row.Kind)
		}
	}
	return nil
}

// hash returns the hash of a row that a revision has made.
func (s *prover) hash(made storage.Revision, texts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(made))
	h.Write(number[:])
	for _, text := range texts {
		binary.BigEndian.PutUint64(number[:], uint64(len(text)))
		h.Write(number[:])
		h.WriteString(text)
	}
	return h.Sum64()
}

func (s *prover) tuple(t *rel.Tuple, made storage.Revision) uint64 {
	return s.hash(made, t.Object.Type, t.Object.ID, t.Relation, t.Subject.Type, t.Subject.ID, t.Subject.Relation, t.Condition, t.Context) + uint64(t.Expires)
}

func (s *prover) attribute(a *rel.Attribute, made storage.Revision) uint64 {
	return s.hash(made, a.Object.Type, a.Object.ID, a.Name, a.Value)
}

func (s *prover) document(kind, key string, secondary []string, bytes int, made storage.Revision) uint64 {
	return s.hash(made, append([]string{kind, key, strconv.Itoa(bytes)}, secondary...)...)
}
