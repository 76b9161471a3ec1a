package relations

import (
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// storeLimit shows or sets the limits of a store.
func (a *app) storeLimit() *cobra.Command {
	var flags cli.LimitFlags
	cmd := &cobra.Command{Use: "limit STORE", Short: "Show or set how much a store may use", Args: cobra.ExactArgs(1),
		Long: "Show or set how much all callers of a store may use together: requests, and processor time, in a second.\n" +
			"A limit that no flag names stays. A request beyond a limit gets 429 (RESOURCE_EXHAUSTED over gRPC), and when to try again. Each node counts for itself.\n" +
			"Only callers with admin on * set limits of stores.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withServer(cmd.Context(), false, cli.GuardFolder, func(s *server) error {
				at, err := s.find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				own, err := at.native()
				if err != nil {
					return err
				}
				now, err := own.Get(cmd.Context())
				if err != nil {
					return err
				}
				limits := now.Limits
				if limits == nil {
					limits = &turns.Limits{}
				}
				if flags.Set() {
					if err := flags.Change(limits); err != nil {
						return err
					}
					if _, err := s.Call(cmd.Context(), http.MethodPut, own.Path("/limits"), limits, nil); err != nil {
						return err
					}
				}
				return a.Print(limits, func(w io.Writer) { cli.Printf(w, "limits of store %s, id %s\t%s\n", now.Name, now.ID, limits.String()) })
			})
		}}
	flags.Add(cmd.Flags())
	return cmd
}
