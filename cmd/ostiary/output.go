package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
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

// The escape sequences of a terminal for colors.
const (
	colorGreen = "\x1b[32m"
	colorRed   = "\x1b[31m"
	colorOff   = "\x1b[0m"
)

// colored reports whether the output may have colors: it is a terminal, and the
// variable NO_COLOR is not set.
func (a *app) colored() bool {
	f, ok := a.out.(*os.File)
	noColor, _ := a.lookup("NO_COLOR")
	return ok && noColor == "" && !a.json && term.IsTerminal(int(f.Fd()))
}

// colorMarks colors the marks of an explanation if color is true.
func colorMarks(text string, color bool) string {
	if !color {
		return text
	}
	return strings.NewReplacer("✓", colorGreen+"✓"+colorOff, "✗", colorRed+"✗"+colorOff).Replace(text)
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

// reportError prints err, which cmd returned, to stderr. With --json it is an
// object.
func (a *app) reportError(cmd *cobra.Command, err error) {
	text := err.Error()
	var at *ostiary.Error
	if errors.As(err, &at) && strings.HasPrefix(text, "ostiary: ") {
		text = strings.TrimPrefix(text, "ostiary: ")
	}
	out := errorJSON{errorKind(err), text, a.hint(cmd, err)}
	if a.json {
		writeJSON(a.err, map[string]any{"error": out})
		return
	}
	fmt.Fprintf(a.err, "ostiary: %s\n", text)
	if out.Hint != "" {
		fmt.Fprintln(a.err, out.Hint)
	}
}

// errorJSON is the JSON form of an error.
type errorJSON struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do about the error
}

// folderOnly reports whether a command works on a folder and not on a server.
func folderOnly(cmd *cobra.Command) bool {
	for ; cmd != nil; cmd = cmd.Parent() {
		if slices.Contains([]string{"serve", "acp", "keystone"}, cmd.Name()) {
			return true
		}
	}
	return false
}

// hint returns advice on what to do about err, or "".
func (a *app) hint(cmd *cobra.Command, err error) string {
	switch {
	case isLocked(err):
		return lockHint(a.data, !folderOnly(cmd))
	case isFormat(err):
		return "a newer version or another program wrote the folder; it is unchanged"
	case isDamaged(err):
		return "the folder is damaged; restore it from a backup"
	case errors.Is(err, ostiary.ErrNoSchema) && changed(cmd, "at"):
		return "the store had no schema at the point that --at names"
	case errors.Is(err, ostiary.ErrNoSchema) && (changed(cmd, "schema") || cmd.CommandPath() == "ostiary schema get" && cmd.Flags().NArg() > 0):
		return `"ostiary schema list" shows the ids of the schemas`
	case errors.Is(err, ostiary.ErrNoSchema):
		return `write one with "ostiary schema write FILE"`
	case errors.Is(err, acp.ErrUnauthenticated) && !changed(cmd, "as"):
		return "name the actor with --as DID"
	}
	if duplicate := cmd.Flags().Lookup("on-duplicate"); duplicate != nil {
		if text := duplicateHint(duplicate.Value.String(), err); text != "" {
			return text
		}
	}
	if swapped, ok := errors.AsType[*swappedError](err); ok {
		return swapped.hint
	}
	at, _ := errors.AsType[*remoteError](err)
	switch {
	case at != nil && at.Code == "not_recorded":
		return "a server records decisions if it runs with --record-decisions; name it with --server"
	case cmd.Flags().Lookup("on-missing") != nil && (errors.Is(err, ostiary.ErrTupleMissing) || at.is("tuple_missing", "cannot delete a tuple which does not exist")):
		return "to accept that the tuple does not exist, use --on-missing ignore"
	}
	return argumentsHint(cmd, err)
}

// duplicateHint returns advice about --on-duplicate, which has a value, or "".
func duplicateHint(value string, err error) string {
	at, _ := errors.AsType[*remoteError](err)
	exists := errors.Is(err, ostiary.ErrTupleExists) || at.is("tuple_exists", "a tuple which already exists")
	stopped, _ := errors.AsType[*stoppedError](err)
	switch {
	case exists && value == "ignore":
		return "the stored tuple has another condition, context or expiry, and --on-duplicate ignore skips only equal tuples; to replace it, use --on-duplicate replace"
	case exists:
		return "to skip tuples that already exist, use --on-duplicate ignore"
	case stopped != nil && stopped.partly && value != "replace":
		return "to import the rest, run the command again with --on-duplicate ignore"
	}
	return ""
}

// changed reports whether the command line or the environment sets a flag of cmd.
func changed(cmd *cobra.Command, flag string) bool {
	f := cmd.Flags().Lookup(flag)
	return f != nil && f.Changed
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
