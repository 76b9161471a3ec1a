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
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/door/xacml"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/tool/printable"
	"github.com/ostiary/ostiary/storage"
)

// storesShownMax is the largest number of stores that an error text lists.
const storesShownMax = 10

// Stores is where a command finds a store: a server, or an engine.
type Stores interface {
	// StoreByID returns the store with an id. It fails with [authz.ErrNoStore] if there
	// is none.
	StoreByID(ctx context.Context, id string) (client.StoreInfo, error)
	// StoresNamed returns the stores with a name, or all stores for "".
	StoresNamed(ctx context.Context, name string) ([]client.StoreInfo, error)
}

// Find finds a store by id, name or alias, as selectStore does. The empty name is the
// only store.
func Find(ctx context.Context, in Stores, name string) (client.StoreInfo, error) {
	if _, err := storage.ParseStoreID(name); err == nil {
		s, err := in.StoreByID(ctx, name)
		if errors.Is(err, authz.ErrNoStore) {
			known, _ := in.StoresNamed(ctx, "") // without them, the error lists no stores
			err = noStoreWithID(name, known, err)
		}
		return s, err
	}
	known, err := in.StoresNamed(ctx, name)
	if name != "" && err == nil && len(known) == 0 {
		known, err = in.StoresNamed(ctx, "") // for an alias, or the suggestion of a name
	}
	if err != nil {
		return client.StoreInfo{}, err
	}
	return selectStore(name, known)
}

// FindStore finds a store of an engine as Find does.
func FindStore(ctx context.Context, e *ostiary.Engine, name string) (*ostiary.Store, error) {
	found, err := Find(ctx, engineStores{e}, name)
	if err != nil {
		return nil, err
	}
	id, err := storage.ParseStoreID(found.ID)
	if err != nil {
		return nil, err
	}
	return e.Store(ctx, id)
}

// engineStores are the stores of an engine.
type engineStores struct{ engine *ostiary.Engine }

// StoreByID implements [Stores].
func (s engineStores) StoreByID(ctx context.Context, text string) (client.StoreInfo, error) {
	id, err := storage.ParseStoreID(text)
	if err != nil {
		return client.StoreInfo{}, err
	}
	found, err := s.engine.Store(ctx, id)
	if err != nil {
		return client.StoreInfo{}, err
	}
	return storeInfo(found.Info()), nil
}

// StoresNamed implements [Stores].
func (s engineStores) StoresNamed(ctx context.Context, name string) (out []client.StoreInfo, err error) {
	all := s.engine.Stores(ctx, storage.StoreID{})
	if name != "" {
		all = s.engine.StoresByName(ostiary.WithSystemStores(ctx), name, storage.StoreID{})
	}
	for info, err := range all {
		if err != nil {
			return nil, err
		}
		out = append(out, storeInfo(info))
	}
	return out, nil
}

// NativeStores are the stores of a server with the native API.
type NativeStores struct{ *client.Client }

// StoreByID implements [Stores].
func (s NativeStores) StoreByID(ctx context.Context, id string) (client.StoreInfo, error) {
	return s.Store(id).Get(ctx)
}

// StoresNamed implements [Stores].
func (s NativeStores) StoresNamed(ctx context.Context, name string) ([]client.StoreInfo, error) {
	return s.Stores(ctx, name)
}

func storeInfo(info storage.StoreInfo) client.StoreInfo {
	return client.StoreInfo{ID: info.ID.String(), Name: info.Name, Created: info.Created.Time(), Aliases: info.Aliases}
}

// labelOf names a store in an error text.
func labelOf(s client.StoreInfo) string { return s.ID + " (" + printable.Text(s.Name) + ")" }

