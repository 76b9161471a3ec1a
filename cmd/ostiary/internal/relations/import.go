package relations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/tuplefile"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

func (a *app) tupleImport() *cobra.Command {
	var flags cli.ImportFlags
	cmd := &cobra.Command{Use: "import FILE", Short: "Import tuples from a CSV, JSON, JSON lines or YAML file", Args: cobra.ExactArgs(1),
		Long: "Import tuples from a file in a format of OpenFGA's command line; - is the standard input. CSV files have the columns user_type,\n" +
			"user_id,user_relation,relation,object_type,object_id,condition_name,condition_context and, as our addition, expires.\n\n" +
			"The import writes log entries of --entry tuples each. Each entry is atomic and durable. An error stops the import; earlier entries remain.",
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.File = args[0]
			start := time.Now()
			return a.onStore(cmd.Context(), func(s *found) error {
				done, err := a.ImportFile(flags, func(tuples iter.Seq2[rel.Tuple, error], o client.ImportOptions) (client.Imported, error) {
					return a.importInto(cmd.Context(), s, tuples, o)
				})
				if err != nil {
					return err
				}
				return a.printImported(done, time.Since(start))
			})
		}}
	f := cmd.Flags()
	f.StringVar(&flags.Format, "format", "", "csv, json, jsonl or yaml; default: by the file name")
	f.StringVar(&flags.Schema, "schema", "", "id of the schema that must admit the tuples; default: the current one")
	cli.CountVar(f, &flags.Entry, "entry", 0, 0, "number of tuples in one log entry; default: 20,000")
	flags.Duplicate.Add(cmd)
	return cmd
}

// importInto imports tuples into a store. The error of a tuple is an
// [ostiary.ImportError].
func (a *app) importInto(ctx context.Context, s *found, tuples iter.Seq2[rel.Tuple, error], o client.ImportOptions) (client.Imported, error) {
	var own error // of the file
	done, err := s.Import(ctx, func(yield func(rel.Tuple, error) bool) {
		for t, err := range tuples {
			if own = err; !yield(t, err) {
				return
			}
		}
	}, o)
	if own != nil {
		return done, own
	}
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Tuple > 0 {
		refused.Message = strings.TrimPrefix(refused.Message, fmt.Sprintf("tuple %d: ", refused.Tuple))
		return done, &ostiary.ImportError{Tuple: refused.Tuple, Err: refused}
	}
	if err != nil && a.Server != "" && !isResponse(err) && !errors.Is(err, errNative) && !errors.Is(err, cli.ErrUsage) {
		// The server may have received the stream, and stored entries of it.
		lost := cli.ConnectionFailed(fmt.Sprintf("the connection to %s was lost during the import: %v", s.server.Base(), rootCause(err)), err)
		return done, &cli.StoppedError{Err: lost, Done: " (the number of imported tuples is unknown)", Partly: true}
	}
	return done, err
}

// rootCause returns the innermost error of err.
func rootCause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

func (a *app) printImported(done client.Imported, took time.Duration) error {
	out := writtenJSON{Token: done.Token, Tuples: done.Read}
	if done.Written >= 0 {
		out.Changed = &done.Written
	}
	at := ""
	if done.Token != "" {
		revision, err := ostiary.Token(done.Token).Revision()
		if err != nil {
			return err
		}
		out.Revision, at = uint64(revision), fmt.Sprintf(", revision %d", revision)
	}
	return a.Print(out, func(w io.Writer) {
		effect := ""
		switch {
		case done.Written == done.Read || done.Written < 0:
		case done.Written == 0:
			effect = ", nothing changed"
		default:
			effect = fmt.Sprintf(", %d new or changed", done.Written)
		}
		fmt.Fprintf(w, "imported %s%s%s%s\n", cli.Plural(done.Read, "tuple"), effect, rate(done.Read, took), at)
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

func (a *app) tupleExport() *cobra.Command {
	var format, at string
	cmd := &cobra.Command{Use: "export [FILE]", Short: "Export all tuples to a file or the standard output", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "-"
			if len(args) > 0 {
				file = args[0]
			}
			if format == "" && (file == "-" || !known(file)) {
				if format = string(tuplefile.CSV); file == "-" && a.JSON {
					format = string(tuplefile.JSONL)
				}
			}
			kind, err := cli.FormatOf(file, format)
			if err != nil {
				return err
			}
			when, err := parseAt("--at", at)
			if err != nil {
				return err
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				if err := s.requireRevision(cmd.Context(), when); err != nil {
					return err
				}
				return a.export(file, kind, s.export(cmd.Context(), when))
			})
		}}
	cmd.Flags().StringVar(&format, "format", "", "csv, json, jsonl or yaml; default: by the file name, or csv")
	cmd.Flags().StringVar(&at, "at", "", "export an earlier point: a revision, a token, or a time (RFC 3339)")
	return cmd
}

// known reports whether the name of a file has the ending of a format.
func known(file string) bool {
	_, err := tuplefile.FormatOf(file)
	return err == nil
}

// export yields all tuples of the store at a point.
func (f *found) export(ctx context.Context, at *client.At) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		if err := f.eachExported(ctx, at, func(t rel.Tuple) bool { return yield(t, nil) }); err != nil {
			yield(rel.Tuple{}, err)
		}
	}
}

func (f *found) eachExported(ctx context.Context, at *client.At, yield func(rel.Tuple) bool) error {
	s, err := f.native()
	if err != nil {
		return err
	}
	token := ""
	if at != nil {
		// A what-if without questions returns the token of every form of a point.
		text, err := f.ask(ctx, "/what-if", map[string]any{"questions": []any{}, "at": at})
		if err != nil {
			return err
		}
		var now struct{ Token string }
		if err := json.Unmarshal(text, &now); err != nil {
			return err
		}
		token = now.Token
	}
	stream, err := s.Export(ctx, token, 0)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		line, err := stream.Next()
		if err != nil || line.End != nil {
			return err
		}
		if line.Tuple != nil {
			t, err := line.Tuple.Tuple()
			if err != nil || !yield(t) {
				return err
			}
		}
	}
}

// export writes the tuples to a file, or to the standard output for "-".
func (a *app) export(file string, format tuplefile.Format, tuples iter.Seq2[rel.Tuple, error]) error {
	if file == "-" {
		_, err := exportTo(a.Out, format, tuples)
		return err
	}
	line := a.Progress()
	n, err := exportFile(file, format, line.Count(tuples, "exporting"))
	line.End()
	if err != nil {
		return err
	}
	return a.Print(map[string]any{"tuples": n, "file": file}, func(w io.Writer) {
		fmt.Fprintf(w, "exported %s to %s\n", cli.Plural(n, "tuple"), file)
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
