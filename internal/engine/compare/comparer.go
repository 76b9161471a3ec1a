package compare

import "github.com/ostiary/ostiary/internal/engine/snapshot"

// Comparer compares the permissions of one store. Its methods are safe for
// concurrent use. Create one with [New].
type Comparer struct {
	timeline *snapshot.Timeline
	hub      hub
}

// New returns the Comparer of the store that timeline belongs to. It starts no
// goroutine: the first [Comparer.WatchPermission] does.
func New(timeline *snapshot.Timeline) *Comparer {
	return &Comparer{timeline: timeline, hub: hub{timeline: timeline}}
}
