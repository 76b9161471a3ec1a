// Package tuplefile reads and writes files of tuples in the formats of OpenFGA's
// command line: CSV with named columns, JSON, JSON lines and YAML. [Read] yields
// the tuples of a file, and a [Writer] writes them. The package does not know the
// schema: the store decides whether it admits a tuple.
package tuplefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"regexp"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// Format is a file's format.
type Format string

// The formats.
const (
	// CSV is comma-separated values, with the names of the columns on the first
	// line. A file has the column expires only if a tuple expires.
	CSV Format = "csv"
	// JSON is an array of records, records one after another, or responses of
	// OpenFGA's Read or ReadChanges. See [Record]. Of changes, Read returns the
	// tuples that remain after all of them.
	JSON Format = "json"
	// JSONL is one record on each line.
	JSONL Format = "jsonl"
	// YAML is a sequence of records, a response of OpenFGA's Read, or an exported
	// store.
	YAML Format = "yaml"
)

// Bounds on files. One byte more is refused with [ErrBound].
const (
	// RecordBytesMax bounds one tuple's text in CSV, JSON and JSON lines.
	RecordBytesMax = 256 << 10
	// YAMLBytesMax bounds a YAML file, which is read whole.
	YAMLBytesMax = 64 << 20
	// ChangesMax bounds the changes in a file of ReadChanges. The tuples that remain
	// are kept in memory until the end of the file.
	ChangesMax = 1_000_000
)

// Kinds of errors, for errors.Is.
var (
	// ErrFormat is the name of a file or format that this package does not know.
	ErrFormat = errors.New("unknown tuple file format (csv, json, jsonl or yaml)")
	// ErrTuple is something in a file that is not a tuple.
	ErrTuple = errors.New("not a tuple")
	// ErrBound is a file beyond a bound of this package.
	ErrBound = errors.New("tuple file bound exceeded")
)

// Error is an error in a file, with its position.
type Error struct {
	// Line is the line in a CSV file, counted from 1. In the other formats it is the
	// number of the tuple, counted from 1.
	Line int
	// Err is the cause.
	Err error
}

// Error returns the position and the cause.
func (e *Error) Error() string { return fmt.Sprintf("line or tuple %d: %v", e.Line, e.Err) }

// Unwrap returns the cause, which is [ErrTuple], [ErrBound], [rel.ErrName] or the
// error of the reader.
func (e *Error) Unwrap() error { return e.Err }

// FormatOf returns the format of a file by the end of its name. It fails with
// [ErrFormat].
func FormatOf(name string) (Format, error) {
	return ParseFormat(strings.TrimPrefix(path.Ext(name), "."))
}

// ParseFormat returns the format of a name, such as "csv" or "yml". It fails with
// [ErrFormat].
func ParseFormat(s string) (Format, error) {
	switch f := Format(strings.ToLower(s)); f {
	case CSV, JSON, JSONL, YAML:
		return f, nil
	case "yml":
		return YAML, nil
	}
	return "", fmt.Errorf("%w: %q", ErrFormat, s)
}

// Read yields the tuples of a file in their order. Each passes
// [rel.Tuple.Validate]. An error ends the sequence; it is an [*Error]. A YAML file
// is read whole, the others piece by piece. The sequence can be read once.
func Read(r io.Reader, f Format) iter.Seq2[rel.Tuple, error] {
	switch f {
	case CSV:
		return readCSV(r)
	case JSON, JSONL:
		return readJSON(r)
	case YAML:
		return readYAML(r)
	}
	return func(yield func(rel.Tuple, error) bool) { yield(rel.Tuple{}, &Error{1, ErrFormat}) }
}

// StartBytes is how much of a file's beginning [IsResponse] needs, in bytes.
const StartBytes = 512

// yamlResponse matches a part of the beginning of a response of OpenFGA's Read in
// YAML, in which each tuple is in a field key.
var yamlResponse = regexp.MustCompile(`(?m)^(continuation_token:|\s*- key:)`)

// IsResponse reports whether a file that begins with start is a response of
// OpenFGA's Read or ReadChanges, which has no expiries.
func IsResponse(start []byte, f Format) bool {
	switch f {
	case JSON, JSONL:
		return pagePattern.Match(bytes.TrimLeft(start, " \t\r\n"))
	case YAML:
		return yamlResponse.Match(start)
	}
	return false
}

// ReadAll returns all tuples of a file. It fails as [Read] does.
func ReadAll(r io.Reader, f Format) ([]rel.Tuple, error) {
	var out []rel.Tuple
	for t, err := range Read(r, f) {
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// Writer writes tuples in one format. It is for one goroutine.
type Writer interface {
	// Write adds a tuple. It may buffer it, and report the error of an earlier one.
	Write(t rel.Tuple) error
	// Close writes what is buffered and the end of the file. It does not close the
	// io.Writer below.
	Close() error
}

// NewWriter returns a writer of a new file. It fails with [ErrFormat].
func NewWriter(w io.Writer, f Format) (Writer, error) {
	switch f {
	case CSV:
		return newCSVWriter(w), nil
	case JSON:
		return &jsonWriter{w: w, open: "[\n  ", between: ",\n  ", end: "\n]\n", empty: "[]\n"}, nil
	case JSONL:
		return &jsonWriter{w: w, between: "\n", end: "\n"}, nil
	case YAML:
		return &yamlWriter{w: w}, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrFormat, f)
}
