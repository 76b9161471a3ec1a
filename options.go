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
	Bounds Bounds
	// Window is how long a past revision stays readable after its successor was
	// written. An older one fails with [ErrTooOld]; [Store.Collect] drops its data.
	// Default [WindowDefault]; a negative value keeps all revisions.
	Window time.Duration
	// LogWindow is how long entries of the log are kept. Default 0: forever.
	LogWindow time.Duration
	// Clock returns the current time. Default time.Now.
	Clock func() time.Time
	// MemoryMax is the memory budget in bytes for all loaded stores. A write that
	// adds data beyond it fails with [ErrMemory]; stores that are not used are
	// dropped first, except those of [Store.Keep]. Loading a store never fails. Default 0: no budget.
	MemoryMax int64
	// SecretKey encrypts secrets with AES-256-GCM. Nil rejects secrets with
	// [ErrNoSecretKey].
	SecretKey *[32]byte
	// Record chooses which decisions [Store.RecordedDecisions] returns. Default:
	// none.
	Record RecordingOptions
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
	// Leads reports whether this engine is the one, of several on one shared log, that
	// removes expired tuples and trims stores. It must be quick. On the others,
	// [Store.Collect] only frees memory. Nil means that this one does.
	Leads func() bool
}

// WindowDefault is the default of [Options].Window.
const WindowDefault = 24 * time.Hour

// Bounds limit what one request may ask for. Each field has a default. A request
// that exceeds a bound fails with a [BoundError].
type Bounds = authz.Bounds

// RecordingOptions choose how many decisions the engine remembers.
type RecordingOptions = authz.RecordingOptions

// Bounds that no option changes.
const (
	// AliasesMax is the largest number of aliases of a store.
	AliasesMax = authz.AliasesMax
	// NameBytesMax is the largest size of a store's name and of each alias.
	NameBytesMax = authz.NameBytesMax
	// TokenBytesMax is the largest size of a token that is read.
	TokenBytesMax = authz.TokenBytesMax
	// CursorBytesMax is the largest size of a cursor that is read.
	CursorBytesMax = authz.CursorBytesMax
	// DocumentKeyBytesMax is the largest size of a document's kind, its key and
	// each of its secondary keys.
	DocumentKeyBytesMax = authz.DocumentKeyBytesMax
	// SecondaryKeysMax is the largest number of secondary keys of a document.
	SecondaryKeysMax = authz.SecondaryKeysMax
	// ScopeIDsMax is the largest number of ids in the Scope of a list.
	ScopeIDsMax = authz.ScopeIDsMax
	// AttributeValueBytesMax is the largest size of an attribute's value.
	AttributeValueBytesMax = authz.AttributeValueBytesMax
)
