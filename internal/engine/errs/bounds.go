package errs

import (
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// SetDefault sets a field that is not positive to its default value.
func SetDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// WithDefaults returns the bounds with every unset field at its default.
func WithDefaults(b authz.Bounds) authz.Bounds {
	SetDefault(&b.Depth, authz.DepthDefault)
	b.DepthMax = max(b.DepthMax, b.Depth)
	SetDefault(&b.Nodes, authz.NodesDefault)
	SetDefault(&b.ConditionCost, authz.ConditionCostDefault)
	SetDefault(&b.QuestionMemory, authz.MemoryDefault)
	SetDefault(&b.QuestionsMemory, 512<<20)
	SetDefault(&b.ExpandEntries, authz.ExpandEntriesDefault)
	SetDefault(&b.ExpandBytes, authz.ExpandBytesDefault)
	for _, f := range [...]struct {
		field *int
		value int
	}{
		{&b.Stores, 1_000_000}, {&b.WriteTuples, 10_000}, {&b.WriteAttributes, 10_000}, {&b.WriteFilters, storage.FiltersMax},
		{&b.Preconditions, 100}, {&b.WriteDocuments, 1_000}, {&b.DocumentBytes, 4 << 20}, {&b.SchemaBytes, 4 << 20},
		{&b.ContextTuples, 1_000}, {&b.ContextAttributes, 1_000}, {&b.ContextBytes, 512 << 10},
		{&b.BatchItems, 10_000}, {&b.ListItems, 10_000}, {&b.PageItems, 10_000},
		{&b.WatchBuffer, 1_024}, {&b.WatchChanges, 400_000}, {&b.GroupsAhead, 16}, {&b.WritersWaiting, 10_000}, {&b.SchemasCached, 256}, {&b.SchemasCachedBytes, 16 << 20},
		{&b.DifferenceChanges, 100_000}, {&b.DifferenceUsersets, 1_000_000}, {&b.DifferenceChecks, 100_000},
		{&b.WhatIfQuestions, 100_000}, {&b.WhatIfNodes, 50_000_000},
		{&b.PastViews, 4}, {&b.Loads, 8},
	} {
		SetDefault(f.field, f.value)
	}
	SetDefault(&b.FutureWait, 5*time.Second)
	SetDefault(&b.HoldTime, 10*time.Second)
	SetDefault(&b.AppendTime, 2*time.Second)
	b.Compilations = max(b.Compilations, 0)
	b.WriteFilters = min(b.WriteFilters, storage.FiltersMax)
	return b
}

// QuestionBounds returns the bounds of one question: those that it asks for, or the
// defaults, cut to the largest that b allows.
func QuestionBounds(b *authz.Bounds, q authz.QuestionBounds) authz.QuestionBounds {
	if q.Depth <= 0 {
		q.Depth = b.Depth
	}
	q.Depth = min(q.Depth, b.DepthMax)
	for _, f := range [...]struct {
		field   *int
		largest int
	}{{&q.Nodes, b.Nodes}, {&q.ConditionCost, b.ConditionCost}, {&q.Memory, b.QuestionMemory},
		{&q.ExpandEntries, b.ExpandEntries}, {&q.ExpandBytes, b.ExpandBytes}} {
		if *f.field <= 0 || *f.field > f.largest {
			*f.field = f.largest
		}
	}
	return q
}

// PageItems returns the number of items of a page whose request has the limit. It
// fails with ErrBound if the limit exceeds PageItems.
func PageItems(b *authz.Bounds, limit int) (int, error) {
	if limit <= 0 {
		return min(authz.PageDefault, b.PageItems), nil
	}
	return limit, CheckBound("PageItems", limit, b.PageItems)
}
