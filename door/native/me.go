package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/storage"
)

// me serves Me: who the caller is for this server, and what it may do with a new store that has
// the name of the request.
func (c *call) me() error {
	values, err := c.QueryOf("name")
	if err != nil {
		return err
	}
	name := values.Get("name")
	if len(name) > authz.NameBytesMax { // the registry of keys remembers decisions by their names
		return invalidRequest(fmt.Sprintf("invalid name: %d bytes, expected at most %d", len(name), authz.NameBytesMax))
	}
	rights, err := c.rightsOn(storage.StoreInfo{Name: name})
	if err != nil {
		return err
	}
	caller := door.CallerOf(c.Context())
	return c.setJSON(struct {
		Method string   `json:"method"`
		Caller string   `json:"caller"`
		Rights []string `json:"rights"`
		// Administers is true for a caller that may do everything, or administers all stores.
		Administers bool `json:"administers"`
	}{caller.Method, caller.ID, rights, administers(c.Context())})
}

// administers reports whether the caller may do everything, or administers all stores.
func administers(ctx context.Context) bool {
	switch access := authz.AccessOf(ctx).(type) {
	case nil:
		return true
	case interface{ AdministersAll() bool }:
		return access.AdministersAll()
	}
	return false
}

// rightsOn returns the names of the rights that the caller has on a store, which need not exist.
func (c *call) rightsOn(store storage.StoreInfo) ([]string, error) {
	access, rights := authz.AccessOf(c.Context()), []string{}
	for right := authz.RightRead; right <= authz.RightAdmin; right++ {
		if access != nil {
			err := access.Allow(c.Context(), right, store)
			if errors.Is(err, authz.ErrForbidden) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		rights = append(rights, right.String())
	}
	return rights, nil
}
