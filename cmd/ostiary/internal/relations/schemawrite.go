package relations

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

func (a *app) schemaWrite() *cobra.Command {
	return &cobra.Command{Use: "write FILE", Short: "Write a model as the store's current schema", Args: cobra.ExactArgs(1),
		Long: "Write a model as the store's current schema. FILE is a model in the DSL, a .json file, or a folder with fga.mod; - is the standard input.\n" +
			"Earlier schemas remain and can be used with --schema. Tuples that the new schema does not admit remain stored but have no effect.",
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := a.ReadModel(args[0])
			if err != nil {
				return err
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				written, err := s.WriteSchema(cmd.Context(), newSchema(source, s))
				if err != nil {
					return source.LocateRefusal(err)
				}
				out := schemaOf(written)
				out.Current = true
				return a.Print(out, func(w io.Writer) {
					cli.Printf(w, "schema %s is the current one: %s\n", out.ID, cli.Counts(source.Model))
				})
			})
		}}
}

// newSchema returns a model as a request: with its text as it was written, or as a
// model if the server has only OpenFGA's API.
func newSchema(source *cli.ModelSource, s *found) client.NewSchema {
	if _, err := s.native(); err != nil {
		return client.NewSchema{Model: source.Model}
	}
	return client.NewSchema{Dialect: source.Dialect, Source: string(source.Source)}
}
