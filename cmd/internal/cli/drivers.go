package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// InMemory is the value of --data for a store in memory, which is lost when the
// command ends.
const InMemory = "memory"

var (
	errNoFolder = errors.New("no data folder")
	ErrNoStore  = errors.New("no store")
	errWhich    = errors.New("several stores")
	ErrUsage    = errors.New("invalid usage")
	// ErrPartial means that some results are errors. The command has printed all
	// results.
	ErrPartial = errors.New("some results are errors")
)

// noWait is how long a command waits for a revision. No other process can write to
// an open folder, so waiting is useless.
const noWait = time.Millisecond

// WithEngine opens the data folder, runs f, and closes the folder. With create, a
// missing folder is created; otherwise it is errNoFolder.
func (a *App) WithEngine(ctx context.Context, create bool, f func(*ostiary.Engine) error) error {
	options := ostiary.Options{Bounds: authz.Bounds{FutureWait: noWait}}
	return a.WithData(ctx, create, options, func(e *ostiary.Engine, _ *pebble.Driver) error { return f(e) })
}

// Conditions returns the compiler of conditions that the doors of this program
// use together, with these bounds.
func Conditions(o cel.Options) expr.Compiler { return openfga.Conditions{Inner: cel.New(o)} }

// WithData is like WithEngine, with engine options. The driver is nil for
// InMemory.
func (a *App) WithData(ctx context.Context, create bool, options ostiary.Options, f func(*ostiary.Engine, *pebble.Driver) error) error {
	return a.withData(ctx, create, pebble.Options{}, options, f)
}

// WithReadOnly is WithData for an existing folder in which nothing is changed.
func (a *App) WithReadOnly(ctx context.Context, options ostiary.Options, f func(*ostiary.Engine, *pebble.Driver) error) error {
	return a.withData(ctx, false, pebble.Options{ReadOnly: true}, options, f)
}

func (a *App) withData(ctx context.Context, create bool, folder pebble.Options, options ostiary.Options, f func(*ostiary.Engine, *pebble.Driver) error) (err error) {
	if options.Conditions == nil {
		options.Conditions = Conditions(cel.Options{})
	}
	if options.SecretKey, err = a.ReadSecretKey(); err != nil {
		return err
	}
	var driver *pebble.Driver
	if a.Data != InMemory {
		if a.model != "" || a.tuples != "" {
			return fmt.Errorf("%w: --model and --tuples require --data memory", ErrUsage)
		}
		if err := requireFolder(a.Data, create); err != nil {
			return err
		}
		restrictNewFiles()
		if driver, err = a.openDriver(ctx, folder); err != nil {
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

// lockPoll is the longest pause between two attempts to open a locked folder.
const lockPoll = 20 * time.Millisecond

// openDriver opens the data folder. If another command has it open, it waits for
// up to --lock-wait. It does not wait for a server, which keeps the folder open.
func (a *App) openDriver(ctx context.Context, o pebble.Options) (*pebble.Driver, error) {
	if warning := ownerWarning(os.Geteuid(), a.Data); warning != "" {
		a.Note("%s", warning)
	}
	o.FilesMax = server.FilesForStorage()
	end := time.Now().Add(a.LockWait)
	for {
		d, err := pebble.Open(a.Data, o)
		if err == nil || !isLocked(err) || ServerOf(a.Data) != nil || time.Now().After(end) {
			return d, explainFullDisk(a.Data, err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(rand.N(lockPoll)): // random, so that no command waits longer than others
		}
	}
}

// explainFullDisk returns a text about the disk in place of err if a full disk is
// the reason why a folder cannot be opened. It returns other errors unchanged.
func explainFullDisk(dir string, err error) error {
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return WithText(fmt.Sprintf("the disk of the data folder %s is full, and opening the folder needs some space, also for reads: free space on the disk, "+
		"move the folder to a larger one, or answer reads with serve --read-only; no acknowledged write is lost", dir), err)
}

// requireFolder returns errNoFolder if dir is missing or empty. Without it, a
// misspelt --data would create a new folder. It does nothing with create.
func requireFolder(dir string, create bool) error {
	if create {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // opening it fails, if it cannot be read
	}
	return fmt.Errorf("%w at %s: create one with \"ostiary store create NAME\", or name another with --data", errNoFolder, dir)
}

// Load loads a store of the open folder and shows on a terminal that it does, since a
// store of ten million tuples takes seconds. It does nothing on a server. It ignores
// errors: the command fails with the same error.
func (a *App) Load(ctx context.Context, store string) {
	line := a.Progress()
	id, err := storage.ParseStoreID(store)
	if line == nil || a.engine == nil || err != nil {
		return
	}
	s, err := a.engine.Store(ctx, id)
	if err != nil {
		return
	}
	defer line.wait("loading store " + s.Info().Name)()
	_ = s.Load(ctx)
}

// fillMemory creates a store and fills it from --model and --tuples.
func (a *App) fillMemory(ctx context.Context, e *ostiary.Engine) error {
	s, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: InMemory})
	if err != nil {
		return err
	}
	if a.model != "" {
		source, err := ReadModel(a.model)
		if err != nil {
			return err
		}
		if _, _, err := s.WriteSchema(ctx, source.SchemaSource); err != nil {
			return source.Locate(err)
		}
	}
	if a.tuples == "" {
		return nil
	}
	_, err = a.ImportFile(ImportFlags{File: a.tuples}, func(tuples iter.Seq2[rel.Tuple, error], _ client.ImportOptions) (client.Imported, error) {
		done, err := s.Import(ctx, tuples, authz.ImportOptions{})
		return client.Imported{Read: done.Read, Written: done.Written, Token: string(done.Token)}, err
	})
	return err
}
