package relations

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/policy/domain"
	"github.com/ostiary/ostiary/storage"
)

// storeJSON is the JSON form of a store.
type storeJSON struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Created  string            `json:"created"`
	Aliases  map[string]string `json:"aliases,omitempty"`
	Revision *uint64           `json:"revision,omitempty"`
	Schema   string            `json:"schema,omitempty"`
}

// storeOf returns a store in the form of the output, with the revision and the schema as
// far as they are known.
func storeOf(s client.StoreInfo) storeJSON {
	return storeJSON{ID: s.ID, Name: s.Name, Created: cli.Stamp(s.Created), Aliases: s.Aliases, Revision: s.Revision, Schema: s.Schema}
}

func (a *app) storeCommand() *cobra.Command {
	return cli.Group("store", "Create, list and delete stores",
		a.storeCreate(), a.storeList(), a.storeGet(), a.storeRename(), a.storeAlias(), a.storeDelete())
}

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
				return a.Print(out, func(w io.Writer) { fmt.Fprintf(w, "created store %s, id %s\n", out.Name, out.ID) })
			})
		}}
	cmd.Flags().BoolVar(&sameName, "same-name", false, "accept the name of another store; commands then need the id of one of them")
	cmd.Flags().StringVar(&id, "id", "", "id of the store, a ULID; default: a new one")
	return cmd
}

func (a *app) storeList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the stores", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		stores, err := a.allStores(cmd.Context())
		if err != nil {
			return err
		}
		return a.printStores(stores)
	}}
}

// allStores returns the stores of the server or of the folder.
func (a *app) allStores(ctx context.Context) ([]storeJSON, error) {
	stores := []storeJSON{}
	err := a.withServer(ctx, false, nil, func(s *server) error {
		all, err := s.StoresNamed(ctx, "")
		for _, one := range all {
			stores = append(stores, storeOf(one))
		}
		return err
	})
	return stores, err
}

func (a *app) printStores(stores []storeJSON) error {
	return a.Print(stores, func(w io.Writer) {
		fmt.Fprintln(w, "NAME\tID\tCREATED\tALIASES")
		for _, s := range stores {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, s.ID, s.Created, aliasText(s.Aliases))
		}
	})
}

// aliasText formats aliases by door on one line, for example "permify=t1".
func aliasText(aliases map[string]string) string {
	var out []string
	for _, door := range slices.Sorted(maps.Keys(aliases)) {
		out = append(out, door+"="+aliases[door])
	}
	return strings.Join(out, ", ")
}

// onNamed calls f with the store that the first argument names, or else --store.
func (a *app) onNamed(ctx context.Context, args []string, f func(*found) error) error {
	return a.withServer(ctx, false, nil, func(s *server) error {
		name := a.Store
		if len(args) > 0 {
			name = args[0]
		}
		at, err := s.find(ctx, name)
		if err != nil {
			return err
		}
		return f(at)
	})
}

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

// printStore prints a store. Some servers return no revision and no schema.
func (a *app) printStore(out storeJSON) error {
	return a.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "name\t%s\nid\t%s\ncreated\t%s\n", out.Name, out.ID, out.Created)
		if len(out.Aliases) > 0 {
			fmt.Fprintf(w, "aliases\t%s\n", aliasText(out.Aliases))
		}
		if out.Revision != nil {
			fmt.Fprintf(w, "revision\t%d\n", *out.Revision)
		}
		if out.Schema != "" {
			fmt.Fprintf(w, "schema\t%s\n", out.Schema)
		}
	})
}

