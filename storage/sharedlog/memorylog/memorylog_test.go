package memorylog_test

import (
	"testing"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/sharedlog"
	"github.com/ostiary/ostiary/storage/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage/sharedlog/sharedlogtest"
)

// connection implements sharedlogtest.Corrupter.
type connection struct {
	*memorylog.Log
	*memorylog.Tables
}

func TestLog(t *testing.T) {
	t.Parallel()
	sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
		tables := memorylog.New()
		return func() (sharedlog.Log, error) { return connection{tables.Open(), tables}, nil }
	})
}

// extend appends empty segments of a writer after a position, and returns the last one.
func extend(t *testing.T, l *memorylog.Log, head sharedlog.Position, writer storage.NodeID, total int) sharedlog.Position {
	t.Helper()
	for range total {
		s := sharedlog.Segment{Sequence: head.Sequence + 1, Previous: head.Hash, Writer: writer}
		r, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), 0, head, r, nil); err != nil {
			t.Fatal(err)
		}
		head = r.Position
	}
	return head
}

// TestBackup restores a backup twice. What came after it is gone, and a connection that
// waits looks again.
func TestBackup(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	l := tables.Open()
	defer l.Close()
	node := sharedlog.Node{ID: storage.NodeID{1}, Start: 1}
	if err := l.Register(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	kept := extend(t, l, sharedlog.Position{}, storage.NodeID{1}, 2)
	restore := tables.Backup()
	for i := range 2 {
		last := extend(t, l, kept, storage.NodeID{byte(i)}, 2)
		node.Start++
		if err := l.Register(t.Context(), node); err != nil {
			t.Fatalf("restore %d: %v", i, err)
		}
		woken := make(chan error)
		go func() { woken <- l.Wait(t.Context(), 0, last.Sequence) }()
		for done := false; !done; {
			restore()
			select {
			case err := <-woken:
				if done = true; err != nil {
					t.Error(err)
				}
			default:
			}
		}
		if h, err := l.Head(t.Context(), 0); err != nil || h != kept {
			t.Fatalf("the head is %s, error %v; want %s", h, err, kept)
		}
		node.Start = 1
	}
}

func TestRewind(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	l := tables.Open()
	defer l.Close()
	extend(t, l, sharedlog.Position{}, storage.NodeID{1}, 3)
	tables.Rewind(0, 1)
	if h, err := l.Head(t.Context(), 0); err != nil || h.Sequence != 1 {
		t.Fatalf("the head is %s, error %v; want segment 1", h, err)
	}
}
