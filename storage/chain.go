package storage

import (
	"crypto/sha256"
	"fmt"
)

// Sealed is the canonical form of an [Entry].
type Sealed struct {
	Bytes []byte // the canonical bytes, see [AppendEntry]
	Hash  Hash   // their SHA-256
}

// Chain checks that entries follow the head after and each other, and returns
// the head after the last entry. It fails with
//   - [ErrEntry] if a revision is not one more than its predecessor's, Previous is
//     not the hash of the predecessor, Time is lower than the predecessor's, or
//     the incarnations differ;
//   - [ErrEntry] if the origin of an entry is not valid text;
//   - [ErrFormat] if a change or a filter is of an unknown kind;
//   - [ErrTooLarge] if an entry exceeds a limit of the format.
func Chain(after Head, entries []Entry) (Head, error) {
	head, _, err := Seal(after, entries)
	return head, err
}

// Seal is like [Chain]. It also returns the canonical bytes and the hash of each
// entry, for a driver that stores them.
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

// ChainSealed is like [Chain] for entries that are sealed already. It does not
// check that sealed is what [Seal] returns for the entries.
func ChainSealed(after Head, entries []Entry, sealed []Sealed) (Head, error) {
	if len(sealed) != len(entries) {
		return Head{}, fmt.Errorf("%w: %d canonical forms for %d entries", ErrEntry, len(sealed), len(entries))
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

// secretBytes returns the length of the ciphertexts in e. The canonical bytes do
// not contain them, but EntryBytesMax includes them.
func secretBytes(e *Entry) int {
	n := 0
	for i := range e.Changes {
		if c := &e.Changes[i]; c.Kind == SecretPut {
			n += len(c.Document.Body)
		}
	}
	return n
}

// sizeGuess estimates the length of the canonical bytes of e. It assumes that all
// changes are about as long as the first, as in a bulk load.
func sizeGuess(e *Entry) int {
	n := entryHeaderBytes + 8 + e.Origin.size()
	if len(e.Changes) > 0 {
		var first [256]byte
		n += (len(appendChange(first[:0], &e.Changes[0])) + 8) * len(e.Changes)
	}
	return min(n, EntryBytesMax)
}

// follows checks that e follows head, and that it has the incarnation of first.
func follows(head Head, first, e *Entry) error {
	switch {
	case e.Revision != head.Revision+1:
		return fmt.Errorf("%w: revision %d after revision %d, expected the next revision", ErrEntry, e.Revision, head.Revision)
	case e.Previous != head.Hash:
		return fmt.Errorf("%w: field Previous of revision %d is not the hash of its predecessor", ErrEntry, e.Revision)
	case e.Time < head.Time:
		return fmt.Errorf("%w: the time of revision %d is earlier than its predecessor's", ErrEntry, e.Revision)
	case e.Incarnation != first.Incarnation:
		return fmt.Errorf("%w: the incarnation of revision %d differs from the incarnation of its predecessor", ErrEntry, e.Revision)
	case len(e.Changes) > ChangesMax:
		return tooLarge("ChangesMax", ChangesMax, len(e.Changes))
	}
	if err := e.Origin.Validate(); err != nil {
		return err
	}
	return validChanges(e)
}

// validChanges checks the kinds of the changes and of their filters.
func validChanges(e *Entry) error {
	filters := 0
	for i := range e.Changes {
		c := &e.Changes[i]
		if c.Kind < TupleAdd || c.Kind > RemoveByFilter {
			return fmt.Errorf("%w: unknown kind of change %d", ErrFormat, c.Kind)
		}
		if c.Kind != RemoveByFilter {
			continue
		}
		if filters++; filters > FiltersMax {
			return tooLarge("FiltersMax", FiltersMax, filters)
		}
		if t := c.Filter.Target; t < FilterTuples || t > FilterDocuments {
			return fmt.Errorf("%w: unknown filter target %d", ErrFormat, t)
		}
		if c.Filter.Target == FilterDocuments && c.Filter.DocumentKind == "" {
			return fmt.Errorf("%w: a filter of documents must have a kind", ErrEntry)
		}
	}
	return nil
}
