package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/tool/printable"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// Print writes value as JSON with --json, and calls human otherwise. human
// writes columns separated by tabs, with [Printf], [Println] and [PrintLines].
func (a *App) Print(value any, human func(io.Writer)) error {
	if a.JSON {
		return WriteJSON(a.Out, value)
	}
	t := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	human(t)
	return t.Flush()
}

// Printf prints as [fmt.Fprintf] does, with the arguments in the form of [printable.Text]: a
// name in stored data begins no line and no column, and sends no command to the terminal.
func Printf(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format, printable.Args(args)...)
}

// Println prints values in the form of [Printf], and ends the line.
func Println(w io.Writer, values ...any) { fmt.Fprintln(w, printable.Args(values)...) }

// PrintLines prints a text of several lines, whose other control characters are escaped.
func PrintLines(w io.Writer, text string) { io.WriteString(w, printable.Lines(text)) }

// Verbatim returns the output for data that other programs read as it is, such as an export.
// On a terminal it is escaped as PrintLines does.
func (a *App) Verbatim() io.Writer {
	if f, ok := a.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return printable.Writer(a.Out, printable.LinesOf)
	}
	return a.Out
}

// WriteJSON writes a value as JSON on one line, see [printable.JSON].
func WriteJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(printable.Writer(w, printable.JSON))
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// The escape sequences of a terminal for colors.
const (
	ColorGreen = "\x1b[32m"
	ColorRed   = "\x1b[31m"
	ColorOff   = "\x1b[0m"
)

// Colored reports whether the output may have colors: it is a terminal, and the
// variable NO_COLOR is not set.
func (a *App) Colored() bool {
	f, ok := a.Out.(*os.File)
	noColor, _ := a.Lookup("NO_COLOR")
	return ok && noColor == "" && !a.JSON && term.IsTerminal(int(f.Fd()))
}

// ColorMarks returns an explanation in the form of [PrintLines], with colored marks if color
// is true.
func ColorMarks(text string, color bool) string {
	if text = printable.Lines(text); !color {
		return text
	}
	return strings.NewReplacer("✓", ColorGreen+"✓"+ColorOff, "✗", ColorRed+"✗"+ColorOff).Replace(text)
}

// Note prints a remark to stderr. It prints nothing with --json.
func (a *App) Note(format string, args ...any) {
	if !a.JSON {
		Printf(a.Err, format+"\n", args...)
	}
}

// Stamp formats a time for output: RFC 3339 in UTC, or "" for the zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// reportError prints err, which cmd returned, to stderr. With --json it is an
// object.
func (a *App) reportError(cmd *cobra.Command, err error) {
	text := err.Error()
	var at *authz.Error
	if errors.As(err, &at) && strings.HasPrefix(text, "ostiary: ") {
		text = strings.TrimPrefix(text, "ostiary: ")
	}
	out := errorJSON{errorKind(err), text, a.hint(cmd, err)}
	if a.JSON {
		WriteJSON(a.Err, map[string]any{"error": out})
		return
	}
	PrintLines(a.Err, cmd.Root().Name()+": "+text+"\n") // an error can have several lines
	if out.Hint != "" {
		PrintLines(a.Err, out.Hint+"\n")
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
		if slices.Contains([]string{"serve", "acp", "keystone", "migrate"}, cmd.Name()) {
			return true
		}
	}
	return false
}

// forbids reports whether err is the system's refusal of a folder, of a file in it, or of a
// file with the folder's name and an ending.
func forbids(err error, folder string) bool {
	refused, ok := errors.AsType[*fs.PathError](err)
	return ok && errors.Is(refused, fs.ErrPermission) && strings.HasPrefix(filepath.Clean(refused.Path), filepath.Clean(folder))
}

// hint returns advice on what to do about err, or "".
func (a *App) hint(cmd *cobra.Command, err error) string {
	switch {
	case isLocked(err):
		return lockHint(a.Data, !folderOnly(cmd))
	case errors.Is(err, kv.ErrCopy):
		return fmt.Sprintf("%s is the folder of a node: start it with serve --cluster, or with --log and the URL of its log. While it runs, commands on stores work with --server, "+
			"and \"ostiary keystone\" and \"ostiary node\" with --data", a.Data)
	case errors.Is(err, kv.ErrNoCopy):
		return fmt.Sprintf("%s is the folder of a server alone, also after \"ostiary keystone bootstrap\": make it the first node of a new cluster with \"ostiary migrate %s cluster:%s\", "+
			"or move it to a database with \"ostiary migrate %s URL\", and start it then; a further node needs a new folder", a.Data, a.Data, a.Data, a.Data)
	case isFormat(err):
		return "a newer version or another program wrote the folder; it is unchanged"
	case isDamaged(err):
		return "the folder is damaged; restore it from a backup"
	case forbids(err, a.Data):
		return fmt.Sprintf("the program runs as user %d: %s and all files in it must belong to this user, who must also be able to write to the folder that has it", os.Getuid(), a.Data)
	case errors.Is(err, authz.ErrNoSchema) && changed(cmd, "at"):
		return "the store had no schema at the point that --at names"
	case errors.Is(err, authz.ErrNoSchema) && (changed(cmd, "schema") || cmd.CommandPath() == "ostiary schema get" && cmd.Flags().NArg() > 0):
		return `"ostiary schema list" shows the ids of the schemas`
	case errors.Is(err, authz.ErrNoSchema):
		return `write one with "ostiary schema write FILE"`
	case errors.Is(err, acp.ErrUnauthenticated) && !changed(cmd, "as"):
		return "name the actor with --as DID"
	}
	if duplicate := cmd.Flags().Lookup("on-duplicate"); duplicate != nil {
		if text := duplicateHint(duplicate.Value.String(), err); text != "" {
			return text
		}
	}
	if hinted, ok := errors.AsType[*hintedError](err); ok {
		return hinted.hint
	}
	at, _ := errors.AsType[*client.Error](err)
	switch {
	case at != nil && at.Code == "not_recorded":
		return "a server records decisions if it runs with --record-decisions; name it with --server"
	case cmd.Flags().Lookup("on-missing") != nil && errors.Is(err, authz.ErrTupleMissing):
		return "to accept that the tuple does not exist, use --on-missing ignore"
	}
	return argumentsHint(cmd, err)
}

// duplicateHint returns advice about --on-duplicate, which has a value, or "".
func duplicateHint(value string, err error) string {
	exists := errors.Is(err, authz.ErrTupleExists)
	stopped, _ := errors.AsType[*StoppedError](err)
	switch {
	case exists && value == "ignore":
		return "the stored tuple has another condition, context or expiry, and --on-duplicate ignore skips only equal tuples; to replace it, use --on-duplicate replace"
	case exists:
		return "to skip tuples that already exist, use --on-duplicate ignore"
	case stopped != nil && stopped.Partly && value != "replace":
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
	return errors.Is(err, storage.ErrLocked) || errors.Is(err, authz.ErrLocked)
}

func isFormat(err error) bool {
	return errors.Is(err, storage.ErrFormat) || errors.Is(err, authz.ErrFormat)
}

func isDamaged(err error) bool {
	return errors.Is(err, storage.ErrDamaged) || errors.Is(err, authz.ErrDamaged)
}

// clearError is an error with a text of its own in place of the text of its cause.
type clearError struct {
	text  string
	cause error // the error that [errors.Is] finds
}

func (e *clearError) Error() string { return e.text }
func (e *clearError) Unwrap() error { return e.cause }

// WithText returns an error with a text in place of the text of its cause.
func WithText(text string, cause error) error { return &clearError{text, cause} }
