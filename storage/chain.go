package storage

import (
	"crypto/sha256"
	"fmt"
)

// Sealed is an entry's canonical bytes and their hash.
type Sealed struct {
	Bytes []byte
	Hash  Hash
}

// Chain returns the head after entries, checking that they follow `after` and
// each other: revisions without gap, Previous the hash before, Time never
// lower, one incarnation (else ErrEntry), every change of a known kind (else
// ErrFormat), and the bounds of the format (else ErrTooLarge).
func Chain(after Head, entries []Entry) (Head, error) {
	head, _, err := Seal(after, entries)
	return head, err
}

// Seal is Chain that also returns each entry's canonical bytes and hash, for a
// driver that keeps them.
func Seal(after Head, entries []Entry) (Head, []Sealed, error) {
	sealed := make([]Sealed, len(entries))
	head := after
	for i := range entries {
		e := &entries[i]
		if err := follows(head, &entries[0], e); err != nil {
			return Head{}, nil, err
		}
		b := AppendEntry(make([]byte, 0, sizeGuess(e)), e)
		if n := len(b) + secretBytes(e); n > EntryBytesMax {
			return Head{}, nil, tooLarge("EntryBytesMax", EntryBytesMax, n)
		}
		sealed[i] = Sealed{b, sha256.Sum256(b)}
		head = Head{e.Revision, sealed[i].Hash, e.Time}
	}
	return head, sealed, nil
}

// Sealing checks entries as Seal does, whose canonical bytes and hashes the
// caller has already: it believes these.
func Sealing(after Head, entries []Entry, sealed []Sealed) (Head, error) {
	if len(sealed) != len(entries) {
		return Head{}, fmt.Errorf("%w: %d of %d entries are sealed", ErrEntry, len(sealed), len(entries))
	}
	head := after
	for i := range entries {
		e := &entries[i]
		if err := follows(head, &entries[0], e); err != nil {
			return Head{}, err
		}
		if n := len(sealed[i].Bytes) + secretBytes(e); n > EntryBytesMax {
			return Head{}, tooLarge("EntryBytesMax", EntryBytesMax, n)
		}
		head = Head{e.Revision, sealed[i].Hash, e.Time}
	}
	return head, nil
}

// secretBytes counts the ciphertexts, which the canonical bytes leave out but
// the bound of an entry includes.
func secretBytes(e *Entry) int {
	n := 0
	for i := range e.Changes {
		if c := &e.Changes[i]; c.Kind == SecretPut {
			n += len(c.Document.Body)
		}
	}
	return n
}

// sizeGuess is near an entry's size where its changes are alike, which a bulk
// load's are.
func sizeGuess(e *Entry) int {
	n := entryHeaderBytes + 8
	if len(e.Changes) > 0 {
		var first [256]byte
		n += (len(appendChange(first[:0], &e.Changes[0])) + 8) * len(e.Changes)
	}
	return min(n, EntryBytesMax)
}

func follows(head Head, first, e *Entry) error {
	switch {
	case e.Revision != head.Revision+1:
		return fmt.Errorf("%w: revision %d after %d", ErrEntry, e.Revision, head.Revision)
	case e.Previous != head.Hash:
		return fmt.Errorf("%w: revision %d names another predecessor", ErrEntry, e.Revision)
	case e.Time < head.Time:
		return fmt.Errorf("%w: the time of revision %d is before that of its predecessor", ErrEntry, e.Revision)
	case e.Incarnation != first.Incarnation:
		return fmt.Errorf("%w: revision %d is of another incarnation", ErrEntry, e.Revision)
	case len(e.Changes) > ChangesMax:
		return tooLarge("ChangesMax", ChangesMax, len(e.Changes))
	}
	return validChanges(e)
}

func validChanges(e *Entry) error {
	filters := 0
	for i := range e.Changes {
		c := &e.Changes[i]
		if c.Kind < TupleAdd || c.Kind > RemoveByFilter {
			return fmt.Errorf("%w: kind of change %d", ErrFormat, c.Kind)
		}
		if c.Kind != RemoveByFilter {
			continue
		}
		if filters++; filters > FiltersMax {
			return tooLarge("FiltersMax", FiltersMax, filters)
		}
		if t := c.Filter.Target; t < FilterTuples || t > FilterDocuments {
			return fmt.Errorf("%w: filter target %d", ErrFormat, t)
		}
		if c.Filter.Target == FilterDocuments && c.Filter.DocumentKind == "" {
			return fmt.Errorf("%w: a filter of documents names no kind", ErrEntry)
		}
	}
	return nil
}
