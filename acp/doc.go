// Package acp is access control for databases that hold documents, as a library:
// policies in the ACP YAML, registration of documents to owners, relationships
// that share them, and decisions, in memory or on disk, in the database's own
// transaction if it wants. Its main type is Engine; the words are those of
// acp_core and DefraDB. It compiles policies into the engine's one schema form
// and has no evaluator of its own, and it never listens, logs or starts a
// goroutine.
package acp
