package native

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/storage"
)

type storeJSON struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Aliases map[string]string `json:"aliases"`
	Created time.Time         `json:"created"`
	// Revision, Token and Schema are told where one store is asked for: its newest
	// revision, and its current schema without namespace.
	Revision *uint64 `json:"revision,omitempty"`
	Token    string  `json:"token,omitempty"`
	Schema   string  `json:"schema,omitempty"`
}

func storeOf(info storage.StoreInfo) storeJSON {
	if info.Aliases == nil {
		info.Aliases = map[string]string{}
	}
	return storeJSON{ID: info.ID.String(), Name: info.Name, Aliases: info.Aliases, Created: info.Created.Time()}
}

// storesMax bounds a page of stores, which is also its default.
const storesMax = 1000

// query reads the parameters of a GET; one that is not among names is refused,
// so that a misspelt one does not go unnoticed.
func (c *call) query(names ...string) (url.Values, error) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query is malformed")
	}
next:
	for have := range values {
		for _, name := range names {
			if have == name {
				continue next
			}
		}
		return nil, invalid("unknown parameter " + strconv.Quote(have))
	}
	return values, nil
}

// number reads a parameter from 1 to most; "" is otherwise.
func number(values url.Values, name string, otherwise, most int) (int, error) {
	text := values.Get(name)
	if text == "" && !values.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, invalid(name + " is no number from 1 to " + strconv.Itoa(most))
	}
	return n, nil
}

func (c *call) listStores() error {
	values, err := c.query("after", "limit")
	if err != nil {
		return err
	}
	limit, err := number(values, "limit", storesMax, storesMax)
	if err != nil {
		return err
	}
	var after storage.StoreID
	if text := values.Get("after"); text != "" {
		if after, err = storage.ParseStoreID(text); err != nil {
			return invalid("after is no store's id")
		}
	}
	out := struct {
		Stores []storeJSON `json:"stores"`
		Next   string      `json:"next"`
	}{Stores: []storeJSON{}}
	for info, err := range c.engine.Stores(c.ctx, after) {
		if err != nil {
			return err
		}
		if len(out.Stores) == limit {
			out.Next = out.Stores[limit-1].ID
			break
		}
		out.Stores = append(out.Stores, storeOf(info))
	}
	return c.json(out)
}

// readStore reads what a store is to be called.
func (c *call) readStore(create bool) (w ostiary.CreateStoreRequest, name bool, err error) {
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch n := string(r.Name()); {
		case n == "name":
			w.Name, name = r.String(), true
		case n == "aliases":
			w.Aliases = map[string]string{}
			for door, alias := range r.Values() {
				text, ok := alias.(string)
				if !ok {
					r.Fail("a string is wanted")
				}
				w.Aliases[door] = text
			}
		case n == "id" && create:
			id, bad := storage.ParseStoreID(r.String())
			if w.ID = id; bad != nil {
				r.Fail("a ULID is wanted")
			}
		default:
			r.Unknown()
		}
	}
	if create && !name {
		r.Fail("name is missing")
	}
	return w, name, r.End()
}

func (c *call) createStore() error {
	w, _, err := c.readStore(true)
	if err != nil {
		return err
	}
	s, err := c.engine.CreateStore(c.ctx, w)
	if err != nil {
		return err
	}
	c.status = http.StatusCreated
	return c.json(storeOf(s.Info()))
}

func (c *call) getStore() error {
	out := storeOf(c.store.Info())
	token, err := c.store.Head(c.ctx)
	if err != nil {
		return err
	}
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	out.Revision, out.Token = (*uint64)(&revision), string(token)
	if info, err := c.store.CurrentSchema(c.ctx, ""); err == nil {
		out.Schema = info.ID
	}
	return c.json(out)
}

// updateStore changes what the request names and leaves the rest.
func (c *call) updateStore() error {
	w, name, err := c.readStore(false)
	if err != nil {
		return err
	}
	info := c.store.Info()
	if name {
		info.Name = w.Name
	}
	if w.Aliases != nil {
		info.Aliases = w.Aliases
	}
	if err := c.engine.UpdateStore(c.ctx, info.ID, info.Name, info.Aliases); err != nil {
		return err
	}
	return c.json(storeOf(c.store.Info()))
}

func (c *call) deleteStore() error {
	if err := c.engine.DeleteStore(c.ctx, c.store.ID()); err != nil {
		return err
	}
	return c.json(struct {
		ID string `json:"id"`
	}{c.store.ID().String()})
}
