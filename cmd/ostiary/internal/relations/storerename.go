package relations

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

func (a *app) storeRename() *cobra.Command {
	return &cobra.Command{Use: "rename STORE NAME", Short: "Rename a store", Args: cobra.ExactArgs(2), RunE: func(cmd *cobra.Command, args []string) error {
		return a.onNamed(cmd.Context(), args[:1], func(s *found) error {
			now, err := s.Rename(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			out := storeOf(now)
			return a.Print(out, func(w io.Writer) { cli.Printf(w, "store %s has the new name %s\n", out.ID, out.Name) })
		})
	}}
}
