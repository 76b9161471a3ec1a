// Package acp is access control for databases that hold documents, as a library:
// policies in the ACP YAML, registration of documents to owners, relationships
// that share them, and decisions, in memory or on disk, in the database's own
// transaction if it wants. Its main type is Engine; the words are those of
// acp_core and DefraDB, and so are the rules of acp_core v0.8.1 and its policy
// ids. It compiles policies into the engine's one schema form and has no
// evaluator of its own, and it never listens, logs or starts a goroutine.
//
// # Where the original is not followed
//
// What its users would call a defect is done right here:
//
//   - Keys do not collide: there, resource, id and relation are joined without
//     separators, and docs:1 is doc:s1.
//   - What is excluded is excluded, and what is intersected can be allowed, also
//     where an actor is met twice (the older engine allowed the one and denied
//     the other).
//   - A cycle through an exclusion is undecided, and denied; there, a - itself is
//     allowed.
//   - Only its creator may delete a policy; there, anybody may, even without an
//     identity.
//   - Archiving what is archived already is the owner's; there, a stranger is told
//     it was done.
//   - What is archived cannot be shared.
//   - DIDs are checked, a did:key down to its point on the curve, also those of new
//     owners; there, any text with two colons passes, and new owners any text.
//   - All actors under an arrow lead nowhere; there, they crash the check.
//   - An arrow to what lacks its target is nobody; there, the check is an error.
//   - Text behind an expression's end is an error; there, "r r" is read as r. So is
//     a second document, and a name that no call could name.
//   - Errors keep their kind through every wrapping; there, many come back as
//     unknown, and in older versions every error of input is "policy not found".
//   - Deleting a relationship that the relation's types do not admit is an error;
//     there, it was not found.
//   - Setting a set as a member of itself is refused: it says nothing.
//   - Every change is one entry of the log, atomic; there, transfers and archives
//     are several writes.
//
// Not kept here: who set a relationship, and what metadata came with it.
package acp
