package ostiary

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/storage"
)

// Options are the settings of an [Engine]. The zero value is an engine in memory
// with all defaults.
type Options struct {
	// Driver keeps the data. Nil is a new driver in memory, which Close closes. The
	// caller closes a driver that it passes in.
	Driver storage.Driver
	// Conditions compiles the conditions of schemas, for example cel.New of expr/cel.
	// Nil rejects schemas that have conditions.
	Conditions expr.Compiler
	// Bounds limit requests.
	Bounds authz.Bounds
	// Window is how long a past revision stays readable after its successor was
	// written. An older one fails with [authz.ErrTooOld]; [Store.Collect] drops its data.
	// Default [WindowDefault]; a negative value keeps all revisions.
	Window time.Duration
	// LogWindow is how long entries of the log are kept. Default 0: forever.
	LogWindow time.Duration
	// Clock returns the current time. Default time.Now.
	Clock func() time.Time
	// MemoryMax is the memory budget in bytes for all loaded stores. A write that
	// adds data beyond it fails with [authz.ErrMemory]; stores that are not used are
	// dropped first, except those of [Store.Keep]. Loading a store never fails. Default 0: no budget.
	MemoryMax int64
	// Room is asked before a change of about so many bytes is written. frees is true if the
	// change removes data and adds none, or is part of ending what a caller may do, such as
	// the revocation of a token. An error refuses the change, and is the error of the call;
	// one that wraps [authz.ErrDisk] means that the disk is nearly full. Room must be quick,
	// and is called concurrently. Nil allows all.
	Room func(bytes int, frees bool) error
	// SecretKey encrypts secrets with AES-256-GCM. Nil rejects secrets with
	// [authz.ErrNoSecretKey].
	SecretKey *[32]byte
	// Record chooses which decisions [Store.RecordedDecisions] returns. Default:
	// none.
	Record authz.RecordingOptions
	// Guard is asked before each change of a store: of its data, its schemas, its name
	// and aliases, before its creation and its deletion. ctx is that of the call. An
	// error refuses the change, and is the error of the call. Nil allows all.
	Guard func(ctx context.Context, store storage.StoreInfo) error
	// Reserved reports whether a name of a store, or an alias for a door, is one that the
	// program or its settings use for all callers: only a caller who administers all stores
	// may give it to a store. door is "" for a name. Nil reserves nothing.
	Reserved func(door, name string) bool
	// Background, if positive, is the interval at which a goroutine collects all
	// stores and drops idle ones, as [Store.Collect] and [Engine.DropIdle] do. Close
	// ends it. Default 0: never.
	Background time.Duration
}

// WindowDefault is the default of [Options].Window.
const WindowDefault = 24 * time.Hour
