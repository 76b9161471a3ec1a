package relations

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

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
		cli.Printf(w, "ID\tCREATED\tREVISION\t\n")
		for _, one := range out {
			mark, revision := "", ""
			if one.Current {
				mark = "current"
			}
			if one.Revision > 0 { // OpenFGA's API does not return revisions
				revision = fmt.Sprint(one.Revision)
			}
			cli.Printf(w, "%s\t%s\t%s\t%s\n", one.ID, one.Created, revision, mark)
		}
	})
}
