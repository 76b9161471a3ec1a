package sharedlog

import (
	"context"
	"errors"
	"math"

	"github.com/ostiary/ostiary/storage"
)

// removedStart is the start in the record of a removed node. No start follows it, so that
// every log refuses the node, also one that an older program serves.
const removedStart = math.MaxInt64

// Removed reports whether the record is that of a node that was removed.
func (n *NodeRecord) Removed() bool { return n.Start == removedStart }

// Remove removes a node from the registry of a log for ever: the log no longer returns it,
// and refuses it with [ErrNodeTaken] from then on. The record stays, and holds nothing back:
// neither trimming, nor a newer version of segments. [Log.Forget] does not remove it.
func Remove(ctx context.Context, log Log, id storage.NodeID) error {
	if l, is := log.(*withNext); is {
		if l.done.Err() == nil {
			if err := Remove(ctx, l.log, id); err != nil {
				return err
			}
		}
		return Remove(ctx, l.next, id) // its record there would hold back trimming after the move
	}
	err := log.Register(ctx, NodeRecord{ID: id, Start: removedStart, Reads: math.MaxInt32, Applied: math.MaxInt64, Synced: math.MaxInt64, Head: math.MaxInt64, Stopped: true})
	if errors.Is(err, ErrNodeTaken) {
		return nil // it was removed before
	}
	return err
}