func (a *app) storeRename() *cobra.Command {
	return &cobra.Command{Use: "rename STORE NAME", Short: "Rename a store", Args: cobra.ExactArgs(2), RunE: func(cmd *cobra.Command, args []string) error {
		return a.onNamed(cmd.Context(), args[:1], func(s *found) error {
			now, err := s.Rename(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			out := storeOf(now)
			return a.Print(out, func(w io.Writer) { fmt.Fprintf(w, "store %s has the new name %s\n", out.ID, out.Name) })
		})
	}}
}

func (a *app) storeAlias() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{Use: "alias STORE DOOR [ALIAS]", Short: "Show, set or remove the alias of a store for a door", Args: cobra.RangeArgs(2, 3),
		Long: "Set the alias of a store for a door: the name by which clients of the door address the store, for example the tenant id of Permify's\n" +
			"clients (door permify). Without ALIAS the command shows the alias, or removes it with --remove: clients of the door then no longer find the store.",
		RunE: func(cmd *cobra.Command, args []string) error {
			door, alias := args[1], ""
			if len(args) == 3 {
				if alias = args[2]; remove {
					return fmt.Errorf("%w: --remove cannot be combined with an alias to set, %q", cli.ErrUsage, alias)
				}
			}
			if len(args) == 3 {
				if err := requireAliasDoor(door); err != nil {
					return err
				}
				if err := native.CheckAlias(door, alias); err != nil {
					return fmt.Errorf("%w: %w", cli.ErrUsage, err)
				}
			}
			return a.onNamed(cmd.Context(), args[:1], func(s *found) error {
				own, err := s.native()
				if err != nil {
					return err
				}
				return a.changeAlias(storeOf(client.StoreInfo{ID: s.info.ID, Name: s.info.Name, Created: s.info.Created, Aliases: s.info.Aliases}), door, alias, remove, func(aliases map[string]string) error {
					_, err := own.SetAliases(cmd.Context(), aliases)
					return err
				})
			})
		}}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the alias")
	return cmd
}

// changeAlias sets the alias of a store for a door, or removes it, by passing all
// aliases to update. With neither it only prints the alias.
func (a *app) changeAlias(s storeJSON, door, alias string, remove bool, update func(aliases map[string]string) error) error {
	before := s.Aliases[door]
	if before == "" {
		if err := requireAliasDoor(door); err != nil {
			return err
		}
	}
	if alias == "" && !remove {
		return a.Print(s, func(w io.Writer) {
			if before == "" {
				fmt.Fprintf(w, "store %s, id %s, has no alias for the door %s\n", s.Name, s.ID, door)
			} else {
				fmt.Fprintln(w, before)
			}
		})
	}
	if remove && before == "" {
		return fmt.Errorf("%w: store %s, id %s, has no alias for the door %s", cli.ErrUsage, s.Name, s.ID, door)
	}
	if !remove && before == "" && cli.DoorOf(map[string]string{door: alias}) != "" {
		return fmt.Errorf("%w: the door %s makes its stores itself: only a store that it made can have another alias", cli.ErrUsage, door)
	}
	s.Aliases = withAlias(s.Aliases, door, alias)
	if err := update(s.Aliases); err != nil {
		return err
	}
	return a.Print(s, func(w io.Writer) {
		if before != "" && before != alias {
			fmt.Fprintf(w, "removed the alias %s for the door %s\n", before, door)
		}
		fmt.Fprintf(w, "store %s, id %s, has %s\n", s.Name, s.ID, cli.PluralOf(len(s.Aliases), "alias", "aliases"))
		for _, door := range slices.Sorted(maps.Keys(s.Aliases)) {
			fmt.Fprintf(w, "%s\t%s\n", door, s.Aliases[door])
		}
	})
}

// requireAliasDoor fails if no door with this name finds stores by an alias.
func requireAliasDoor(door string) error {
	if known := aliasDoors(); !slices.Contains(known, door) {
		return fmt.Errorf("%w: no door takes aliases of the name %q%s: expected one of %s", cli.ErrUsage, door, cli.Suggestion(door, known), strings.Join(known, ", "))
	}
	return nil
}

// aliasDoors returns the doors that find stores by an alias.
func aliasDoors() []string {
	return []string{permify.Name, authzen.Name, native.Name, domain.Alias, keystone.Name, onap.StoreDoor, acp.Door}
}

// withAlias returns a copy of aliases with one changed, or removed if alias is "".
func withAlias(aliases map[string]string, door, alias string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, aliases)
	if out[door] = alias; alias == "" {
		delete(out, door)
	}
	return out
}

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
				return a.Print(out, func(w io.Writer) { fmt.Fprintf(w, "deleted store %s, id %s\n", out.Name, out.ID) })
			})
		}}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion")
	return cmd
}
