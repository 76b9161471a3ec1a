package tuplefile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/rel"
)

// The columns of a CSV file, in the order in which they are written.
const (
	userType = iota
	userID
	userRelation
	relation
	objectType
	objectID
	conditionName
	conditionContext
	expires // an addition of this project
	columns
)

func columnNames() [columns]string {
	return [...]string{"user_type", "user_id", "user_relation", "relation", "object_type", "object_id", "condition_name", "condition_context", "expires"}
}

// csvReader reads a file whose first record names the columns. Lines end in LF
// or CR LF; empty lines are skipped.
type csvReader struct {
	in     *recordLimiter
	r      *csv.Reader
	offset int64 // the end of the last record
	line   int   // the line on which the last record starts, counted from 1
	// index is the position of each column among the fields; -1 means that the file
	// does not have it.
	index  [columns]int
	fields []string
}

func readCSV(r io.Reader) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		in := &recordLimiter{r: r}
		c := &csvReader{in: in, r: csv.NewReader(in)}
		c.r.FieldsPerRecord, c.r.ReuseRecord = -1, true
		if err := c.header(); err != nil {
			if err != io.EOF { // an empty file is valid and has no tuples
				yield(rel.Tuple{}, &Error{1, recordError(err)})
			}
			return
		}
		fields := len(c.fields)
		for {
			t, err := c.tuple(fields)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(rel.Tuple{}, &Error{c.line, recordError(err)})
				return
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

// header reads the names of the columns.
func (c *csvReader) header() error {
	if err := c.record(); err != nil {
		return err
	}
	for i := range c.index {
		c.index[i] = -1
	}
	names := columnNames()
	for i, field := range c.fields {
		if i == 0 {
			field = strings.TrimPrefix(field, "\ufeff")
		}
		column := slices.Index(names[:], strings.TrimSpace(field))
		if column < 0 {
			return fmt.Errorf("%w: no column is called %q; the columns are %s", ErrTuple, clip(field), strings.Join(names[:], ","))
		}
		if c.index[column] >= 0 {
			return fmt.Errorf("%w: duplicate column %q", ErrTuple, names[column])
		}
		c.index[column] = i
	}
	for _, column := range [...]int{userType, userID, relation, objectType, objectID} {
		if c.index[column] < 0 {
			return fmt.Errorf("%w: column %q is missing", ErrTuple, names[column])
		}
	}
	if c.index[conditionContext] >= 0 && c.index[conditionName] < 0 {
		return fmt.Errorf("%w: column condition_context requires column condition_name", ErrTuple)
	}
	return nil
}

// clip shortens a text for an error.
func clip(s string) string { return quote.Of(s, 100) }

// field returns the last record's value in a column, "" if the file does not
// have the column.
func (c *csvReader) field(column int) string {
	if i := c.index[column]; i >= 0 {
		return c.fields[i]
	}
	return ""
}

// tuple reads the next record, which must have a number of fields. It returns
// io.EOF at the end of the file.
func (c *csvReader) tuple(fields int) (rel.Tuple, error) {
	if err := c.record(); err != nil {
		return rel.Tuple{}, err
	}
	if len(c.fields) != fields {
		return rel.Tuple{}, fmt.Errorf("%w: %d fields, expected %d as in the header", ErrTuple, len(c.fields), fields)
	}
	t := rel.Tuple{
		Object:    rel.Object{Type: c.field(objectType), ID: c.field(objectID)},
		Relation:  c.field(relation),
		Subject:   rel.Subject{Type: c.field(userType), ID: c.field(userID), Relation: c.field(userRelation)},
		Condition: c.field(conditionName),
	}
	if t.Subject.Relation == "" { // OpenFGA's command writes the relation into the column of the id
		t.Subject.ID, t.Subject.Relation, _ = strings.Cut(t.Subject.ID, "#")
	}
	if text := c.field(conditionContext); text != "" {
		context, err := rel.Canonical([]byte(text))
		if err != nil {
			return t, err
		}
		if t.Condition == "" {
			return t, fmt.Errorf("%w: condition_context requires condition_name", ErrTuple)
		}
		if context != "" && context[0] != '{' {
			return t, fmt.Errorf("%w: condition_context is not a JSON object", ErrTuple)
		}
		t.Context = context
	}
	var err error
	if t.Expires, err = parseExpires(c.field(expires)); err != nil {
		return t, err
	}
	return t, t.Validate()
}

// record reads the next record into fields, which are valid until the next
// call. Their strings stay valid.
func (c *csvReader) record() error {
	c.in.remaining = RecordBytesMax + readAheadBytes
	fields, err := c.r.Read()
	var parse *csv.ParseError
	switch {
	case err == io.EOF:
		return err
	case errors.As(err, &parse):
		c.line = parse.StartLine
		return fmt.Errorf("%w: line %d, column %d: %w", ErrTuple, parse.Line, parse.Column, parse.Err)
	case err != nil:
		c.line++
		return err
	}
	c.line, _ = c.r.FieldPos(0)
	n := c.r.InputOffset() - c.offset
	c.offset += n
	if !c.in.endsAt(c.offset) {
		n-- // the line feed
	}
	if n > RecordBytesMax {
		return fmt.Errorf("%w: a record has more than %d bytes", ErrBound, RecordBytesMax)
	}
	c.fields = fields
	return nil
}

// readAheadBytes is how much [csv.Reader] reads ahead of a record.
const readAheadBytes = 4 << 10

// recordLimiter fails a record that is far above RecordBytesMax before it is read
// whole. Empty lines before a record count as part of it.
type recordLimiter struct {
	r         io.Reader
	remaining int
	total     int64
	last      byte // the last byte read
	eof       bool
}

// Read reads no more than remains of the record.
func (l *recordLimiter) Read(p []byte) (int, error) {
	if l.remaining <= 0 {
		return 0, fmt.Errorf("%w: a record has more than %d bytes", ErrBound, RecordBytesMax)
	}
	n, err := l.r.Read(p[:min(len(p), l.remaining)])
	l.remaining -= n
	l.total += int64(n)
	if n > 0 {
		l.last = p[n-1]
	}
	l.eof = l.eof || err == io.EOF
	return n, err
}

// endsAt reports whether the file ends at an offset without a line feed.
func (l *recordLimiter) endsAt(offset int64) bool {
	return l.eof && offset == l.total && l.last != '\n'
}
