package relations

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/storage"
)

func (a *app) storeCreate() *cobra.Command {
	var id string
	var sameName bool
	cmd := &cobra.Command{Use: "create NAME", Short: "Create a store, and the data folder if it is missing", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if id != "" {
				if _, err := storage.ParseStoreID(id); err != nil {
					return cli.WithText(fmt.Sprintf("%v: invalid --id %q: expected a ULID, 26 characters: digits and upper case letters without I, L, O and U", cli.ErrUsage, id), cli.ErrUsage)
				}
			}
			if a.Server == "" && a.Data == cli.InMemory {
				a.Note("warning: the store is lost when the command ends: expected --data DIR or --server; --model and --tuples fill a store in memory for one command")
			}
			return a.withServer(cmd.Context(), true, nil, func(s *server) error {
				known, err := s.StoresNamed(cmd.Context(), args[0]) // a caller may create stores without the right to list them
				if err == nil && !sameName {
					err = cli.RequireNewName(args[0], known)
				}
				if err != nil && !isResponse(err) {
					return err
				}
				created, err := s.create(cmd.Context(), client.NewStore{ID: id, Name: args[0]})
				if err != nil {
					return err
				}
				out := storeOf(created)
				return a.Print(out, func(w io.Writer) { cli.Printf(w, "created store %s, id %s\n", out.Name, out.ID) })
			})
		}}
	cmd.Flags().BoolVar(&sameName, "same-name", false, "accept the name of another store; commands then need the id of one of them")
	cmd.Flags().StringVar(&id, "id", "", "id of the store, a ULID; default: a new one")
	return cmd
}
