// Package audit keeps the audit log of a node: who did what, from where, and with which
// outcome. Its main types are [Trail], which gets a [Record] for each event, and
// [Verify], which finds out whether the files of a log were changed afterwards.
//
// A log is a chain of lines. Each line is a JSON object whose last member is the SHA-256
// of what is before it, and which has the hash of the line before. Some lines are signed
// with ed25519 (see [Key]): the first and the last line of each file, and lines at
// intervals. Who lacks the private key cannot change, remove, add or reorder a line in
// front of a signed one without notice.
//
// The package never sees a request, and knows nothing of stores and doors. A log is no
// store: a refusal must not make an entry of a store.
package audit
