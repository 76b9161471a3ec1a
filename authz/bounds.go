package authz

import (
	"time"
)

// BoundTime is the value of [WhatIfResult].Partial if the context ended.
const BoundTime = "time"

// QuestionBounds limit the work of a question. Where a bound is reached, the answer is
// unknown with that bound as its reason.
type QuestionBounds struct {
	// Depth is the greatest number of hops (through usersets and arrows) in a
	// proof. 0 or less means [DepthDefault].
	Depth int
	// Nodes is the greatest number of nodes that a question may visit. 0 or
	// less means [NodesDefault].
	Nodes int
	// ConditionCost is the greatest cost of all evaluations of conditions and
	// rules of a question, in units of about a microsecond or less. Each
	// evaluation costs [ConditionCostBase] and the Cost of its expr.Result. 0 or
	// less means [ConditionCostDefault].
	ConditionCost int
	// Memory is the greatest amount of memory in bytes that a question may use.
	// It is estimated from the number of states, gates and candidates. 0 or less
	// means [MemoryDefault].
	Memory int
	// ExpandEntries is the greatest number of nodes and tuples in a tree of
	// an expansion. 0 or less means [ExpandEntriesDefault].
	ExpandEntries int
	// ExpandBytes is the greatest size in bytes of the objects, subjects,
	// contexts and rewrites in such a tree. 0 or less means
	// [ExpandBytesDefault].
	ExpandBytes int
}

const (
	// DepthDefault is the default of [QuestionBounds.Depth], in hops.
	DepthDefault = 25
	// NodesDefault is the default of [QuestionBounds.Nodes].
	NodesDefault = 5_000_000
	// ConditionCostDefault is the default of [QuestionBounds.ConditionCost].
	ConditionCostDefault = 20_000_000
	// MemoryDefault is the default of [QuestionBounds.Memory].
	MemoryDefault = 256 << 20
	// ExpandEntriesDefault is the default of [QuestionBounds.ExpandEntries].
	ExpandEntriesDefault = 20_000
	// ExpandBytesDefault is the default of [QuestionBounds.ExpandBytes].
	ExpandBytesDefault = 2 << 20
	// ConditionCostBase is the cost of an evaluation apart from its steps.
	ConditionCostBase = 10
)

const (
	// BoundDepth names [QuestionBounds.Depth].
	BoundDepth = "depth"
	// BoundNodes names [QuestionBounds.Nodes].
	BoundNodes = "nodes"
	// BoundConditionCost names [QuestionBounds.ConditionCost].
	BoundConditionCost = "condition cost"
	// BoundMemory names [QuestionBounds.Memory].
	BoundMemory = "memory"
	// BoundMemoryTotal names [Bounds.QuestionsMemory].
	BoundMemoryTotal = "memory of all questions"
	// BoundExpandEntries names [QuestionBounds.ExpandEntries].
	BoundExpandEntries = "expand entries"
	// BoundExpandBytes names [QuestionBounds.ExpandBytes].
	BoundExpandBytes = "expand bytes"
)

