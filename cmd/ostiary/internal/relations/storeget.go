package relations

import (
	"github.com/spf13/cobra"
)

func (a *app) storeGet() *cobra.Command {
	return &cobra.Command{Use: "get [STORE]", Short: "Show a store", Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
		return a.onNamed(cmd.Context(), args, func(s *found) error {
			now, err := s.Get(cmd.Context())
			if err != nil {
				return err
			}
			return a.printStore(storeOf(now))
		})
	}}
}
