package ostiary

import (
	"time"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Options are an engine's settings. The zero value is an engine in memory
// with every default.
type Options struct {
	// Driver keeps the data. Nil is a new driver in memory, which Close closes;
	// a driver that is handed in stays its owner's to close.
	Driver storage.Driver
	// Conditions compiles the conditions of schemas (cel.New of expr/cel). Nil
	// refuses schemas that have any.
	Conditions expr.Compiler
	// Bounds limit requests.
	Bounds Bounds
	// Window is how long the past stays answerable: a revision whose successor is
	// older is ErrTooOld. Collect drops what only such revisions need. Default
	// WindowDefault; negative keeps all of it.
	Window time.Duration
	// LogWindow is how long entries of the log are kept. Default 0: for ever.
	LogWindow time.Duration
	// Clock tells the time. Default time.Now.
	Clock func() time.Time
	// MemoryMax is the budget, in bytes, for what all loaded stores hold. A write
	// that would pass it is refused with ErrMemory (one that only removes is
	// not); stores that nobody asks are dropped first; a load is never refused.
	// Default 0: none.
	MemoryMax int64
	// SecretKey encrypts secrets with AES-256-GCM. Nil refuses secrets with
	// ErrNoSecretKey.
	SecretKey *[32]byte
	// Record says which decisions are remembered, for Store.Recorded. Default:
	// none.
	Record RecordingOptions
	// Background, if positive, is how often a goroutine of the engine collects
	// and drops idle stores, as Store.Collect and Engine.DropIdle do when called.
	// Close ends it. Default 0: never.
	Background time.Duration
}

// WindowDefault is the default of Options.Window.
const WindowDefault = 24 * time.Hour

// Bounds limit what one request may ask for. A field of 0 is its default. A
// request beyond one is refused with a BoundError that has the field's name.
type Bounds struct {
	// Depth and Nodes limit the work of one question, which may ask for less; see
	// eval.Bounds. Reaching one makes an answer unknown. Defaults
	// eval.DepthDefault and eval.NodesDefault.
	Depth, Nodes int
	// DepthMax is the most that a question may ask Depth to be. Default, and
	// least, Depth.
	DepthMax int
	// WriteTuples limits the tuples added and removed by one Write. Default 10,000.
	WriteTuples int
	// WriteAttributes limits its attributes. Default 10,000.
	WriteAttributes int
	// WriteFilters limits its RemoveMatching. Default and most: storage.FiltersMax.
	WriteFilters int
	// Preconditions limits its preconditions. Default 100.
	Preconditions int
	// WriteDocuments limits its documents and secrets. Default 1,000.
	WriteDocuments int
	// DocumentBytes limits one document or secret. Default 4 MiB.
	DocumentBytes int
	// SchemaBytes limits a schema as it is stored: its model and its source.
	// Default 4 MiB.
	SchemaBytes int
	// ContextTuples limits a question's contextual tuples. Default 1,000.
	ContextTuples int
	// ContextAttributes limits its contextual attributes. Default 1,000.
	ContextAttributes int
	// ContextBytes limits its context, counted as names and values.
	// Default 512 KiB.
	ContextBytes int
	// BatchItems limits the questions of one Batch. Default 10,000.
	BatchItems int
	// ListItems limits, and is the default of, the Limit of a list. Default 10,000.
	ListItems int
	// PageItems limits the Limit of Read, ReadAttributes and Changes, whose
	// default is 100. Default 10,000.
	PageItems int
	// WatchBuffer is how many entries a watcher may lag before it is told to
	// resume. Default 1,024.
	WatchBuffer int
	// WritersWaiting limits the writers that wait for one store's turn; the next
	// is refused. Default 10,000.
	WritersWaiting int
	// SchemasCached is how many compiled schemas, besides each loaded store's
	// current ones, are kept. Default 256.
	SchemasCached int
	// DifferenceChanges limits the tuples and attributes that changed between the
	// two revisions of a Difference. Default 100,000.
	DifferenceChanges int
	// DifferencePlaces limits the relations of objects that they reach. Default
	// 1,000,000.
	DifferencePlaces int
	// DifferenceChecks is how many checks and lists a page of a Difference may
	// take before it ends. Default 100,000.
	DifferenceChecks int
	// WhatIfQuestions limits the questions of one WhatIf. Default 100,000.
	WhatIfQuestions int
	// WhatIfNodes is how many nodes a WhatIf may visit before it ends with what it
	// has. Default 50,000,000.
	WhatIfNodes int
	// PastViews is how many views of the past each store keeps. Default 4.
	PastViews int
	// Loads is how many stores may load at once. Default 8.
	Loads int
	// FutureWait is how long a question whose context has no deadline waits for
	// a revision that has not arrived. Default 5 s.
	FutureWait time.Duration
	// HoldTime is how long a prepared write may hold its store's turn before it
	// is appended. Default 10 s.
	HoldTime time.Duration
	// AppendTime is how long the driver may take for one append. Default 60 s.
	AppendTime time.Duration
}

// Bounds that no setting changes.
const (
	// AliasesMax bounds a store's aliases, NameBytesMax its name and each of them.
	AliasesMax   = 100
	NameBytesMax = 512
	// TokenBytesMax and CursorBytesMax bound what is read back from outside.
	TokenBytesMax  = 64
	CursorBytesMax = 8 << 10
	// DocumentKeyBytesMax bounds a document's kind, key and each secondary key.
	DocumentKeyBytesMax = 1024
	// SecondaryKeysMax bounds a document's secondary keys.
	SecondaryKeysMax = 100
	// AttributeValueBytesMax bounds an attribute's value.
	AttributeValueBytesMax = 32 << 10
	// pageDefault is the Limit of a page that names none.
	pageDefault = 100
	// groupWrites and groupChanges bound what one append takes of waiting writers;
	// one of them alone may bring more changes.
	groupWrites  = 1024
	groupChanges = 10_000
	// conflictsMax is how often a group validates again before ErrConflict.
	conflictsMax = 1000
)

func set[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// withDefaults fills in what is not set.
func (b Bounds) withDefaults() Bounds {
	set(&b.Depth, eval.DepthDefault)
	b.DepthMax = max(b.DepthMax, b.Depth)
	set(&b.Nodes, eval.NodesDefault)
	set(&b.WriteTuples, 10_000)
	set(&b.WriteAttributes, 10_000)
	set(&b.WriteFilters, storage.FiltersMax)
	set(&b.Preconditions, 100)
	set(&b.WriteDocuments, 1_000)
	set(&b.DocumentBytes, 4<<20)
	set(&b.SchemaBytes, 4<<20)
	set(&b.ContextTuples, 1_000)
	set(&b.ContextAttributes, 1_000)
	set(&b.ContextBytes, 512<<10)
	set(&b.BatchItems, 10_000)
	set(&b.ListItems, 10_000)
	set(&b.PageItems, 10_000)
	set(&b.WatchBuffer, 1_024)
	set(&b.WritersWaiting, 10_000)
	set(&b.SchemasCached, 256)
	set(&b.DifferenceChanges, 100_000)
	set(&b.DifferencePlaces, 1_000_000)
	set(&b.DifferenceChecks, 100_000)
	set(&b.WhatIfQuestions, 100_000)
	set(&b.WhatIfNodes, 50_000_000)
	set(&b.PastViews, 4)
	set(&b.Loads, 8)
	set(&b.FutureWait, 5*time.Second)
	set(&b.HoldTime, 10*time.Second)
	set(&b.AppendTime, time.Minute)
	b.WriteFilters = min(b.WriteFilters, storage.FiltersMax)
	return b
}

// now is the engine's time in the words of rel.
func (e *Engine) now() rel.Time { return rel.TimeOf(e.opts.Clock()) }
