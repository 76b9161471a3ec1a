package native

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/storage"
)

// storeJSON is a store in a response.
type storeJSON struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Aliases map[string]string `json:"aliases"`
	Created time.Time         `json:"created"`
	// Revision and Token identify the newest revision, and Schema the current
	// schema without namespace. They are only set if the request names one
	// store.
	Revision *uint64 `json:"revision,omitempty"`
	Token    string  `json:"token,omitempty"`
	Schema   string  `json:"schema,omitempty"`
	// Limits are only set if the request names one store that has some.
	Limits *turns.Limits `json:"limits,omitempty"`
	*detailsJSON
}

// detailsJSON is what a store in a response has besides if the request asks for details.
type detailsJSON struct {
	// Rights are those of the caller on the store.
	Rights []string `json:"rights"`
	// Loaded is true if this node has the store in memory. The other members are set only then:
	// the newest revision there, its time, and counts.
	Loaded     bool       `json:"loaded"`
	Head       *uint64    `json:"head,omitempty"`
	Changed    *time.Time `json:"changed,omitempty"`
	Tuples     *int       `json:"tuples,omitempty"`
	Attributes *int       `json:"attributes,omitempty"`
	Bytes      *int64     `json:"bytes,omitempty"`
}

// detailsOf returns the details of a store. It loads nothing.
func (c *call) detailsOf(info storage.StoreInfo) (*detailsJSON, error) {
	rights, err := c.rightsOn(info)
	if err != nil {
		return nil, err
	}
	out := &detailsJSON{Rights: rights}
	stats, loaded := c.engine.StatsLoaded(info)
	if out.Loaded = loaded; loaded {
		out.Head, out.Tuples, out.Attributes, out.Bytes = (*uint64)(&stats.Revision), &stats.Graph.Tuples, &stats.Graph.Attributes, &stats.Bytes
		if !stats.Time.IsZero() {
			out.Changed = &stats.Time
		}
	}
	return out, nil
}

