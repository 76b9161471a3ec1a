package tuplefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
)

// jsonForm is the layout of the tuples in a JSON file.
type jsonForm int

const (
	recordsForm jsonForm = iota // one record after another
	listForm                    // an array of records
	pagesForm                   // one response of OpenFGA's Read after another
)

// jsonReader reads a JSON file. It refuses unknown fields: a misspelled condition
// must not make a tuple without one.
type jsonReader struct {
	in    *budget
	dec   *json.Decoder
	n     int // the number of the current tuple, counted from 1
	yield func(rel.Tuple, error) bool
	// changes is nil until the file has a change.
	changes *changes
}

// errStop means that caller stopped the iteration.
var errStop = errors.New("caller stopped the iteration")

func readJSON(r io.Reader) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		j := &jsonReader{in: &budget{r: r, remaining: RecordBytesMax}, yield: yield}
		if err := j.read(); err != nil && err != errStop {
			yield(rel.Tuple{}, &Error{max(j.n, 1), recordError(err)})
		}
	}
}

func (j *jsonReader) read() error {
	buf := bufio.NewReaderSize(j.in, 4096)
	form, err := formOf(buf)
	if err != nil {
		return err
	}
	j.dec = json.NewDecoder(buf)
	j.dec.UseNumber()
	j.dec.DisallowUnknownFields()
	switch form {
	case listForm:
		if err := j.list(j.record); err != nil {
			return err
		}
		return j.end()
	case pagesForm:
		return j.pages()
	}
	for {
		if err := j.record(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// end checks that nothing follows the list.
func (j *jsonReader) end() error {
	_, err := j.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case err == io.EOF:
		return nil
	case err == nil || errors.As(err, &syntax):
		return fmt.Errorf("%w: unexpected data after the list", ErrTuple)
	}
	return err
}

// pagePattern matches the beginning of a response of OpenFGA's Read or ReadChanges.
var pagePattern = regexp.MustCompile(`^\{\s*"(tuples|changes|continuation_token)"`)

// formOf returns the form of a file. It consumes white space.
func formOf(buf *bufio.Reader) (jsonForm, error) {
	for {
		c, err := buf.ReadByte()
		if err == io.EOF {
			return recordsForm, nil
		}
		if err != nil {
			return 0, err
		}
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			continue
		}
		buf.UnreadByte()
		if c == '[' {
			return listForm, nil
		}
		start, err := buf.Peek(256)
		if pagePattern.Match(start) {
			return pagesForm, nil
		}
		if err == io.EOF {
			err = nil
		}
		return recordsForm, err
	}
}

// record reads one record. It returns io.EOF at the end of the file.
func (j *jsonReader) record() error {
	var rec Record
	if err := j.decode(&rec); err != nil {
		return err
	}
	return j.pass(rec)
}

// decode reads the value of the next tuple.
func (j *jsonReader) decode(value any) error {
	j.in.remaining = RecordBytesMax
	j.n++
	var raw json.RawMessage
	if err := j.dec.Decode(&raw); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(value); err != nil {
		return err
	}
	return checkMembers(raw)
}

// recordNames are the names of a tuple's members, and of the rows around it.
var recordNames = []string{"user", "relation", "object", "condition", "expires", "name", "context", "key", "tuple_key", "timestamp", "operation"}

// checkMembers fails if a value has a member twice, or a known one in capital
// letters. [json.Decoder] accepts both, and takes the last one.
func checkMembers(raw []byte) error {
	r := jsonread.New(raw)
	walkMembers(r)
	if err := r.End(); err != nil {
		return fmt.Errorf("%w: %w", ErrTuple, err)
	}
	return nil
}

func walkMembers(r *jsonread.Reader) {
	if r.Kind() != '{' {
		r.Skip()
		return
	}
	for r.Object(); r.Field(); {
		switch name := string(r.Name()); {
		case name == "context":
			r.Skip() // its names are data
		case slices.Contains(recordNames, name):
			walkMembers(r)
		default:
			r.Unknown()
		}
	}
}

// pass yields a record's tuple. It returns errStop if the caller wants no more.
func (j *jsonReader) pass(rec Record) error {
	t, err := rec.Tuple()
	if err != nil {
		return err
	}
	if !j.yield(t, nil) {
		return errStop
	}
	return nil
}

// list reads an array; item reads one value of it.
func (j *jsonReader) list(item func() error) error {
	open, err := j.dec.Token()
	if err != nil || open == nil { // null
		return err
	}
	if open != json.Delim('[') {
		return fmt.Errorf("%w: expected a list", ErrTuple)
	}
	for j.dec.More() {
		if err := item(); err != nil {
			return err
		}
	}
	_, err = j.dec.Token()
	return err
}

// pages reads responses of OpenFGA's Read or ReadChanges. The last one of Read must
// have no continuation token: otherwise the file holds only a part of the tuples.
// The last one of ReadChanges always has a token.
func (j *jsonReader) pages() error {
	next := ""
	for {
		j.in.remaining = RecordBytesMax
		open, err := j.dec.Token()
		if err == io.EOF && j.changes != nil {
			return j.changes.pass(j.yield)
		}
		if err == io.EOF && next != "" {
			return fmt.Errorf("%w: the last page has a continuation_token: more tuples follow it, which are not in the file", ErrTuple)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if open != json.Delim('{') {
			return fmt.Errorf("%w: expected a page with the fields tuples or changes, and continuation_token", ErrTuple)
		}
		if next, err = j.page(); err != nil {
			return err
		}
	}
}

// page reads a response after its bracket, and returns its continuation token.
func (j *jsonReader) page() (next string, err error) {
	for j.dec.More() {
		name, err := j.dec.Token()
		if err != nil {
			return "", err
		}
		switch name {
		case "tuples":
			err = j.list(j.row)
		case "changes":
			if j.changes == nil {
				j.changes = &changes{at: map[rel.Key]int{}}
			}
			err = j.list(j.change)
		case "continuation_token":
			err = j.dec.Decode(&next)
		default:
			err = fmt.Errorf("%w: unknown field %q in a page: expected tuples or changes, and continuation_token", ErrTuple, clip(fmt.Sprint(name)))
		}
		if err != nil {
			return "", err
		}
	}
	_, err = j.dec.Token()
	return next, err
}

// row reads one tuple of a response.
func (j *jsonReader) row() error {
	var row struct {
		Key       Record `json:"key"`
		Timestamp string `json:"timestamp"`
	}
	if err := j.decode(&row); err != nil {
		return err
	}
	return j.pass(row.Key)
}
