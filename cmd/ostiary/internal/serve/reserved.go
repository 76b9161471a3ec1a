package serve

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/internal/engine/domain"
)

// defaultAlias is the alias by which doors find the store of requests that name none.
const defaultAlias = "default"

// reserved is Reserved of [ostiary.Options]: it reports whether a door, a command or one of
// the settings finds a store by a name, or by an alias for a door.
func (f *serveFlags) reserved(door, name string) bool {
	// --preload finds stores by their aliases, too.
	if slices.Contains(f.preload, name) && name != preloadRecent && name != preloadNone {
		return true
	}
	switch door {
	case "":
		return name == ostiary.SystemDoor
	case ostiary.SystemDoor, permify.DeletedDoor:
		return true
	case permify.Name:
		return name == permify.DefaultTenant
	case authzen.Name:
		return name == defaultAlias || name == f.door.authzenStore
	case domain.Alias:
		return name == defaultAlias || strings.HasPrefix(name, domain.RelationsPrefix)
	}
	return name == defaultAlias
}
