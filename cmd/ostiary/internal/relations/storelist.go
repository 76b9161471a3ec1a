package relations

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

func (a *app) storeList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the stores", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		stores, err := a.allStores(cmd.Context())
		if err != nil {
			return err
		}
		return a.printStores(stores)
	}}
}

func (a *app) printStores(stores []storeJSON) error {
	return a.Print(stores, func(w io.Writer) {
		cli.Printf(w, "NAME\tID\tCREATED\tALIASES\n")
		for _, s := range stores {
			cli.Printf(w, "%s\t%s\t%s\t%s\n", s.Name, s.ID, s.Created, aliasText(s.Aliases))
		}
	})
}
