package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/onap/catalog"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/policy/domain"
	"github.com/ostiary/ostiary/storage"
)

// storesShownMax is the largest number of stores that an error text lists.
const storesShownMax = 10

// storeLabel is the id and the name of a store in an error text, and its aliases by
// door.
type storeLabel struct {
	ID, name string
	aliases  map[string]string
}

func (s storeLabel) String() string { return s.ID + " (" + s.name + ")" }

// FindStore finds a store by id, name or alias, as SelectStore does. The empty name
// is the only store.
func FindStore(ctx context.Context, e *ostiary.Engine, name string) (*ostiary.Store, error) {
	if id, err := storage.ParseStoreID(name); err == nil {
		s, err := e.Store(ctx, id)
		if errors.Is(err, ostiary.ErrNoStore) {
			known, _ := StoreLabels(ctx, e) // without them, the error lists no stores
			err = noStoreWithID(name, known, err)
		}
		return s, err
	}
	known, err := StoreLabels(ctx, e)
	if err != nil {
		return nil, err
	}
	found, err := SelectStore(name, known)
	if err != nil {
		return nil, err
	}
	id, err := storage.ParseStoreID(found.ID)
	if err != nil {
		return nil, err
	}
	return e.Store(ctx, id)
}

// StoreLabels returns all stores of an engine.
func StoreLabels(ctx context.Context, e *ostiary.Engine) (out []storeLabel, err error) {
	for info, err := range e.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return nil, err
		}
		out = append(out, storeLabel{info.ID.String(), info.Name, info.Aliases})
	}
	return out, nil
}

// ownStores returns the stores that a command without --store may mean. It leaves
// out those that doors make for their policies and records, and then, if others are
// left, the tenants of Permify.
func ownStores(known []storeLabel) []storeLabel {
	var own, tenants []storeLabel
	for _, s := range known {
		switch {
		case DoorOf(s.aliases) != "":
		case s.aliases[permify.Name] != "":
			tenants = append(tenants, s)
		default:
			own = append(own, s)
		}
	}
	if len(own) == 0 {
		return tenants
	}
	return own
}

// SelectStore returns the only store with a name. If no store has the name, it is
// the only store with this alias, for whatever door. The empty name is the only
// store of [ownStores].
func SelectStore(name string, known []storeLabel) (storeLabel, error) {
	found := ownStores(known)
	if name != "" {
		if found = namesakes(name, known); len(found) == 0 {
			return withThisAlias(name, known)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return storeLabel{}, severalStores(name, found)
	case name == "" && len(known) > 0:
		return storeLabel{}, fmt.Errorf("%w of your own yet: create one with \"ostiary store create NAME\"; the store %s has the records of the protocol %s: name it with --store to use it", errNoStore, known[0], DoorOf(known[0].aliases))
	case name == "":
		return storeLabel{}, fmt.Errorf("%w yet: create one with \"ostiary store create NAME\"", errNoStore)
	}
	return storeLabel{}, noStoreNamed(name, known)
}

// withThisAlias returns the only store with an alias. It does not select stores
// with the records of a door: their aliases, such as "default", are the same in
// every deployment, and a command must not reach these records by accident.
func withThisAlias(alias string, known []storeLabel) (storeLabel, error) {
	var found []storeLabel
	for _, s := range known {
		if slices.Contains(slices.Collect(maps.Values(s.aliases)), alias) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 0:
		return storeLabel{}, noStoreNamed(alias, known)
	case len(found) == 1 && DoorOf(found[0].aliases) == "":
		return found[0], nil
	}
	return storeLabel{}, WithText(fmt.Sprintf("no store has the name %q, which is an alias: select a store by its name or id; %s", alias, listStores(found)), errNoStore)
}

// namesakes returns the stores with a name.
func namesakes(name string, known []storeLabel) (out []storeLabel) {
	for _, s := range known {
		if s.name == name {
			out = append(out, s)
		}
	}
	return out
}

// noStoreNamed returns the error for a name that none of the known stores has.
func noStoreNamed(name string, known []storeLabel) error {
	var names []string
	for _, s := range known {
		names = append(names, s.name)
	}
	return fmt.Errorf("%w has the name %q%s; %s", errNoStore, name, Suggestion(name, names), listStores(known))
}

// noStoreWithID returns the error for an id that none of the known stores has.
func noStoreWithID(id string, known []storeLabel, cause error) error {
	var ids []string
	for _, s := range known {
		ids = append(ids, s.ID)
	}
	return WithText(fmt.Sprintf("no store has the id %s%s; %s", id, Suggestion(id, ids), listStores(known)), cause)
}

// listStores returns the part of an error text that lists stores, up to
// storesShownMax of them.
func listStores(known []storeLabel) string {
	if len(known) == 0 {
		return "there is no store yet: create one with \"ostiary store create NAME\""
	}
	var shown []string
	for _, s := range known[:min(len(known), storesShownMax)] {
		shown = append(shown, s.String())
	}
	if len(known) > storesShownMax {
		return "some stores: " + strings.Join(shown, ", ") + "; \"ostiary store list\" shows all"
	}
	return "the stores: " + strings.Join(shown, ", ")
}

// severalStores returns the error for a name that several stores have. The empty
// name means that the command line names no store.
func severalStores(name string, found []storeLabel) error {
	var shown []string
	for _, s := range found[:min(len(found), storesShownMax)] {
		if name == "" {
			shown = append(shown, s.String())
		} else {
			shown = append(shown, "--store "+s.ID)
		}
	}
	if len(found) > storesShownMax {
		shown = append(shown, "…")
	}
	if name == "" {
		return fmt.Errorf("%w: select one with --store: %s", errWhich, strings.Join(shown, ", "))
	}
	return WithText(fmt.Sprintf("%d stores have the name %q: select one by its id: %s", len(found), name, strings.Join(shown, " or ")), errWhich)
}

// RequireNewName fails if one of the known stores has the name of a new store: a
// command could then find neither of them by the name.
func RequireNewName(name string, known []storeLabel) error {
	if same := namesakes(name, known); len(same) > 0 {
		return fmt.Errorf("%w: the store %s has the name %q: use that store, or create another one of this name with --same-name", ostiary.ErrStoreExists, same[0].ID, name)
	}
	return nil
}

// StoreJSON is the JSON form of a store.
type StoreJSON struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Created  string            `json:"created"`
	Aliases  map[string]string `json:"aliases,omitempty"`
	Revision *uint64           `json:"revision,omitempty"`
	Schema   string            `json:"schema,omitempty"`
}

// DoorOf returns the protocol of the door whose records a store with these aliases
// has, or "".
func DoorOf(aliases map[string]string) string {
	for _, d := range [...]struct{ door, protocol string }{{keystone.Name, "OpenStack Identity"}, {domain.Alias, "XACML"},
		{catalog.StoreDoor, "ONAP"}, {acp.Door, "document access control"}} {
		if aliases[d.door] != "" {
			return d.protocol
		}
	}
	return ""
}
