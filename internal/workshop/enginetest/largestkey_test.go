package enginetest

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// measuring is a store that knows its longest key.
type measuring struct {
	kv.Store
	longest atomic.Int64
}

func (m *measuring) Batch() kv.Batch { return &measuringBatch{m.Store.Batch(), m} }

type measuringBatch struct {
	kv.Batch
	of *measuring
}

func (b *measuringBatch) Set(key, value []byte) error {
	for {
		old := b.of.longest.Load()
		if int64(len(key)) <= old || b.of.longest.CompareAndSwap(old, int64(len(key))) {
			return b.Batch.Set(key, value)
		}
	}
}

// TestLargestKey writes what has the longest names that the engine accepts: the longest key is
// the one that the contract of kv.Store names.
func TestLargestKey(t *testing.T) {
	t.Parallel()
	const prefix = "prefix"
	store := &measuring{Store: memory.NewStore()}
	driver, err := kv.New(store, kv.Options{Prefix: []byte(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	name := strings.Repeat("n", authz.NameBytesMax)
	s, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("\x00", authz.DocumentKeyBytesMax)
	for range 2 { // the second time there is a row of the past
		if _, err := s.Write(t.Context(), authz.WriteRequest{Documents: []authz.Document{{Kind: long, Key: long, Secondary: []string{long}, Body: []byte("{}")}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := store.longest.Load() - int64(len(prefix)); got != kv.KeyBytesMax {
		t.Errorf("the longest key has %d bytes after the prefix, expected %d (KeyBytesMax)", got, kv.KeyBytesMax)
	}
}
