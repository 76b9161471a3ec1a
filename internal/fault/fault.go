// Package fault holds the seeded faults: small mistakes that an engineer
// could make in eval, graph or storage, each of which the oracle must catch.
// Its main type is Fault. They exist only under the build tag "faults"; in
// every other build On is false, and the compiler drops what stands behind it.
package fault

// Fault names one mistake.
type Fault uint8

// The list. A fault's name says what is wrong where On(fault) is true.
const (
	None Fault = iota

	// In eval.
	EvalNoTypeRestriction      // a stored tuple counts though the schema no longer admits it
	EvalNoContextualAdmission  // a contextual tuple is not held against the restrictions
	EvalWildcardHasUsersets    // user:* contains group:1#member
	EvalWildcardMissed         // a wildcard in a userset's list is overlooked
	EvalWildcardNoCondition    // a wildcard's condition is ignored
	EvalConditionIgnored       // a detailed edge counts without its condition
	EvalConditionOtherAdmitted // any condition name passes the restriction
	EvalUnknownIsFalse         // an unknown condition counts as false everywhere
	EvalUnknownIsTrue          // an unknown condition counts as true everywhere
	EvalNotUnknownIsTrue       // not unknown = true
	EvalIntersectionFirst      // an intersection looks at its first operand only
	EvalExclusionSwapped       // b but not a
	EvalExclusionDropped       // the subtracted side is never read
	EvalExpiryIgnored          // expired tuples count
	EvalExpiryOffByOne         // a tuple counts at the very moment it expires
	EvalSelfMissed             // the userset o#r is no member of itself
	EvalArrowFirstOnly         // an arrow follows its first object only
	EvalArrowRestriction       // an arrow follows tuples the restriction does not admit
	EvalVisitedAcrossRelations // the visited set forgets the relation
	EvalRememberOpenCycle      // an answer found under an open ancestor is remembered
	EvalCycleFixpointEarly     // the fixpoint stops one round early
	EvalNegativeCycleFalse     // a cycle through exclusion is false, not unknown
	EvalDepthIsFalse           // beyond the depth bound is false
	EvalDepthOffByOne          // one hop more than the bound counts
	EvalReverseMissesComputed  // the walk from the subject forgets computed relations
	EvalReverseMissesArrow     // and arrows
	EvalListUnchecked          // candidates of an intersection or exclusion are not checked
	EvalListWildcardMissed     // lists forget what a wildcard gives
	EvalContextualMissedInList // lists forget contextual tuples
	EvalStoredContextLoses     // the question's context wins over the tuple's

	// In graph.
	GraphReverseNotRemoved // a removal leaves the reverse list
	GraphConditionKept     // a replaced tuple keeps its old condition
	GraphChunkBoundary     // the last edge of a chunk is not found
	GraphPastMissesRemoved // a past view lacks what was removed since
	GraphFilterFirstOnly   // remove by filter stops after one

	// In storage.
	StorageRemovedRowLost       // a removed row does not reach the past
	StorageReplaceKeepsOld      // a replaced row keeps its old condition
	StorageFilterIgnoresSubject // a filter forgets the subject's fields

	Count // the number of faults plus one
)
