package relations

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// storeJSON is the JSON form of a store.
type storeJSON struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Created  string            `json:"created"`
	Aliases  map[string]string `json:"aliases,omitempty"`
	Revision *uint64           `json:"revision,omitempty"`
	Schema   string            `json:"schema,omitempty"`
	Limits   *turns.Limits     `json:"limits,omitempty"`
}

// storeOf returns a store in the form of the output, with the revision and the schema as
// far as they are known.
func storeOf(s client.StoreInfo) storeJSON {
	return storeJSON{ID: s.ID, Name: s.Name, Created: cli.Stamp(s.Created), Aliases: s.Aliases, Revision: s.Revision, Schema: s.Schema, Limits: s.Limits}
}

func (a *app) storeCommand() *cobra.Command {
	return cli.Group("store", "Create, list and delete stores",
		a.storeCreate(), a.storeList(), a.storeGet(), a.storeRename(), a.storeAlias(), a.storeLimit(), a.storeDelete())
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

// printStore prints a store. Some servers return no revision and no schema.
func (a *app) printStore(out storeJSON) error {
	return a.Print(out, func(w io.Writer) {
		cli.Printf(w, "name\t%s\nid\t%s\ncreated\t%s\n", out.Name, out.ID, out.Created)
		if len(out.Aliases) > 0 {
			cli.Printf(w, "aliases\t%s\n", aliasText(out.Aliases))
		}
		if out.Revision != nil {
			cli.Printf(w, "revision\t%d\n", *out.Revision)
		}
		if out.Schema != "" {
			cli.Printf(w, "schema\t%s\n", out.Schema)
		}
		if out.Limits != nil {
			cli.Printf(w, "limits\t%s\n", out.Limits.String())
		}
	})
}
