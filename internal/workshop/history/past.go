package history

import (
	"fmt"
	"sort"

	"github.com/ostiary/ostiary/storage"
)

// Past is what the entries of the log say. The zero value has no entries.
type Past struct {
	last      storage.Revision
	documents map[int][]step[bool]
	secrets   map[int][]step[string]
	marks     map[string][]storage.Revision // the entries with a mark
}

// step is a value from a revision on.
type step[V any] struct {
	at    storage.Revision
	value V
}

// valueAt returns the value at a revision.
func valueAt[V any](steps []step[V], at storage.Revision) (v V) {
	if i := sort.Search(len(steps), func(i int) bool { return steps[i].at > at }); i > 0 {
		v = steps[i-1].value
	}
	return v
}

// Add adds the next entry. It fails if the entry does not follow the state before it.
func (p *Past) Add(e *storage.Entry) error {
	if p.marks == nil {
		p.documents, p.secrets, p.marks = map[int][]step[bool]{}, map[int][]step[string]{}, map[string][]storage.Revision{}
	}
	if want := p.last + 1; e.Revision != want {
		return fmt.Errorf("the log has entry %d, expected entry %d", e.Revision, want)
	}
	p.last = e.Revision
	for i := range e.Changes {
		var n int
		c := &e.Changes[i]
		switch {
		case c.Kind == storage.SecretPut:
			if _, err := fmt.Sscan(c.Document.Key, &n); err != nil {
				return err
			}
			p.secrets[n] = append(p.secrets[n], step[string]{p.last, e.Origin.Reason})
		case (c.Kind == storage.TupleAdd || c.Kind == storage.TupleRemove) && c.Tuple.Subject.ID == reader:
			if _, err := fmt.Sscan(c.Tuple.Object.ID, &n); err != nil {
				return err
			}
			adds := c.Kind == storage.TupleAdd
			if p.Document(n, p.last) == adds {
				return fmt.Errorf("entry %d adds a tuple that exists, or removes one that is missing: %+v", e.Revision, c.Tuple)
			}
			p.documents[n] = append(p.documents[n], step[bool]{p.last, adds})
		}
	}
	p.marks[e.Origin.Reason] = append(p.marks[e.Origin.Reason], e.Revision)
	return nil
}

// Last returns the last revision.
func (p *Past) Last() storage.Revision { return p.last }

// Document reports whether the tuple of a document is there at a revision.
func (p *Past) Document(n int, at storage.Revision) bool { return valueAt(p.documents[n], at) }

// Secret returns a secret at a revision; "" before it was stored.
func (p *Past) Secret(n int, at storage.Revision) string { return valueAt(p.secrets[n], at) }

// changesBetween yields from and each later revision, until to, that changes one of the
// documents.
func (p *Past) changesBetween(from, to storage.Revision, documents ...int) []storage.Revision {
	at := []storage.Revision{from}
	for _, n := range documents {
		steps := p.documents[n]
		for i := sort.Search(len(steps), func(i int) bool { return steps[i].at > from }); i < len(steps) && steps[i].at <= to; i++ {
			at = append(at, steps[i].at)
		}
	}
	return at
}
