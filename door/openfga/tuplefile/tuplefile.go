// Package tuplefile reads and writes files of tuples in the formats of
// OpenFGA's command line: CSV with named columns, JSON, JSON lines and YAML.
// Its main work is Read, a stream of rel.Tuple. It knows no schema: whether a
// tuple is admitted is for the store to say.
package tuplefile

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// Format is a file's format.
type Format string

const (
	CSV   Format = "csv"
	JSON  Format = "json"
	JSONL Format = "jsonl"
	YAML  Format = "yaml"
)

// Bounds. One byte more is refused with ErrBound.
const (
	// RecordBytesMax bounds one tuple's text in CSV, JSON and JSON lines.
	RecordBytesMax = 256 << 10
	// YAMLBytesMax bounds a YAML file, which is read whole.
	YAMLBytesMax = 64 << 20
)

var (
	// ErrFormat: the name of a file or format says none that is known.
	ErrFormat = errors.New("unknown tuple file format (csv, json, jsonl or yaml)")
	// ErrTuple: the file holds something that is not a tuple.
	ErrTuple = errors.New("not a tuple")
	// ErrBound: a bound of this package was passed.
	ErrBound = errors.New("tuple file bound passed")
)

// Error is what is wrong in a file, and where.
type Error struct {
	// Line counts from 1; in JSON, YAML and JSON lines it is the number of the
	// tuple.
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line or tuple %d: %v", e.Line, e.Err) }

// Unwrap returns the cause: ErrTuple, ErrBound, rel.ErrName or a reader's.
func (e *Error) Unwrap() error { return e.Err }

// FormatOf tells a file's format by the end of its name.
func FormatOf(name string) (Format, error) {
	return ParseFormat(strings.TrimPrefix(path.Ext(name), "."))
}

// ParseFormat reads a format's name.
func ParseFormat(s string) (Format, error) {
	switch f := Format(strings.ToLower(s)); f {
	case CSV, JSON, JSONL, YAML:
		return f, nil
	case "yml":
		return YAML, nil
	}
	return "", fmt.Errorf("%w: %q", ErrFormat, s)
}

// Read yields the file's tuples in their order, each valid as a tuple. An
// error ends the sequence; it is an *Error. A YAML file is read whole, the
// others as they are needed. The sequence can be read once.
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

// ReadAll collects what Read yields.
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

// Writer writes tuples in one format. Close ends the file (not what it is
// written to). It is not safe for concurrent use.
type Writer interface {
	Write(t rel.Tuple) error
	Close() error
}

// NewWriter starts a file.
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
