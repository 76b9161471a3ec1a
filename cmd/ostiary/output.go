package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
)

// print writes value as JSON with --json, and calls human otherwise. human
// writes columns separated by tabs.
func (a *app) print(value any, human func(io.Writer)) error {
	if a.json {
		return writeJSON(a.out, value)
	}
	t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	human(t)
	return t.Flush()
}

func writeJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// note prints a remark to stderr. It prints nothing with --json.
func (a *app) note(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// stamp formats a time for output: RFC 3339 in UTC, or "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// reportError prints err to stderr, with --json as an object.
func (a *app) reportError(err error) {
	text := err.Error()
	var at *ostiary.Error
	if errors.As(err, &at) && strings.HasPrefix(text, "ostiary: ") {
		text = strings.TrimPrefix(text, "ostiary: ")
	}
	if h := a.hint(err); h != "" {
		text += "\n" + h
	}
	if !a.json {
		fmt.Fprintf(a.err, "ostiary: %s\n", text)
		return
	}
	kind := ""
	if k := acpKind(err); k != nil {
		kind = k.Error()
	} else if at != nil {
		kind = at.Kind.Error()
	}
	writeJSON(a.err, map[string]any{"error": map[string]string{"kind": kind, "message": text}})
}

// hint returns advice on what to do about err, or "".
func (a *app) hint(err error) string {
	switch {
	case isLocked(err):
		return lockHint(a.data)
	case isFormat(err):
		return "a newer version or another program wrote the folder; it is unchanged"
	case isDamaged(err):
		return "the folder is damaged; restore it from a backup"
	case errors.Is(err, ostiary.ErrNoSchema):
		return `write one with "ostiary schema write FILE"`
	}
	return ""
}

// The three functions below accept two forms of an error: the storage package's,
// which opening a folder returns, and the library's, which every later call
// returns.

func isLocked(err error) bool {
	return errors.Is(err, storage.ErrLocked) || errors.Is(err, ostiary.ErrLocked)
}

func isFormat(err error) bool {
	return errors.Is(err, storage.ErrFormat) || errors.Is(err, ostiary.ErrFormat)
}

func isDamaged(err error) bool {
	return errors.Is(err, storage.ErrDamaged) || errors.Is(err, ostiary.ErrDamaged)
}
