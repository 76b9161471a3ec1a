package relations

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/internal/engine/domain"
)

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
				cli.Printf(w, "store %s, id %s, has no alias for the door %s\n", s.Name, s.ID, door)
			} else {
				cli.Println(w, before)
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
			cli.Printf(w, "removed the alias %s for the door %s\n", before, door)
		}
		cli.Printf(w, "store %s, id %s, has %s\n", s.Name, s.ID, cli.PluralOf(len(s.Aliases), "alias", "aliases"))
		for _, door := range slices.Sorted(maps.Keys(s.Aliases)) {
			cli.Printf(w, "%s\t%s\n", door, s.Aliases[door])
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
