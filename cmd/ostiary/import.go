package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/tuplefile"
	"github.com/ostiary/ostiary/rel"
)

// barBytesMin is the file size in bytes from which an import shows a progress
// bar.
const barBytesMin = 4 << 20

// importFlags select the file to import and how to import it.
type importFlags struct {
	file, format, schema string
	duplicate            duplicateFlag
	entry                int
}

func (a *app) tupleImport() *cobra.Command {
	var flags importFlags
	cmd := &cobra.Command{Use: "import FILE", Short: "Import tuples from a CSV, JSON, JSON lines or YAML file", Args: cobra.ExactArgs(1),
		Long: "Import tuples from a file in a format of OpenFGA's command line; - is the standard input. CSV files have the columns user_type,\n" +
			"user_id,user_relation,relation,object_type,object_id,condition_name,condition_context and, as our addition, expires.\n\n" +
			"The import writes log entries of --entry tuples each. Each entry is atomic and durable. An error stops the import; earlier entries remain.",
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.file = args[0]
			start := time.Now()
			if r := a.remote(); r != nil {
				done, err := r.importFile(cmd.Context(), flags)
				if err != nil {
					return err
				}
				return a.printImported(done, time.Since(start))
			}
			return a.withStore(cmd.Context(), func(s *ostiary.Store) error {
				done, err := a.importFile(cmd.Context(), s, flags)
				if err != nil {
					return err
				}
				return a.printImported(done, time.Since(start))
			})
		}}
	f := cmd.Flags()
	f.StringVar(&flags.format, "format", "", "csv, json, jsonl or yaml; default: by the file name")
	f.StringVar(&flags.schema, "schema", "", "id of the schema that must admit the tuples; default: the current one")
	countVar(f, &flags.entry, "entry", 0, 0, "number of tuples in one log entry; default: 20,000")
	flags.duplicate.add(cmd)
	return cmd
}

func (a *app) printImported(done ostiary.ImportResult, took time.Duration) error {
	out := writtenJSON{Token: string(done.Token), Tuples: done.Read}
	if done.Written != writtenUnknown {
		out.Changed = &done.Written
	}
	at := ""
	if done.Token != "" {
		revision, err := done.Token.Revision()
		if err != nil {
			return err
		}
		out.Revision, at = uint64(revision), fmt.Sprintf(", revision %d", revision)
	}
	return a.print(out, func(w io.Writer) {
		effect := ""
		switch done.Written {
		case done.Read, writtenUnknown:
		case 0:
			effect = ", nothing changed"
		default:
			effect = fmt.Sprintf(", %d new or changed", done.Written)
		}
		fmt.Fprintf(w, "imported %s%s%s%s\n", plural(done.Read, "tuple"), effect, rate(done.Read, took), at)
	})
}

// rate formats the duration and speed of an import. It returns "" for small
// imports.
func rate(n int, took time.Duration) string {
	if n < 10_000 {
		return ""
	}
	return fmt.Sprintf(" in %.1f s (%.0f k/s)", took.Seconds(), float64(n)/1000/took.Seconds())
}

func (a *app) importFile(ctx context.Context, s *ostiary.Store, flags importFlags) (ostiary.ImportResult, error) {
	policy, err := flags.duplicate.policy()
	if err != nil {
		return ostiary.ImportResult{}, err
	}
	return a.importInto(flags, func(tuples iter.Seq2[rel.Tuple, error]) (ostiary.ImportResult, error) {
		return s.Import(ctx, tuples,
			ostiary.ImportOptions{SchemaID: flags.schema, OnDuplicate: policy, EntryTuples: flags.entry})
	})
}