// ownStores returns the stores that a command without --store may mean. It leaves
// out those that doors make for their policies and records, and then, if others are
// left, the tenants of Permify.
func ownStores(known []client.StoreInfo) []client.StoreInfo {
	var own, tenants []client.StoreInfo
	for _, s := range known {
		switch {
		case DoorOf(s.Aliases) != "":
		case s.Aliases[permify.Name] != "":
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

// selectStore returns the only store with a name. If no store has the name, it is
// the only store with this alias, for whatever door. The empty name is the only
// store of [ownStores].
func selectStore(name string, known []client.StoreInfo) (client.StoreInfo, error) {
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
		return client.StoreInfo{}, severalStores(name, found)
	case name == "" && len(known) > 0:
		return client.StoreInfo{}, fmt.Errorf("%w of your own yet: create one with \"ostiary store create NAME\"; the store %s has the records of the protocol %s: name it with --store to use it", ErrNoStore, labelOf(known[0]), DoorOf(known[0].Aliases))
	case name == "":
		return client.StoreInfo{}, fmt.Errorf("%w yet: create one with \"ostiary store create NAME\"", ErrNoStore)
	}
	return client.StoreInfo{}, noStoreNamed(name, known)
}

// withThisAlias returns the only store with an alias. It does not select stores
// with the records of a door: their aliases, such as "default", are the same in
// every deployment, and a command must not reach these records by accident.
func withThisAlias(alias string, known []client.StoreInfo) (client.StoreInfo, error) {
	var found []client.StoreInfo
	for _, s := range known {
		if slices.Contains(slices.Collect(maps.Values(s.Aliases)), alias) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 0:
		return client.StoreInfo{}, noStoreNamed(alias, known)
	case len(found) == 1 && DoorOf(found[0].Aliases) == "":
		return found[0], nil
	}
	return client.StoreInfo{}, WithText(fmt.Sprintf("no store has the name %q, which is an alias: select a store by its name or id; %s", alias, listStores(found)), ErrNoStore)
}

// namesakes returns the stores with a name.
func namesakes(name string, known []client.StoreInfo) (out []client.StoreInfo) {
	for _, s := range known {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// noStoreNamed returns the error for a name that none of the known stores has.
func noStoreNamed(name string, known []client.StoreInfo) error {
	var names []string
	for _, s := range known {
		names = append(names, s.Name)
	}
	return fmt.Errorf("%w has the name %q%s; %s", ErrNoStore, name, Suggestion(name, names), listStores(known))
}

// noStoreWithID returns the error for an id that none of the known stores has.
func noStoreWithID(id string, known []client.StoreInfo, cause error) error {
	var ids []string
	for _, s := range known {
		ids = append(ids, s.ID)
	}
	return WithText(fmt.Sprintf("no store has the id %s%s; %s", id, Suggestion(id, ids), listStores(known)), cause)
}

// listStores returns the part of an error text that lists stores, up to
// storesShownMax of them.
func listStores(known []client.StoreInfo) string {
	if len(known) == 0 {
		return "there is no store yet: create one with \"ostiary store create NAME\""
	}
	var shown []string
	for _, s := range known[:min(len(known), storesShownMax)] {
		shown = append(shown, labelOf(s))
	}
	if len(known) > storesShownMax {
		return "some stores: " + strings.Join(shown, ", ") + "; \"ostiary store list\" shows all"
	}
	return "the stores: " + strings.Join(shown, ", ")
}

// severalStores returns the error for a name that several stores have. The empty
// name means that the command line names no store.
func severalStores(name string, found []client.StoreInfo) error {
	var shown []string
	for _, s := range found[:min(len(found), storesShownMax)] {
		if name == "" {
			shown = append(shown, labelOf(s))
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
func RequireNewName(name string, known []client.StoreInfo) error {
	if same := namesakes(name, known); len(same) > 0 {
		return fmt.Errorf("%w: the store %s has the name %q: use that store, or create another one of this name with --same-name", authz.ErrStoreExists, same[0].ID, name)
	}
	return nil
}

// DoorNames are the names of all doors of this program.
var DoorNames = [...]string{openfga.Name, native.Name, authzen.Name, permify.Name, xacml.Name, keystone.Name, onap.NamePDP, onap.NameAPI, onap.NamePAP}

// SystemProtocol is the protocol of the system store, see [DoorOf].
const SystemProtocol = "Ostiary"

// DoorOf returns the protocol of the door whose records a store with these aliases
// has, or "".
func DoorOf(aliases map[string]string) string {
	for _, d := range [...]struct{ door, protocol string }{{keystone.Name, "OpenStack Identity"}, {domain.Alias, "XACML"},
		{onap.StoreDoor, "ONAP"}, {acp.Door, "document access control"}, {ostiary.SystemDoor, SystemProtocol}} {
		if aliases[d.door] != "" {
			return d.protocol
		}
	}
	return ""
}
