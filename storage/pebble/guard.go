package pebble

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/ostiary/ostiary/storage"
)

// guard is what stands between a failed write and everything after it. Pebble
// ends the process when it cannot know whether a write of its log or manifest
// happened; a library must not. Instead the guard blows: from then on nothing
// is read and nothing on disk is changed, until the folder is opened again and
// Pebble's recovery finds out.
//
// A failing flush, by contrast, is tried again by Pebble (a full disk may be
// given room); while it fails, writes are refused rather than left to stall.
type guard struct {
	blown   atomic.Pointer[error]
	failing atomic.Pointer[error]
	logf    func(format string, args ...any)
}

// ErrFailed is the kind of error of every call after a write whose outcome is
// unknown (a full or failing disk). Opening the folder again is the way on.
var ErrFailed = errors.New("an earlier write failed; open the folder again")

func (g *guard) reading() error {
	if err := g.blown.Load(); err != nil {
		return *err
	}
	return nil
}

func (g *guard) writing() error {
	if err := g.reading(); err != nil {
		return err
	}
	if err := g.failing.Load(); err != nil {
		return fmt.Errorf("data cannot be written out: %w", *err)
	}
	return nil
}

// Infof, Errorf and Fatalf make guard a pebble.Logger.
func (g *guard) Infof(format string, args ...any) { g.log(format, args) }

// Errorf logs.
func (g *guard) Errorf(format string, args ...any) { g.log(format, args) }

// Fatalf blows the guard and returns, after which Pebble's caller returns too.
func (g *guard) Fatalf(format string, args ...any) {
	g.log(format, args)
	cause := fmt.Errorf(format, args...)
	for _, a := range args {
		if err, ok := a.(error); ok {
			cause = named(err)
		}
	}
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	g.blown.CompareAndSwap(nil, &err)
}

func (g *guard) log(format string, args []any) {
	if g.logf != nil {
		g.logf(format, args...)
	}
}

// listener follows flushes. Damage that a compaction meets is left where it is:
// who reads it gets the error.
func (g *guard) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			g.log("%v", []any{err})
			err = named(err)
			g.failing.Store(&err)
		},
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err == nil {
				g.failing.Store(nil)
			}
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			if info.Err == nil {
				g.failing.Store(nil)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { g.log("%s", []any{info}) },
	}
}

// fuse returns fs with every change refused once the guard has blown: Pebble
// would delete the outputs of a flush whose manifest record it could not write,
// which may be the very files that the record, written after all, names.
func (g *guard) fuse(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if err := g.blown.Load(); err != nil && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return *err
		}
		return nil
	}))
}

// named gives Pebble's errors of damage our kind.
func named(err error) error {
	if err == nil || errors.Is(err, storage.ErrDamaged) {
		return err
	}
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", storage.ErrDamaged, err)
	}
	return err
}