// importInto opens the file and passes its tuples to into. It shows a progress bar
// for a large file on a terminal.
func (a *app) importInto(flags importFlags, into func(iter.Seq2[rel.Tuple, error]) (ostiary.ImportResult, error)) (ostiary.ImportResult, error) {
	format, err := formatOf(flags.file, flags.format)
	if err != nil {
		return ostiary.ImportResult{}, err
	}
	in, size := a.in, int64(0)
	if flags.file != "-" {
		f, err := os.Open(flags.file)
		if err != nil {
			return ostiary.ImportResult{}, err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		in = f
	}
	if size >= barBytesMin && a.terminal() {
		line := a.progress()
		defer line.end()
		in = line.reader(in, "importing "+flags.file, size)
	}
	start := bufio.NewReaderSize(in, tuplefile.StartBytes)
	if err := a.checkStart(start, flags.file, format); err != nil {
		return ostiary.ImportResult{}, err
	}
	past := 0
	done, err := into(countPast(tuplefile.Read(start, format), time.Now(), &past))
	if err != nil {
		located := locateTuple(flags.file, format, err)
		_, broken := errors.AsType[*stoppedError](err)
		switch {
		case broken:
			return done, err
		case done.Read > 0:
			return done, &stoppedError{located, fmt.Sprintf(" (imported before the error: %s)", plural(done.Read, "tuple")), true}
		case located != err:
			return done, &stoppedError{located, " (nothing was imported)", false}
		}
		return done, err
	}
	if past > 0 {
		a.note("warning: %s without effect, because the time of expiry is in the past", plural(past, "tuple"))
	}
	return done, nil
}

// checkStart fails if the file is empty, as after a failed export into a pipe, in a
// format that has a text for no tuples. It warns of a format without expiries.
func (a *app) checkStart(in *bufio.Reader, file string, format tuplefile.Format) error {
	if file == "-" {
		file = "the standard input"
	}
	start, _ := in.Peek(tuplefile.StartBytes) // the reader of the tuples gets the error
	switch empty := len(bytes.TrimSpace(start)) == 0 && len(start) < tuplefile.StartBytes; {
	case empty && format == tuplefile.JSONL:
		a.note("warning: %s is empty", file)
	case empty:
		return fmt.Errorf("%w: %s is empty: expected %s", tuplefile.ErrTuple, file, map[tuplefile.Format]string{
			tuplefile.CSV: "a line with the names of the columns", tuplefile.JSON: "a list of tuples, for example []", tuplefile.YAML: "a list of tuples, for example []"}[format])
	case tuplefile.IsResponse(start, format):
		a.note("warning: %s is a response of OpenFGA's API, which has no expiries: if it comes from an Ostiary, tuples that expire there do not expire here; \"ostiary tuple export\" and \"ostiary import --from\" keep expiries", file)
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
	if at, ok := errors.AsType[*ostiary.ImportError](err); ok {
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
		return &locatedError{fmt.Sprintf("tuple %d of the standard input: %v", number, cause), err}
	case file == "-":
		file = "standard input"
	}
	return &locatedError{place(file, line, column) + cause.Error(), err}
}

func formatOf(file, format string) (tuplefile.Format, error) {
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
func (a *app) terminal() bool {
	f, ok := a.err.(*os.File)
	return ok && !a.json && term.IsTerminal(int(f.Fd()))
}

func (a *app) tupleExport() *cobra.Command {
	var format, at string
	cmd := &cobra.Command{Use: "export [FILE]", Short: "Export all tuples to a file or the standard output", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "-"
			if len(args) > 0 {
				file = args[0]
			}
			if file == "-" && format == "" {
				if format = string(tuplefile.CSV); a.json {
					format = string(tuplefile.JSONL)
				}
			}
			kind, err := formatOf(file, format)
			if err != nil {
				return err
			}
			when, err := parseAt("--at", at)
			if err != nil {
				return err
			}
			if r := a.remote(); r != nil {
				return a.export(file, kind, r.nativeExport(cmd.Context(), at))
			}
			return a.withStore(cmd.Context(), func(s *ostiary.Store) error {
				return a.export(file, kind, s.Export(cmd.Context(), when))
			})
		}}
	cmd.Flags().StringVar(&format, "format", "", "csv, json, jsonl or yaml; default: by the file name, or csv")
	cmd.Flags().StringVar(&at, "at", "", "export an earlier point: a revision, a token, or a time (RFC 3339)")
	return cmd
}

// export writes the tuples to a file, or to the standard output for "-".
func (a *app) export(file string, format tuplefile.Format, tuples iter.Seq2[rel.Tuple, error]) error {
	if file == "-" {
		_, err := exportTo(a.out, format, tuples)
		return err
	}
	line := a.progress()
	n, err := exportFile(file, format, line.count(tuples, "exporting"))
	line.end()
	if err != nil {
		return err
	}
	return a.print(map[string]any{"tuples": n, "file": file}, func(w io.Writer) {
		fmt.Fprintf(w, "exported %s to %s\n", plural(n, "tuple"), file)
	})
}

// exportFile writes the tuples to a temporary file and renames it, so that a
// failed export leaves no incomplete file. It writes to the file of a symbolic
// link, and directly to a pipe or device.
func exportFile(name string, format tuplefile.Format, tuples iter.Seq2[rel.Tuple, error]) (n int, err error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return 0, err
		}
		n, err := exportTo(f, format, tuples)
		return n, errors.Join(err, f.Close())
	}
	temp := name + ".part"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(temp, name)
		}
		if err != nil {
			os.Remove(temp)
		}
	}()
	if n, err = exportTo(f, format, tuples); err != nil {
		return n, err
	}
	return n, f.Sync()
}

// exportTo writes the tuples and returns their number.
func exportTo(w io.Writer, format tuplefile.Format, tuples iter.Seq2[rel.Tuple, error]) (n int, err error) {
	out, err := tuplefile.NewWriter(w, format)
	if err != nil {
		return 0, err
	}
	for t, err := range tuples {
		if err == nil {
			err = out.Write(t)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, out.Close()
}
