package relations

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

func (a *app) storeDelete() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{Use: "delete STORE", Short: "Delete a store and all its data", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onNamed(cmd.Context(), args, func(s *found) error {
				out := storeOf(s.info)
				if !yes {
					return fmt.Errorf("%w: this deletes store %s (%s) and all its data; confirm with --yes", cli.ErrUsage, out.Name, out.ID)
				}
				if err := s.Delete(cmd.Context()); err != nil {
					return err
				}
				return a.Print(out, func(w io.Writer) { cli.Printf(w, "deleted store %s, id %s\n", out.Name, out.ID) })
			})
		}}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion")
	return cmd
}
