package relations

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
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
		fmt.Fprintln(w, "NAME\tID\tCREATED\tALIASES")
		for _, s := range stores {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, s.ID, s.Created, aliasText(s.Aliases))
		}
	})
}
