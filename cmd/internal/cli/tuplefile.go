package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

// ImportFlags select the file to import and how to import it.
type ImportFlags struct {
	File, Format, Schema string
	Duplicate            DuplicateFlag
	Entry                int
}

// ImportFile opens the file of the flags and passes its tuples, and the options of the
// flags, to into. It shows a progress bar for a large file on a terminal. An error of
// into is one of a tuple if it is an [authz.ImportError].
func (a *App) ImportFile(flags ImportFlags, into func(iter.Seq2[rel.Tuple, error], client.ImportOptions) (client.Imported, error)) (done client.Imported, err error) {
	o := client.ImportOptions{Schema: flags.Schema, Entry: flags.Entry}
	if o.OnDuplicate, err = flags.Duplicate.Action(); err != nil {
		return done, err
	}
	format, err := FormatOf(flags.File, flags.Format)
	if err != nil {
		return done, err
	}
	in, size := a.In, int64(0)
	if flags.File != "-" {
		f, err := os.Open(flags.File)
		if err != nil {
			return done, err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		in = f
	}
	if size >= barBytesMin && a.terminal() {
		line := a.Progress()
		defer line.End()
		in = line.reader(in, "importing "+flags.File, size)
	}
	start := bufio.NewReaderSize(in, tuplefile.StartBytes)
	if err := a.checkStart(start, flags.File, format); err != nil {
		return done, err
	}
	past := 0
	done, err = into(countPast(tuplefile.Read(start, format), time.Now(), &past), o)
	if err != nil {
		located := locateTuple(flags.File, format, err)
		_, broken := errors.AsType[*StoppedError](err)
		switch {
		case broken:
			return done, err
		case done.Read > 0:
			return done, &StoppedError{Err: located, Done: fmt.Sprintf(" (imported before the error: %s)", Plural(done.Read, "tuple")), Partly: true}
		case located != err:
			return done, &StoppedError{Err: located, Done: " (nothing was imported)"}
		}
		return done, err
	}
	if past > 0 {
		a.Note("warning: %s without effect, because the time of expiry is in the past", Plural(past, "tuple"))
	}
	return done, nil
}

// checkStart fails if the file is empty, as after a failed export into a pipe, in a
// format that has a text for no tuples. It warns of a format without expiries.
func (a *App) checkStart(in *bufio.Reader, file string, format tuplefile.Format) error {
	if file == "-" {
		file = "the standard input"
	}
	start, _ := in.Peek(tuplefile.StartBytes) // the reader of the tuples gets the error
	switch empty := len(bytes.TrimSpace(start)) == 0 && len(start) < tuplefile.StartBytes; {
	case empty && format == tuplefile.JSONL:
		a.Note("warning: %s is empty", file)
	case empty:
		return fmt.Errorf("%w: %s is empty: expected %s", tuplefile.ErrTuple, file, map[tuplefile.Format]string{
			tuplefile.CSV: "a line with the names of the columns", tuplefile.JSON: "a list of tuples, for example []", tuplefile.YAML: "a list of tuples, for example []"}[format])
	case tuplefile.IsResponse(start, format):
		a.Note("warning: %s is a response of OpenFGA's API, which has no expiries: if it comes from an Ostiary, tuples that expire there do not expire here; \"ostiary tuple export\" and \"ostiary import --from\" keep expiries", file)
	}
	return nil
}

// countPast yields tuples, and adds to n the number of those that have expired.
func countPast(tuples iter.Seq2[rel.Tuple, error], now time.Time, n *int) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		for t, err := range tuples {
			if err == nil && t.Expires != 0 && t.Expires <= rel.TimeOf(now) {
				*n++
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// locateTuple adds the file, line and column of a tuple to an error about it. It
// returns other errors unchanged.
func locateTuple(file string, format tuplefile.Format, err error) error {
	number, line, column, cause := 0, 0, 0, error(nil)
	if at, ok := errors.AsType[*authz.ImportError](err); ok {
		number, cause = at.Tuple, at.Err
	}
	if at, ok := errors.AsType[*tuplefile.Error](err); ok {
		if cause = at.Err; format == tuplefile.CSV {
			number, line, column = 0, at.Line, 1
		} else {
			number = at.Line
		}
	}
	if node, ok := errors.AsType[*tuplefile.NodeError](err); ok {
		number, line, column, cause = 0, node.Line, node.Column, node.Err
	}
	if cause == nil {
		return err
	}
	if f, openErr := os.Open(file); number > 0 && file != "-" && openErr == nil {
		defer f.Close()
		line, column = tuplefile.Locate(f, format, number)
	}
	switch {
	case file == "-" && number > 0:
		return WithText(fmt.Sprintf("tuple %d of the standard input: %v", number, cause), err)
	case file == "-":
		file = "standard input"
	}
	return WithText(place(file, line, column)+cause.Error(), err)
}

func FormatOf(file, format string) (tuplefile.Format, error) {
	if format != "" {
		return tuplefile.ParseFormat(format)
	}
	f, err := tuplefile.FormatOf(file)
	if err != nil {
		return "", fmt.Errorf("%w; set it with --format", err)
	}
	return f, nil
}

// terminal reports whether stderr is a terminal and progress may be shown on it.
func (a *App) terminal() bool {
	f, ok := a.Err.(*os.File)
	return ok && !a.JSON && term.IsTerminal(int(f.Fd()))
}

// barBytesMin is the file size in bytes from which an import shows a progress
// bar.
const barBytesMin = 4 << 20

// DuplicateFlag is the value of --on-duplicate.
type DuplicateFlag string

func (d *DuplicateFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(d), "on-duplicate", "error", "what to do if the tuple exists: error, ignore (fails if it has another condition, context or expiry), or replace (these)")
}

// Action returns the value in the form of the native API.
func (d DuplicateFlag) Action() (string, error) {
	switch d {
	case "error", "":
		return "", nil
	case "ignore", "replace":
		return string(d), nil
	}
	return "", fmt.Errorf("%w: invalid --on-duplicate %q: expected error, ignore or replace", ErrUsage, string(d))
}
