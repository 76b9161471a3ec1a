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

// print writes value as JSON with --json, else what human writes.
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

// note tells people, and never a program, something besides the answer.
func (a *app) note(format string, args ...any) {
	if !a.json {
		fmt.Fprintf(a.err, format+"\n", args...)
	}
}

// stamp prints a time as every command does.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// reportError says on stderr why the command failed, with --json as an object.
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

// hint says what to do about an error, where something can be done.
func (a *app) hint(err error) string {
	switch {
	case isLocked(err):
		return holderOf(a.data)
	case isFormat(err):
		return "the folder is of a newer version, or of another program; it was not touched"
	case isDamaged(err):
		return "the folder is damaged; restore it from a backup"
	case errors.Is(err, ostiary.ErrNoSchema):
		return `"ostiary schema write FILE" writes one`
	}
	return ""
}

// The driver's errors come bare where the folder is opened, and as the
// library's own from then on.

func isLocked(err error) bool {
	return errors.Is(err, storage.ErrLocked) || errors.Is(err, ostiary.ErrLocked)
}

func isFormat(err error) bool {
	return errors.Is(err, storage.ErrFormat) || errors.Is(err, ostiary.ErrFormat)
}

func isDamaged(err error) bool {
	return errors.Is(err, storage.ErrDamaged) || errors.Is(err, ostiary.ErrDamaged)
}
