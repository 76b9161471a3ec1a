package tuplefile

import (
	"fmt"

	"github.com/ostiary/ostiary/rel"
)

// changes are the tuples that remain after the changes of a file, in the order in
// which they were written.
type changes struct {
	tuples []rel.Tuple
	at     map[rel.Key]int // positions in tuples
	count  int
}

// change reads one change of a response of ReadChanges.
func (j *jsonReader) change() error {
	var row struct {
		Key       Record `json:"tuple_key"`
		Operation string `json:"operation"`
		Timestamp string `json:"timestamp"`
	}
	if err := j.decode(&row); err != nil {
		return err
	}
	t, err := row.Key.Tuple()
	if err != nil {
		return err
	}
	if j.changes.count++; j.changes.count > ChangesMax {
		return fmt.Errorf("%w: more than %d changes", ErrBound, ChangesMax)
	}
	switch row.Operation {
	case "TUPLE_OPERATION_WRITE":
		return j.changes.write(t)
	case "TUPLE_OPERATION_DELETE":
		return j.changes.remove(t.Key())
	}
	return fmt.Errorf("%w: invalid operation %q: expected TUPLE_OPERATION_WRITE or TUPLE_OPERATION_DELETE", ErrTuple, clip(row.Operation))
}

func (c *changes) write(t rel.Tuple) error {
	if _, exists := c.at[t.Key()]; exists {
		return fmt.Errorf("%w: the change writes %s, which an earlier change wrote", ErrTuple, t.Key())
	}
	c.at[t.Key()] = len(c.tuples)
	c.tuples = append(c.tuples, t)
	return nil
}

// remove removes a tuple. A tuple that no earlier change wrote is an error: the
// changes before the file are missing, so the result would be wrong.
func (c *changes) remove(k rel.Key) error {
	i, exists := c.at[k]
	if !exists {
		return fmt.Errorf("%w: the change deletes %s, which no earlier change wrote: expected all changes since the store was created", ErrTuple, k)
	}
	delete(c.at, k)
	c.tuples[i] = rel.Tuple{}
	return nil
}

// pass yields the remaining tuples. It returns errStop if the caller wants no more.
func (c *changes) pass(yield func(rel.Tuple, error) bool) error {
	for i := range c.tuples {
		if c.tuples[i] != (rel.Tuple{}) && !yield(c.tuples[i], nil) {
			return errStop
		}
	}
	return nil
}
