// Package history judges what clients of several nodes did and saw: whether the nodes
// kept what docs/cluster.md promises. Its main types are [Call], one call of a client, and
// [Past], what the log has; [Judge] compares them. It calls no node itself.
package history

import (
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Kind is what a call does.
type Kind uint8

// The kinds of calls. A read asks for the tuple of a document.
const (
	Add        Kind = iota // adds the tuple of a document
	Remove                 // removes it
	Full                   // reads it, fully consistent
	Least                  // reads it, at least as new as a token
	Newest                 // reads it, with the default consistency
	Local                  // reads it from the view in memory
	Claim                  // creates a store with an alias
	Release                // deletes such a store
	PutSecret              // stores a secret
	ReadSecret             // reads it
)

var kindNames = [...]string{"add", "remove", "fully consistent read", "read with a token", "read", "local read", "create with alias", "delete with alias", "put of secret", "read of secret"}

// String returns what a call does, in words.
func (k Kind) String() string { return kindNames[k] }

// IsRead reports whether a call reads a tuple.
func (k Kind) IsRead() bool { return k == Full || k == Least || k == Newest || k == Local }

// IsWrite reports whether a call writes an entry.
func (k Kind) IsWrite() bool { return k == Add || k == Remove || k == PutSecret }

// Outcome is what a caller knows of a call.
type Outcome uint8

// The outcomes of a call.
const (
	Made    Outcome = iota // it was made, or answered
	Refused                // the state does not allow it
	Failed                 // it has no effect
	Open                   // the caller does not know
)

// OutcomeOf returns the outcome of a call that was answered with an error, or without.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Made
	case errors.Is(err, authz.ErrUncertain):
		return Open
	case errors.Is(err, authz.ErrTupleExists), errors.Is(err, authz.ErrTupleMissing), errors.Is(err, authz.ErrPrecondition), errors.Is(err, authz.ErrStoreExists):
		return Refused
	}
	return Failed
}

// Process is one start of a node.
type Process struct {
	// Number identifies the process in errors.
	Number int
	// Began is a revision that was in the log when the process was started.
	Began storage.Revision
}

// Call is one call of a client, and what came of it.
type Call struct {
	Kind    Kind
	Thing   int // number of the document, the alias or the secret
	Process *Process

	Mark    string           // the reason of a write, by which the log has it
	Again   bool             // the write was sent before, with the same mark
	Follows bool             // the write must have the revision after After
	Ignores bool             // the write has nothing to do if the tuple is as it wants it
	After   storage.Revision // of the token; of a secret, that of the copy before
	// The write requires the tuple of another document, or its absence.
	Needs, NeedThere bool
	Need             int

	Began, Ended int64 // places in the order of all calls, each of them once
	// Before is a revision that was in the log when the call began, and no entry after
	// Until was in it when the call ended. The closer they are, the more is judged.
	Before, Until storage.Revision

	Outcome  Outcome
	Err      error
	Revision storage.Revision // of the write, or of what was read
	There    bool             // whether the tuple was read
	Body     string           // of a secret
}

func (c *Call) String() string {
	needs := ""
	if c.Needs {
		needs = fmt.Sprintf(", needs %d (there: %t)", c.Need, c.NeedThere)
	}
	return fmt.Sprintf("%s %d%s on process %d (%s), revision %d, log from %d to %d, error %v", c.Kind, c.Thing, needs, c.Process.Number, c.Mark, c.Revision, c.Before, c.Until, c.Err)
}

// DocumentTuple returns the tuple of a document.
func DocumentTuple(document int) rel.Tuple {
	return rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(document)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: reader}}
}

// reader is the user of the tuples of documents.
const reader = "anne"

// Bound sets Before and Until of calls by what the calls themselves show, for a log that
// could not be asked when they were made: an answered revision was in the log, and a write
// has a revision after all that was in the log when it began. last is the last revision of
// the log. It sorts the calls by their beginning.
func Bound(calls []*Call, last storage.Revision) {
	events := eventsOf(calls)
	known := storage.Revision(0)
	for _, e := range events {
		switch {
		case e.begins:
			e.call.Before = known
		case e.call.Outcome == Made && (e.call.Kind.IsRead() || e.call.Kind.IsWrite()):
			known = max(known, e.call.Revision)
		}
	}
	limit := last
	for i := len(events) - 1; i >= 0; i-- {
		switch e := events[i]; {
		case !e.begins:
			e.call.Until = max(limit, e.call.Before)
		case e.call.Outcome == Made && e.call.Kind.IsWrite() && !e.call.Again && !e.call.Ignores:
			limit = min(limit, e.call.Revision-1)
		}
	}
}
