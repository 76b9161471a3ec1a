package tuplefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ostiary/ostiary/rel"
)

// Record is a tuple in OpenFGA's JSON and YAML files.
type Record struct {
	// User is "type:id", "type:*" or "type:id#relation".
	User string `json:"user" yaml:"user"`
	// Relation is the relation's name.
	Relation string `json:"relation" yaml:"relation"`
	// Object is "type:id".
	Object string `json:"object" yaml:"object"`
	// Condition is nil for a tuple without a condition.
	Condition *RecordCondition `json:"condition,omitempty" yaml:"condition,omitempty"`
	// Expires is when the tuple expires, in RFC 3339; "" is never. It is an addition
	// of this project.
	Expires string `json:"expires,omitempty" yaml:"expires,omitempty"`
}

// RecordCondition is a tuple's condition.
type RecordCondition struct {
	// Name is the condition's name in the model.
	Name string `json:"name" yaml:"name"`
	// Context holds values of the condition's parameters; nil is none.
	Context map[string]any `json:"context,omitempty" yaml:"context,omitempty"`
}

// Tuple translates the record. It fails with [ErrTuple] or [rel.ErrName].
func (r Record) Tuple() (rel.Tuple, error) {
	t := rel.Tuple{Relation: r.Relation}
	var err error
	if t.Object, err = rel.ParseObject(r.Object); err != nil {
		return t, err
	}
	if t.Subject, err = rel.ParseSubject(r.User); err != nil {
		return t, err
	}
	if c := r.Condition; c != nil {
		t.Condition = c.Name
		if t.Context, err = rel.CanonicalValue(c.Context); err != nil {
			return t, err
		}
		if c.Name == "" {
			return t, fmt.Errorf("%w: a condition has no name", ErrTuple)
		}
	}
	if t.Expires, err = parseExpires(r.Expires); err != nil {
		return t, err
	}
	return t, t.Validate()
}

func parseExpires(s string) (rel.Time, error) {
	if s == "" {
		return 0, nil
	}
	at, err := rel.ParseExpiry(s)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrTuple, err)
	}
	return at, nil
}

func formatExpires(t rel.Time) string {
	if t == 0 {
		return ""
	}
	return t.Time().Format(time.RFC3339Nano)
}

// RecordOf returns a tuple as a record. It fails with [ErrTuple] if the tuple's
// context is not JSON.
func RecordOf(t rel.Tuple) (Record, error) {
	r := Record{User: t.Subject.String(), Relation: t.Relation, Object: t.Object.String(), Expires: formatExpires(t.Expires)}
	if t.Condition == "" {
		return r, nil
	}
	r.Condition = &RecordCondition{Name: t.Condition}
	if t.Context == "" {
		return r, nil
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(t.Context)))
	dec.UseNumber()
	if err := dec.Decode(&r.Condition.Context); err != nil {
		return r, fmt.Errorf("%w: context of %s: %v", ErrTuple, t.Key(), err)
	}
	return r, nil
}

// budget fails a record that is above RecordBytesMax. What the decoder reads
// ahead counts for the record.
type budget struct {
	r         io.Reader
	remaining int
}

// Read reads no more than remains.
func (b *budget) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, fmt.Errorf("%w: a record has more than %d bytes", ErrBound, RecordBytesMax)
	}
	n, err := b.r.Read(p[:min(len(p), b.remaining)])
	b.remaining -= n
	return n, err
}

// recordError makes an error one of the kinds of this package.
func recordError(err error) error {
	if errors.Is(err, ErrTuple) || errors.Is(err, ErrBound) || errors.Is(err, rel.ErrName) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrTuple, err)
}

// jsonWriter writes records with texts around them.
type jsonWriter struct {
	w io.Writer
	// open, between and end are written around the records; empty is a file without
	// records.
	open, between, end, empty string
	n                         int // records written so far
}

// Write adds a record.
func (j *jsonWriter) Write(t rel.Tuple) error {
	rec, err := RecordOf(t)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if j.n == 0 {
		buf.WriteString(j.open)
	} else {
		buf.WriteString(j.between)
	}
	j.n++
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(rec); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - 1) // without the newline that the encoder adds
	_, err = j.w.Write(buf.Bytes())
	return err
}

// Close writes the end of the file.
func (j *jsonWriter) Close() error {
	end := j.end
	if j.n == 0 {
		end = j.empty
	}
	_, err := io.WriteString(j.w, end)
	return err
}
