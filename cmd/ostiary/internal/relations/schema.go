package relations

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/openfga/language"
)

// schemaJSON is the JSON form of a schema.
type schemaJSON struct {
	ID        string          `json:"id"`
	Namespace string          `json:"namespace,omitempty"`
	Created   string          `json:"created"`
	Revision  uint64          `json:"revision"`
	Current   bool            `json:"current"`
	Language  string          `json:"language,omitempty"`
	Model     json.RawMessage `json:"model,omitempty"`
}

func schemaOf(s client.SchemaInfo) schemaJSON {
	return schemaJSON{ID: s.ID, Namespace: s.Namespace, Created: cli.Stamp(s.Created), Revision: s.Revision}
}

func (a *app) schemaCommand() *cobra.Command {
	return cli.Group("schema", "Write, show and test schemas (OpenFGA models)",
		a.schemaWrite(), a.schemaList(), a.schemaGet(), a.schemaValidate(), a.schemaTest(), a.schemaAssert())
}

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
					fmt.Fprintf(w, "schema %s is the current one: %s\n", out.ID, cli.Counts(source.Model))
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

func (a *app) schemaList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the store's schemas, newest first", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return a.onStore(cmd.Context(), func(s *found) error {
			all, err := s.Schemas(cmd.Context())
			if err != nil {
				return err
			}
			out := []schemaJSON{}
			for _, one := range all {
				out = append(out, schemaOf(one))
			}
			markCurrent(out)
			return a.printSchemas(out)
		})
	}}
}

// markCurrent marks the current schema of each namespace. The list begins with the
// newest one.
func markCurrent(list []schemaJSON) {
	seen := map[string]bool{}
	for i := range list {
		list[i].Current = !seen[list[i].Namespace]
		seen[list[i].Namespace] = true
	}
}

func (a *app) printSchemas(out []schemaJSON) error {
	return a.Print(out, func(w io.Writer) {
		fmt.Fprintln(w, "ID\tCREATED\tREVISION\t")
		for _, one := range out {
			mark, revision := "", ""
			if one.Current {
				mark = "current"
			}
			if one.Revision > 0 { // OpenFGA's API does not return revisions
				revision = fmt.Sprint(one.Revision)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", one.ID, one.Created, revision, mark)
		}
	})
}

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
		_, err = io.WriteString(a.Out, text)
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

func (a *app) schemaValidate() *cobra.Command {
	return &cobra.Command{Use: "validate FILE…", Short: "Check models without writing them", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			type result struct {
				File       string `json:"file"`
				Types      int    `json:"types"`
				Conditions int    `json:"conditions"`
			}
			out := []result{}
			texts := map[string]string{}
			var errs []error
			for _, name := range args {
				source, err := a.ReadModel(name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if err := source.Compile(); err != nil {
					errs = append(errs, err)
					continue
				}
				texts[name] = cli.Counts(source.Model)
				out = append(out, result{name, len(source.Model.Types), len(source.Model.Conditions)})
			}
			if errs != nil {
				return errors.Join(errs...)
			}
			return a.Print(out, func(w io.Writer) {
				for _, r := range out {
					fmt.Fprintf(w, "%s is valid: %s\n", r.File, texts[r.File])
				}
			})
		}}
}
