package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// inMemory is the --data that keeps nothing.
const inMemory = "memory"

var (
	errNoFolder = errors.New("no data folder")
	errNoStore  = errors.New("no store")
	errWhich    = errors.New("several stores")
	errUsage    = errors.New("wrong use")
)

// withEngine opens the data and runs f. create admits a folder that is not
// there yet.
func (a *app) withEngine(ctx context.Context, create bool, f func(*ostiary.Engine) error) error {
	return a.withData(ctx, create, ostiary.Options{}, func(e *ostiary.Engine, _ *pebble.Driver) error { return f(e) })
}

// conditions compiles what the doors of this program admit.
func conditions() expr.Compiler { return openfga.Conditions{Inner: cel.New(cel.Options{})} }

// withData is withEngine with options of the engine's; the driver is nil where
// nothing is kept.
func (a *app) withData(ctx context.Context, create bool, options ostiary.Options, f func(*ostiary.Engine, *pebble.Driver) error) (err error) {
	options.Conditions = conditions()
	var driver *pebble.Driver
	if a.data != inMemory {
		if a.model != "" || a.tuples != "" {
			return fmt.Errorf("%w: --model and --tuples go with --data memory; a folder keeps its own", errUsage)
		}
		if err := folderThere(a.data, create); err != nil {
			return err
		}
		if driver, err = pebble.Open(a.data, pebble.Options{}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, driver.Close()) }()
		options.Driver = driver
	}
	e, err := ostiary.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if a.model != "" || a.tuples != "" {
		if err := a.fillMemory(ctx, e); err != nil {
			return err
		}
	}
	return f(e, driver)
}

// folderThere keeps a misspelt --data from becoming a new, empty folder.
func folderThere(dir string, create bool) error {
	if create {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w at %s: \"ostiary store create NAME\" makes one, --data names another", errNoFolder, dir)
}

// withStore opens the data and the store that --store names, or the only one.
func (a *app) withStore(ctx context.Context, f func(*ostiary.Store) error) error {
	if a.server != "" {
		return notSaid("this command")
	}
	return a.withEngine(ctx, false, func(e *ostiary.Engine) error {
		s, err := findStore(ctx, e, a.store)
		if err != nil {
			return err
		}
		return f(s)
	})
}

// findStore finds a store by id or name; "" is the only one.
func findStore(ctx context.Context, e *ostiary.Engine, name string) (*ostiary.Store, error) {
	if id, err := storage.ParseStoreID(name); err == nil {
		return e.Store(ctx, id)
	}
	var found []storage.StoreInfo
	for info, err := range e.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return nil, err
		}
		if name == "" || info.Name == name {
			found = append(found, info)
		}
	}
	switch {
	case len(found) == 1:
		return e.Store(ctx, found[0].ID)
	case len(found) > 1:
		const most = 10
		var names []string
		for _, info := range found[:min(len(found), most)] {
			names = append(names, fmt.Sprintf("%s (%s)", info.ID, info.Name))
		}
		if len(found) > most {
			names = append(names, "…")
		}
		return nil, fmt.Errorf("%w: --store must say which: %s", errWhich, strings.Join(names, ", "))
	case name == "":
		return nil, fmt.Errorf("%w yet: \"ostiary store create NAME\" makes one", errNoStore)
	}
	return nil, fmt.Errorf("%w is called %q", errNoStore, name)
}

// fillMemory makes the store that --model and --tuples are about.
func (a *app) fillMemory(ctx context.Context, e *ostiary.Engine) error {
	s, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: inMemory})
	if err != nil {
		return err
	}
	if a.model != "" {
		source, err := readModel(a.model)
		if err != nil {
			return err
		}
		if _, _, err := s.WriteSchema(ctx, source.SchemaSource); err != nil {
			return source.locate(err)
		}
	}
	if a.tuples == "" {
		return nil
	}
	_, err = a.importFile(ctx, s, importFlags{file: a.tuples})
	return err
}
