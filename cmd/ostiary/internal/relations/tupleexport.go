package relations

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

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
		_, err := exportTo(a.Verbatim(), format, tuples)
		return err
	}
	line := a.Progress()
	n, err := exportFile(file, format, line.Count(tuples, "exporting"))
	line.End()
	if err != nil {
		return err
	}
	return a.Print(map[string]any{"tuples": n, "file": file}, func(w io.Writer) {
		cli.Printf(w, "exported %s to %s\n", cli.Plural(n, "tuple"), file)
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
