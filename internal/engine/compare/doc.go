// Package compare answers questions about permissions that take more than one
// check. A [Comparer] belongs to one store. Its methods are:
//
//   - [Comparer.Difference]: who gained and who lost a permission between two
//     revisions (difference.go).
//   - [Comparer.WatchPermission]: the same for each new revision (watch.go). All
//     watches of a store share one subscription to its writes (hub.go).
//   - [Comparer.WhatIf]: checks answered as the store is and as it would be after
//     a proposed change (whatif.go).
//   - [Comparer.Entitlements]: which relations one subject has on some objects
//     (entitlements.go).
//
// # How a difference is found
//
// The cost of a difference depends on what changed, not on the size of the store:
//
//  1. changes.go reads the log between the two revisions and collects the keys of
//     the tuples and attributes that changed.
//  2. affected.go walks from every changed tuple to the objects whose permission
//     it can affect. The walk (reach.go) follows usersets, computed relations and
//     arrows in both snapshots, in the reverse direction of a check; see
//     [schema.Backward]. It ignores operators, conditions and expiry. So it may
//     find too many objects, but never too few.
//  3. candidates.go collects the subjects that a changed tuple can concern: the
//     members of the tuple's subject. After a wildcard tuple or an attribute
//     changed, every subject is a candidate.
//  4. pairs.go asks the evaluator about every pair of an affected object and a
//     candidate subject, in both snapshots, and reports the pairs with two
//     different decisions. cursor.go records where a page ended.
//
// comparison.go holds the state of steps 2 to 4. If the schema changed between the
// two revisions, step 2 takes all objects and step 3 all subjects.
//
// The package evaluates no rewrites: package eval makes the decisions. It never
// changes a store.
package compare