// wantsDetails reads the parameter details.
func wantsDetails(values url.Values) (bool, error) {
	switch text := values.Get("details"); {
	case !values.Has("details") || text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, invalidRequest("invalid details: expected true or false")
}

// storeOf translates a store, without Revision, Token and Schema.
func storeOf(info storage.StoreInfo) storeJSON {
	if info.Aliases == nil {
		info.Aliases = map[string]string{}
	}
	return storeJSON{ID: info.ID.String(), Name: info.Name, Aliases: info.Aliases, Created: info.Created.Time()}
}

// storesMax is the largest page of stores, and the default.
const storesMax = 1000

// intParam returns a parameter from 1 to max, or byDefault if the URL has none.
func intParam(values url.Values, name string, byDefault, max int) (int, error) {
	text := values.Get(name)
	if text == "" && !values.Has(name) {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > max {
		return 0, invalidRequest("invalid " + name + ": expected a number from 1 to " + strconv.Itoa(max))
	}
	return n, nil
}

// listStores serves ListStores.
func (c *call) listStores() error {
	values, err := c.QueryOf("name", "after", "limit", "details")
	if err != nil {
		return err
	}
	details, err := wantsDetails(values)
	if err != nil {
		return err
	}
	limit, err := intParam(values, "limit", storesMax, storesMax)
	if err != nil {
		return err
	}
	var after storage.StoreID
	if text := values.Get("after"); text != "" {
		if after, err = storage.ParseStoreID(text); err != nil {
			return invalidRequest("invalid after: expected the id of a store")
		}
	}
	out := struct {
		Stores []storeJSON `json:"stores"`
		Next   string      `json:"next"`
	}{Stores: []storeJSON{}}
	stores := c.engine.Stores(c.Context(), after)
	if name := values.Get("name"); values.Has("name") { // which may be that of the system store
		stores = c.engine.StoresByName(ostiary.WithSystemStores(c.Context()), name, after)
	}
	for info, err := range stores {
		if err != nil {
			return err
		}
		if len(out.Stores) == limit {
			out.Next = out.Stores[limit-1].ID
			break
		}
		store := storeOf(info)
		if details {
			if store.detailsJSON, err = c.detailsOf(info); err != nil {
				return err
			}
		}
		out.Stores = append(out.Stores, store)
	}
	return c.setJSON(out)
}

// readStore reads the name and aliases of a store and, for a new store, its id.
// hasName is true if the request has a name.
func (c *call) readStore(create bool) (w ostiary.CreateStoreRequest, hasName bool, err error) {
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch n := string(r.Name()); {
		case n == "name":
			w.Name, hasName = r.String(), true
		case n == "aliases":
			w.Aliases = map[string]string{}
			for door, alias := range r.Values() {
				text, ok := alias.(string)
				if !ok {
					r.Fail("expected a string")
				}
				w.Aliases[door] = text
			}
		case n == "id" && create:
			id, parseErr := storage.ParseStoreID(r.String())
			if w.ID = id; parseErr != nil {
				r.Fail("expected a ULID")
			}
		default:
			r.Unknown()
		}
	}
	if create && !hasName {
		r.Fail("name is missing")
	}
	return w, hasName, r.End()
}

// CheckAlias returns an error if no path can name a store by an alias of a door.
// The aliases of some doors, such as Permify's, may have the form of a store's
// id. A door whose paths also take ids would read such an alias as an id.
func CheckAlias(door, alias string) error {
	if alias == "." || alias == ".." || strings.ContainsAny(alias, "/\\\x00") {
		return invalidRequest(fmt.Sprintf("invalid alias %.100q of door %.100q: expected text without a slash, a backslash and NUL, and neither \".\" nor \"..\"", alias, door))
	}
	if _, err := storage.ParseStoreID(alias); err == nil && (door == Name || door == "authzen") {
		return invalidRequest(fmt.Sprintf("invalid alias %q of door %q: expected no text in the form of a store's id", alias, door))
	}
	return nil
}

// checkAliases checks the aliases that old does not have.
func checkAliases(aliases, old map[string]string) error {
	for _, door := range slices.Sorted(maps.Keys(aliases)) {
		if old[door] == aliases[door] {
			continue
		}
		if err := CheckAlias(door, aliases[door]); err != nil {
			return err
		}
	}
	return nil
}

// createStore serves CreateStore.
func (c *call) createStore() error {
	w, _, err := c.readStore(true)
	if err != nil {
		return err
	}
	if err := checkAliases(w.Aliases, nil); err != nil {
		return err
	}
	s, err := c.engine.CreateStore(c.Context(), w)
	if err != nil {
		return err
	}
	c.status = http.StatusCreated
	return c.setJSON(storeOf(s.Info()))
}

// getStore serves GetStore.
func (c *call) getStore() error {
	details := false
	if values, err := c.Query(); err == nil { // other parameters are ignored, as they always were
		if details, err = wantsDetails(values); err != nil {
			return err
		}
	}
	out := storeOf(c.store.Info())
	token, err := c.store.Head(c.Context())
	if err != nil {
		return err
	}
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	out.Revision, out.Token = (*uint64)(&revision), string(token)
	info, err := c.store.CurrentSchema(c.Context(), "")
	if err != nil && !errors.Is(err, authz.ErrNoSchema) {
		return err
	}
	limits, err := c.options.Callers.StoreLimits(c.Context(), c.store.Info())
	if err != nil {
		return err
	}
	out.Schema, out.Limits = info.ID, limitsOf(limits)
	if details {
		if out.detailsJSON, err = c.detailsOf(c.store.Info()); err != nil {
			return err
		}
	}
	return c.setJSON(out)
}

// updateStore serves UpdateStore: it changes only what the request names.
func (c *call) updateStore() error {
	w, hasName, err := c.readStore(false)
	if err != nil {
		return err
	}
	err = c.engine.UpdateStore(c.Context(), c.store.ID(), func(name *string, aliases map[string]string) error {
		if hasName {
			*name = w.Name
		}
		if w.Aliases == nil {
			return nil
		}
		if err := checkAliases(w.Aliases, aliases); err != nil {
			return err
		}
		clear(aliases)
		maps.Copy(aliases, w.Aliases)
		return nil
	})
	if err != nil {
		return err
	}
	return c.setJSON(storeOf(c.store.Info()))
}

// deleteStore serves DeleteStore.
func (c *call) deleteStore() error {
	if err := c.engine.DeleteStore(c.Context(), c.store.ID()); err != nil {
		return err
	}
	return c.setJSON(struct {
		ID string `json:"id"`
	}{c.store.ID().String()})
}
