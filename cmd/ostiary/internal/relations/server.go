package relations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

// store is a store of a folder or of a server. Against a server without the native API
// it uses OpenFGA's.
type store interface {
	// Get returns the store with what the server knows of its revision and schema.
	Get(context.Context) (client.StoreInfo, error)
	Rename(ctx context.Context, name string) (client.StoreInfo, error)
	Delete(context.Context) error
	Schemas(context.Context) ([]client.SchemaInfo, error)
	Schema(ctx context.Context, id string) (client.SchemaInfo, error)
	WriteSchema(context.Context, client.NewSchema) (client.SchemaInfo, error)
	Check(context.Context, client.Question) (client.Decision, error)
	ListObjects(context.Context, client.ListObjects) (client.List, error)
	ListSubjects(context.Context, client.ListSubjects) (client.List, error)
	Expand(context.Context, client.Expand) (json.RawMessage, error)
	Write(context.Context, client.Write) (client.Written, error)
	Read(context.Context, client.Read) (client.TuplePage, error)
	Import(context.Context, iter.Seq2[rel.Tuple, error], client.ImportOptions) (client.Imported, error)
}

// server is where a command finds and creates stores: the doors on a folder, or a
// server. It implements [cli.Stores].
type server struct {
	*client.Client
	foreign bool // the server lacks the native API
}

// try calls ours, or theirs if the server lacks the native API.
func (s *server) try(ours func() error, theirs func(openFGA) error) error {
	if !s.foreign {
		err := ours()
		if !client.IsForeign(err) {
			return err
		}
		s.foreign = true
	}
	return theirs(openFGA{s.Client})
}

// StoreByID implements [cli.Stores].
func (s *server) StoreByID(ctx context.Context, id string) (out client.StoreInfo, err error) {
	return out, s.try(func() (err error) {
		out, err = s.Store(id).Get(ctx)
		return err
	}, func(o openFGA) (err error) {
		out, err = o.store(id).Get(ctx)
		return err
	})
}

// StoresNamed implements [cli.Stores].
func (s *server) StoresNamed(ctx context.Context, name string) (out []client.StoreInfo, err error) {
	return out, s.try(func() (err error) {
		out, err = s.Stores(ctx, name)
		return err
	}, func(o openFGA) (err error) {
		out, err = o.stores(ctx, name)
		return err
	})
}

// create creates a store.
func (s *server) create(ctx context.Context, n client.NewStore) (out client.StoreInfo, err error) {
	return out, s.try(func() (err error) {
		out, err = s.CreateStore(ctx, n)
		return err
	}, func(o openFGA) (err error) {
		if n.ID != "" {
			return errNative
		}
		out, err = o.create(ctx, n.Name)
		return err
	})
}

// errNative means that a server lacks the native API, which a command needs.
var errNative = fmt.Errorf("%w: this needs the native API, which only ostiary serve has", cli.ErrUnsupported)

// found is a store that a command works on.
type found struct {
	store
	info   client.StoreInfo
	server *server
}

// find finds a store by its id, name or alias; "" is the only one.
func (s *server) find(ctx context.Context, name string) (*found, error) {
	info, err := cli.Find(ctx, s, name)
	if err != nil {
		return nil, err
	}
	f := &found{s.Store(info.ID), info, s}
	if s.foreign {
		f.store = openFGA{s.Client}.store(info.ID)
	}
	return f, nil
}

// native returns the store in the native API. It fails with errNative if the server
// lacks it.
func (f *found) native() (*client.Store, error) {
	if s, ok := f.store.(*client.Store); ok {
		return s, nil
	}
	return nil, errNative
}

// ask sends a request that only the native API has, and returns the JSON of the
// response.
func (f *found) ask(ctx context.Context, path string, in any) (json.RawMessage, error) {
	s, err := f.native()
	if err != nil {
		return nil, err
	}
	return s.Ask(ctx, path, in)
}

// withServer calls f with the server of --server, or with the folder.
func (a *app) withServer(ctx context.Context, create bool, guard cli.Guard, f func(*server) error) error {
	return a.WithClient(ctx, create, guard, func(c *client.Client) error { return f(&server{Client: c}) })
}

// onStore calls f with the store of --store, or the only one.
func (a *app) onStore(ctx context.Context, f func(*found) error) error {
	return a.withServer(ctx, false, cli.GuardFolder, func(s *server) error {
		at, err := s.find(ctx, a.Store)
		if errors.Is(err, cli.ErrNoStore) && a.Server == "" && a.Data == cli.InMemory {
			return cli.WithText("--data memory is empty: expected --model FILE, which makes a store with a model, or a folder with a store", err)
		}
		if err != nil {
			return err
		}
		a.Load(ctx, at.info.ID)
		return f(at)
	})
}

// requireRevision fails with [authz.ErrFuture] if the store does not have the
// revision of one of the points yet. A server would wait for it until the request
// times out.
func (f *found) requireRevision(ctx context.Context, points ...*client.At) error {
	asked := uint64(0)
	for _, at := range points {
		if at != nil && at.Revision != nil {
			asked = max(asked, *at.Revision)
		}
	}
	if asked == 0 {
		return nil
	}
	s, err := f.native()
	if err != nil {
		return err
	}
	now, err := s.Get(ctx)
	if err != nil || now.Revision == nil || asked <= *now.Revision {
		return err
	}
	return fmt.Errorf("%w: revision %d, the newest is %d", authz.ErrFuture, asked, *now.Revision)
}

// isResponse reports whether err is an error response.
func isResponse(err error) bool {
	_, ok := errors.AsType[*client.Error](err)
	return ok
}
