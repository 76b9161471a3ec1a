package ostiary

import (
	"context"
	"iter"

	"github.com/ostiary/ostiary/authz"
)

// Difference returns who gained and who lost a permission between two revisions.
// The cost depends on what changed and on what the changes reach, not on the size
// of the store. Two cases cost more: if tuples of the store expire, all tuples with
// a condition or an expiry are read; if the schema changed in between, all objects
// of the type are compared.
//
// It fails with [authz.ErrBound] if more than Bounds.DifferenceChanges tuples and
// attributes changed, or if they reach more than Bounds.DifferenceUsersets
// usersets. It fails with [authz.ErrInvalidRequest] if From is later than To.
//
// A condition that reads a time from the request's context gives the same decision
// at both revisions, because Context applies to both.
func (s *Store) Difference(ctx context.Context, r authz.DifferenceRequest) (authz.DifferenceResult, error) {
	return s.comparer.Difference(ctx, &r)
}

// WatchPermission yields an update for each log entry that changes a permission
// for one of the named objects or subjects, and when a tuple that gave it expires,
// until ctx ends or the consumer stops. If entries arrive faster than the consumer
// reads, one update covers several of them, and so it is with tuples that expire
// within a second. So a watch never falls behind, and no writer waits for it. If the
// watch fails, it yields the error last.
func (s *Store) WatchPermission(ctx context.Context, r authz.WatchPermissionRequest) iter.Seq2[authz.PermissionUpdate, error] {
	return s.comparer.WatchPermission(ctx, &r)
}

// WhatIf asks each question twice, at one revision and one time: as the store is,
// and as it would be after a proposed change of the schema or of tuples. Nothing is
// stored. It ends early, with Partial set, after it visited Bounds.WhatIfNodes nodes
// and when ctx ends.
func (s *Store) WhatIf(ctx context.Context, r authz.WhatIfRequest) (authz.WhatIfResult, error) {
	return s.comparer.WhatIf(ctx, &r)
}

// Entitlements returns which relations one subject has on some objects. It answers
// each combination of an object and a relation as [Store.Check] would, and fails
// with [authz.ErrBound] if there are more than Bounds.BatchItems combinations.
func (s *Store) Entitlements(ctx context.Context, r authz.EntitlementsRequest) (authz.EntitlementsResult, error) {
	return s.comparer.Entitlements(ctx, &r)
}
