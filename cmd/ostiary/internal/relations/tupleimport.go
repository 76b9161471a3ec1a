package relations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
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
// [authz.ImportError].
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
		return done, &authz.ImportError{Tuple: refused.Tuple, Err: refused}
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
		revision, err := authz.Token(done.Token).Revision()
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
		cli.Printf(w, "imported %s%s%s%s\n", cli.Plural(done.Read, "tuple"), effect, rate(done.Read, took), at)
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
