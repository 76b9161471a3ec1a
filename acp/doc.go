// Package acp is document access control for databases that embed it. It reads
// policies in ACP YAML, registers documents to owners, shares them by
// relationships, and decides who may access them. It keeps its data in memory or
// on disk, and can write it in the database's own transaction.
//
// The main type is [Engine]. The terms, the rules and the policy ids are those
// of acp_core v0.8.1 and DefraDB. A policy is compiled into the same schema form
// as every other model language, so the package has no evaluator of its own. It
// never listens, logs or starts a goroutine.
//
// # Differences from acp_core
//
// Where acp_core has a defect, this package does what its users expect:
//
//   - Keys do not collide. acp_core joins resource, id and relation without
//     separators, so docs:1 and doc:s1 are the same key.
//   - Exclusions and intersections hold even if the evaluator reaches an actor
//     twice. The older engine then allowed an excluded actor and denied an
//     intersected one.
//   - A cycle through an exclusion is undecided, and therefore denied. acp_core
//     allows "a - a".
//   - Only a policy's creator and the [Root] can delete it. In acp_core everyone
//     can, even without an identity.
//   - Only the owner can archive an archived object again. acp_core reports
//     success to everyone.
//   - An archived object cannot be shared.
//   - Every DID is validated, including the DID of a new owner; a did:key must
//     hold a point of its curve. acp_core accepts any text with two colons, and
//     any text as a new owner.
//   - An arrow from a relation that holds all actors grants nothing. In acp_core
//     it crashes the check.
//   - An arrow to a resource that lacks the target grants nothing. In acp_core
//     the check fails.
//   - Text after the end of an expression is an error; acp_core reads "r r" as
//     "r". A second YAML document and a name that no call can use are errors too.
//   - An error keeps its kind through every wrapping. acp_core returns many as
//     "unknown", and older versions return every bad input as "policy not found".
//   - Deleting a relationship that the relation's types do not admit is an error.
//     acp_core reports "not found".
//   - A subject set cannot be made a member of itself, which would mean nothing.
//   - An object's id may contain invalid UTF-8, which acp_core cannot store. Its
//     length is bounded; see [StoredID].
//   - A filter of relationships that can select nothing, because a name or the
//     subject is wrong, is an error. acp_core finds nothing for some of them, and
//     refuses every filter by a subject set.
//   - [Root.AmendRegistration] refuses a time in the future.
//   - A specification that the caller of [Engine.CreatePolicy] requires is applied in
//     the map dialect too, which had no such call.
//   - Every change is one atomic entry of the log. acp_core transfers and archives
//     in several writes.
//
// The package does not record who set a relationship, nor metadata of
// relationships.
package acp
