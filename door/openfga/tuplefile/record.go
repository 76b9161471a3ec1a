package tuplefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/ostiary/ostiary/rel"
)

// Record is a tuple as OpenFGA's JSON and YAML files hold it. Expires is this
// project's addition.
type Record struct {
	User      string           `json:"user" yaml:"user"`
	Relation  string           `json:"relation" yaml:"relation"`
	Object    string           `json:"object" yaml:"object"`
	Condition *RecordCondition `json:"condition,omitempty" yaml:"condition,omitempty"`
	// Expires is RFC 3339; "" is never.
	Expires string `json:"expires,omitempty" yaml:"expires,omitempty"`
}

// RecordCondition is a tuple's condition.
type RecordCondition struct {
	Name    string         `json:"name" yaml:"name"`
	Context map[string]any `json:"context,omitempty" yaml:"context,omitempty"`
}

// Tuple reads the record.
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
			return t, fmt.Errorf("%w: a condition without a name", ErrTuple)
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

// RecordOf is the tuple as a record.
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

// budget lets one record's bytes through, and the reader's look-ahead.
type budget struct {
	r    io.Reader
	left int
}

func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: a record above %d bytes", ErrBound, RecordBytesMax)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// readJSON reads a list of records, or one record after another. A field that
// is not known is refused: a condition that is misspelt must not become a
// tuple without one.
func readJSON(r io.Reader) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		in := &budget{r: r, left: RecordBytesMax}
		dec, list, err := startJSON(in)
		n := 0
		for err == nil && (!list || dec.More()) {
			in.left = RecordBytesMax
			n++
			var rec Record
			if err = dec.Decode(&rec); err == io.EOF && !list {
				return
			} else if err != nil {
				break
			}
			var t rel.Tuple
			if t, err = rec.Tuple(); err != nil {
				break
			}
			if !yield(t, nil) {
				return
			}
		}
		if err == nil { // the list's end, and nothing behind it
			if _, err = dec.Token(); err == nil {
				if _, more := dec.Token(); more != io.EOF {
					err = fmt.Errorf("%w: something stands behind the list", ErrTuple)
				}
			}
		}
		if err != nil && !(err == io.EOF && n == 0 && !list) {
			yield(rel.Tuple{}, &Error{max(n, 1), recordError(err)})
		}
	}
}

// startJSON looks whether the file is a list, and enters it.
func startJSON(in io.Reader) (dec *json.Decoder, list bool, err error) {
	buf := bufio.NewReaderSize(in, 4096)
	for {
		c, err := buf.ReadByte()
		if err == io.EOF {
			return json.NewDecoder(buf), false, nil
		}
		if err != nil {
			return nil, false, err
		}
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			continue
		}
		buf.UnreadByte()
		dec := json.NewDecoder(buf)
		dec.UseNumber()
		dec.DisallowUnknownFields()
		if c == '[' {
			_, err = dec.Token()
		}
		return dec, c == '[', err
	}
}

func recordError(err error) error {
	if errors.Is(err, ErrTuple) || errors.Is(err, ErrBound) || errors.Is(err, rel.ErrName) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", ErrTuple, err)
}

type jsonWriter struct {
	w                         io.Writer
	open, between, end, empty string
	n                         int
}

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
	buf.Truncate(buf.Len() - 1) // the encoder's newline
	_, err = j.w.Write(buf.Bytes())
	return err
}

func (j *jsonWriter) Close() error {
	end := j.end
	if j.n == 0 {
		end = j.empty
	}
	_, err := io.WriteString(j.w, end)
	return err
}
