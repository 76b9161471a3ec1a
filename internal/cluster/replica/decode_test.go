package replica_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// countedLog counts the segments that are read, and the reads that have not ended.
type countedLog struct {
	sharedlog.Log
	segments, reads atomic.Int64
}

func (l *countedLog) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	return func(yield func(sharedlog.Record, error) bool) {
		l.reads.Add(1)
		defer l.reads.Add(-1)
		for r, err := range l.Log.Read(ctx, from) {
			if err == nil {
				err = ctx.Err()
			}
			if l.segments.Add(1); !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// hookedStore calls a function before each commit.
type hookedStore struct {
	kv.Store
	before func()
}

func (s *hookedStore) Batch() kv.Batch { return &hookedBatch{s.Store.Batch(), s} }

type hookedBatch struct {
	kv.Batch
	store *hookedStore
}

func (b *hookedBatch) Commit() error {
	b.store.before()
	return b.Batch.Commit()
}

// TestReadAhead opens a copy of a log with large segments. While the first ones are applied,
// the next one is read. If the caller leaves meanwhile, Open fails, and nothing is read after
// it.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	const documents = 6
	tables := memorylog.New()
	one := mustOpen(t, tables, inMemory())
	l := newStore(t, one, 1)
	for n := range documents {
		mustAppend(t, l, one, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "text", Key: fmt.Sprint(n), Body: make([]byte, 600<<10)}})
	}
	for _, leaves := range []bool{false, true} {
		t.Run(fmt.Sprint("leaves=", leaves), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			log := &countedLog{Log: tables.Open()}
			commits := 0
			store := &hookedStore{Store: memory.NewStore(), before: func() {
				// The first commits are that of the format, of the start, of the store, and of two
				// documents.
				if commits++; commits != 4 {
					return
				}
				if leaves {
					cancel()
					return
				}
				wait.Until(t, "the third document is read", func() bool { return log.segments.Load() > 3 })
			}}
			local, err := kv.New(store, kv.Options{Copy: true})
			if err != nil {
				t.Fatal(err)
			}
			d, err := clustertest.OpenReplica(ctx, log, local, replica.Options{})
			if commits < 4 {
				t.Errorf("%d commits, expected 4 or more", commits)
			}
			if leaves {
				if !errors.Is(err, context.Canceled) || log.reads.Load() != 0 {
					t.Errorf("error %v, %d reads go on; expected the end of the context, and none", err, log.reads.Load())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if h, err := d.Head(t.Context(), l.ID); err != nil || h != l.Head {
				t.Errorf("the head is %+v, error %v; expected %+v", h, err, l.Head)
			}
		})
	}
}
