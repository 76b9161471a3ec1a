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

func TestRewind(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	l := tables.Open()
	defer l.Close()
	var head sharedlog.Position
	for range 3 {
		s := sharedlog.Segment{Sequence: head.Sequence + 1, Previous: head.Hash, Writer: storage.NodeID{1}}
		r, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), 0, head, r, nil); err != nil {
			t.Fatal(err)
		}
		head = r.Position
	}
	tables.Rewind(0, 1)
	if h, err := l.Head(t.Context(), 0); err != nil || h.Sequence != 1 {
		t.Fatalf("the head is %s, error %v; want segment 1", h, err)
	}
}
