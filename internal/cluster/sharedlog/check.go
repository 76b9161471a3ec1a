package sharedlog

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/storage"
)

// This file has the checks that every log makes, with their errors.

// CheckSegment fails with storage.ErrTooLarge if a segment exceeds SegmentBytesMax.
func CheckSegment(r *Record) error {
	if len(r.Bytes) > SegmentBytesMax {
		return fmt.Errorf("%w: a segment of %d bytes exceeds the limit SegmentBytesMax, which is %d", storage.ErrTooLarge, len(r.Bytes), SegmentBytesMax)
	}
	return nil
}

// CheckPart fails with storage.ErrTooLarge if a part exceeds PartBytesMax.
func CheckPart(part []byte) error {
	if len(part) > PartBytesMax {
		return fmt.Errorf("%w: a part of %d bytes exceeds the limit PartBytesMax, which is %d", storage.ErrTooLarge, len(part), PartBytesMax)
	}
	return nil
}

// CheckSecret checks what a log has for a secret whose digest should be want. It fails
// with ErrNoSecret if the log has none or another one, and with storage.ErrDamaged if
// the ciphertext is not that of the digest.
func CheckSecret(key *SecretKey, want storage.Hash, found bool, have storage.Hash, body []byte) error {
	switch {
	case !found || have != want:
		return fmt.Errorf("%w: key %q of kind %q", ErrNoSecret, key.Key, key.Kind)
	case sha256.Sum256(body) != want:
		return fmt.Errorf("%w: key %q of kind %q does not have its digest", storage.ErrDamaged, key.Key, key.Kind)
	}
	return nil
}

// NodeTaken returns the error of a record of a node that may not replace the one with
// the start have.
func NodeTaken(have uint64, n *NodeRecord) error {
	switch have {
	case removedStart:
		return &removedError{fmt.Sprintf("node %s was removed, and its folder cannot be used again: start the node with a new, empty folder", n.ID)}
	case 0:
		return fmt.Errorf("%w: node %s is not registered any more, because an operator has removed it", ErrNodeTaken, n.ID)
	}
	return fmt.Errorf("%w: the registry has start %d of node %s, and this is start %d: the data folder was copied, or restored from a backup; a new node needs a folder of its own, which may be empty",
		ErrNodeTaken, have, n.ID, n.Start)
}

// removedError is an ErrNodeTaken with a text of its own.
type removedError struct{ text string }

// Error returns the text, which names the node.
func (e *removedError) Error() string { return e.text }

// Unwrap returns ErrNodeTaken.
func (e *removedError) Unwrap() error { return ErrNodeTaken }

// Registered returns the nodes that were not removed, in ascending order of their ids. It
// changes all.
func Registered(all []NodeRecord) []NodeRecord {
	all = slices.DeleteFunc(all, func(n NodeRecord) bool { return n.Removed() })
	SortNodes(all)
	return all
}

// SortNodes puts nodes in ascending order of their ids.
func SortNodes(all []NodeRecord) {
	slices.SortFunc(all, func(a, b NodeRecord) int { return slices.Compare(a.ID[:], b.ID[:]) })
}