// Bounds limit what one request may ask for. A field of 0 has its default. A
// request that exceeds a bound fails with a BoundError that has the name of the
// field.
type Bounds struct {
	// Depth is the default depth of a question; see [QuestionBounds]. A question that
	// reaches its depth is answered with unknown. Default [DepthDefault].
	Depth int
	// Nodes is the default, and the largest, number of nodes that a question may
	// visit; see [QuestionBounds]. Default [NodesDefault].
	Nodes int
	// ConditionCost is the default, and the largest, cost of all conditions of a
	// question; see [QuestionBounds]. A question that reaches it is answered with
	// unknown, and a list ends there. Default [ConditionCostDefault].
	ConditionCost int
	// QuestionMemory is the default, and the largest, amount of memory in bytes
	// that a question may use; see [QuestionBounds]. Default [MemoryDefault].
	QuestionMemory int
	// QuestionsMemory is the amount of memory in bytes that all questions of the
	// engine may use together. A question that finds none waits, until its
	// deadline at most, and is then answered with unknown. Default 512 MiB.
	QuestionsMemory int
	// ExpandEntries and ExpandBytes are the default, and the largest, size of the
	// tree of an Expand; see [QuestionBounds]. A larger tree is cut and names the
	// bound. Default [ExpandEntriesDefault] and [ExpandBytesDefault].
	ExpandEntries int
	// ExpandBytes is described at ExpandEntries.
	ExpandBytes int
	// DepthMax is the largest Depth that a question may ask for. The default, and
	// the least value, is Depth.
	DepthMax int
	// Stores is the number of stores; CreateStore fails above it. If other processes
	// create stores over the same driver, they are counted when the engine creates its
	// first one. Default 1,000,000.
	Stores int
	// WriteTuples is the number of tuples that one write may add and remove.
	// Default 10,000.
	WriteTuples int
	// WriteAttributes is the number of attributes that one write may set and
	// remove. Default 10,000.
	WriteAttributes int
	// WriteFilters is the number of filters in one write's RemoveMatching. The
	// default, and the largest value, is storage.FiltersMax.
	WriteFilters int
	// Preconditions is the number of preconditions of one write. Default 100.
	Preconditions int
	// WriteDocuments is the number of documents, secrets and schemas in one write.
	// Default 1,000.
	WriteDocuments int
	// DocumentBytes is the size of one document or secret. Default 4 MiB.
	DocumentBytes int
	// SchemaBytes is the stored size of a schema: its model and its source text.
	// Default 4 MiB.
	SchemaBytes int
	// ContextTuples is the number of contextual tuples of a question. Default
	// 1,000.
	ContextTuples int
	// ContextAttributes is the number of contextual attributes of a question.
	// Default 1,000.
	ContextAttributes int
	// ContextBytes is the size of a question's context: the bytes of its names and
	// values. Default 512 KiB.
	ContextBytes int
	// BatchItems is the number of questions in one batch. Default 10,000.
	BatchItems int
	// ListItems is the largest Limit of a list, and its default. Default 10,000.
	ListItems int
	// PageItems is the largest Limit of Read, ReadAttributes and Changes, whose
	// default is [PageDefault]. Default 10,000.
	PageItems int
	// WatchBuffer is how many log entries a watcher may lag behind before it ends
	// with a WatchError. Default 1,024.
	WatchBuffer int
	// WatchChanges is how many changes the watchers of all stores may lag behind
	// together; changes that several watchers wait for count once. Above it, a watcher
	// that lags by more than its share ends with a WatchError. Default 400,000.
	WatchChanges int
	// GroupsAhead is how many groups of writers of one store may be in the log of a cluster, or
	// on their way to it, before the first of them is acknowledged by the nodes that answer
	// reads. With 1, a group is appended when the one before is acknowledged.
	GroupsAhead int
	// WritersWaiting is how many writers may wait for one store. The next one fails.
	// Default 10,000.
	WritersWaiting int
	// SchemasCached is how many compiled schemas are cached in addition to the
	// current ones of each loaded store. Default 256.
	SchemasCached int
	// SchemasCachedBytes is how much memory in bytes the cached schemas may use; see
	// schema.Schema.Bytes. Default 16 MiB.
	SchemasCachedBytes int
	// Compilations is how many schemas may be compiled at the same time, so that
	// questions have a processor meanwhile. 0 means half of the processors, at least
	// one.
	Compilations int
	// DifferenceChanges is how many tuples and attributes may have changed between
	// the two revisions of a Difference. Default 100,000.
	DifferenceChanges int
	// DifferenceUsersets is how many pairs of object and relation those changes may
	// reach. Default 1,000,000.
	DifferenceUsersets int
	// DifferenceChecks is how many checks and lists one page of a Difference may
	// take; then the page ends. Default 100,000.
	DifferenceChecks int
	// WhatIfQuestions is the number of questions of one WhatIf. Default 100,000.
	WhatIfQuestions int
	// WhatIfNodes is how many nodes one WhatIf may visit; then it returns the part
	// that it has. Default 50,000,000.
	WhatIfNodes int
	// PastViews is how many past views each store keeps. Default 4.
	PastViews int
	// Loads is how many stores may load at the same time. Default 8.
	Loads int
	// LoadWait is how long a request waits while its store is loading; then it fails
	// with ErrLoading, and the load continues. 0 or less means until the context of
	// the request ends.
	LoadWait time.Duration
	// FutureWait is how long a request without a deadline waits for a revision
	// that has not arrived. Default 5 s.
	FutureWait time.Duration
	// HoldTime is how long a prepared write may hold its store's write lock before
	// it is appended. Default 10 s.
	HoldTime time.Duration
	// AppendTime is the deadline of one append by the driver. It should be at most two
	// thirds of the deadline of a request, so that a writer gets the outcome. Loading a
	// store for a write, and an append that removes by a filter, may take 30 times as
	// long. Default 2 s.
	AppendTime time.Duration
}

// Bounds that no option changes.
const (
	// AliasesMax is the largest number of aliases of a store.
	AliasesMax = 100
	// NameBytesMax is the largest size of a store's name and of each alias.
	NameBytesMax = 512
	// TokenBytesMax is the largest size of a token that is read.
	TokenBytesMax = 64
	// CursorBytesMax is the largest size of a cursor that is read.
	CursorBytesMax = 8 << 10
	// DocumentKeyBytesMax is the largest size of a document's kind, its key and
	// each of its secondary keys.
	DocumentKeyBytesMax = 1024
	// SecondaryKeysMax is the largest number of secondary keys of a document.
	SecondaryKeysMax = 100
	// AttributeValueBytesMax is the largest size of an attribute's value.
	AttributeValueBytesMax = 32 << 10
	// ScopeIDsMax is the largest number of ids in the Scope of a list.
	ScopeIDsMax = 100_000
	// PageDefault is the limit of a page whose request has none.
	PageDefault = 100
)
