package authz

import (
	"time"

	"github.com/ostiary/ostiary/storage"
)

// Request asks for a part of a store's log.
type ChangesRequest struct {
	// After is the token that the entries follow. If it is "", the entries begin
	// after AfterRevision or at Since, or at the beginning of the log.
	After Token
	// AfterRevision is the revision that the entries follow, if After is "". The
	// request waits for a revision that has not arrived, as AtRevision does.
	AfterRevision storage.Revision
	// Since omits the entries before a time, if After is "".
	Since time.Time
	// Limit is the largest number of entries; 0 means 100. A page may have fewer
	// and still have a successor.
	Limit int
	// ChangesEnough ends the page with the entry that brings it to this number of
	// changes; 0 means 100,000, which is also the largest value.
	ChangesEnough int
	// Types selects the changes of objects of these types, unless it is empty.
	// Removals by filter are included if the filter may select such objects;
	// documents are omitted.
	Types []string
}

// Entry is an entry of the log, without secrets.
type ChangeEntry struct {
	// Revision is the revision that the entry led to.
	Revision storage.Revision
	// Time is the commit time.
	Time time.Time
	// Origin is who made the write and why. It is zero in entries that older programs
	// wrote.
	Origin storage.Origin
	// Token names the revision; a request with After: Token returns what follows.
	Token Token
	// Changes are the selected changes. Watches and pages share them: they must not
	// be changed.
	Changes []storage.Change
}

// Page is a page of the log, in the order of the revisions.
type ChangePage struct {
	// Entries are the entries that have selected changes.
	Entries []ChangeEntry
	// Next is the After of the next page, even if there are no entries yet.
	Next Token
	// More is true if the log had further entries when the page was read.
	More bool
}

// WatchError is an ErrWatchBehind that has the place to resume from.
type WatchError struct {
	// Resume is the token of the last entry that the watcher received. A new watch
	// with After: Resume continues after it.
	Resume Token
}

// Error returns the kind and the token.
func (e *WatchError) Error() string {
	return ErrWatchBehind.Error() + ": resume after token " + string(e.Resume)
}

// Is reports whether target is ErrWatchBehind.
func (e *WatchError) Is(target error) bool { return target == ErrWatchBehind }

// WatchRequest asks for entries as they are published.
type WatchRequest struct {
	// After is the token that the entries follow; "" means the newest revision.
	After Token
	// Types is as in [ChangesRequest].
	Types []string
}
