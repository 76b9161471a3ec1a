package relations

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/openfga/language"
)

func (a *app) schemaGet() *cobra.Command {
	var format string
	cmd := &cobra.Command{Use: "get [ID]", Short: "Show a schema; default: the current one", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) > 0 {
				id = args[0]
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				sc, err := s.Schema(cmd.Context(), id)
				if err != nil {
					return err
				}
				return a.printSchema(&sc, format)
			})
		}}
	cmd.Flags().StringVar(&format, "format", "source", "source (the text as written), dsl or json")
	return cmd
}

// printSchema prints a schema in a format of the command schema get.
func (a *app) printSchema(sc *client.SchemaInfo, format string) error {
	if a.JSON {
		model, err := language.FormatJSON(sc.Model)
		if err != nil {
			return err
		}
		out := schemaOf(*sc)
		out.Language, out.Model = sc.Dialect, model
		return cli.WriteJSON(a.Out, out)
	}
	text, err := schemaText(sc, format)
	if err == nil {
		_, err = io.WriteString(a.Verbatim(), text)
	}
	return err
}

func schemaText(sc *client.SchemaInfo, format string) (string, error) {
	switch {
	case format == "source" && sc.Source != "":
		return sc.Source, nil
	case format == "dsl" || format == "source":
		return language.FormatDSL(sc.Model)
	case format == "json":
		text, err := language.FormatJSON(sc.Model)
		return string(text) + "\n", err
	}
	return "", fmt.Errorf("%w: invalid --format %q: expected source, dsl or json", cli.ErrUsage, format)
}
