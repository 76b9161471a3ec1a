package sharedlog

import (
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/storage"
)

// The versions of the log that this program knows: of segments and their entries, of
// snapshots, and of what the nodes of a log without a database agree on. Cluster.Format is
// the one that is in use. A program reads and writes each of them, since it runs next to
// older ones until an operator raises the version; docs/decisions/0032-versions.md has what
// a new one needs.
const (
	SegmentVersionMin = 1 // the oldest
	SegmentVersion    = 1 // the newest
)

// FormatMoved is a bit of Cluster.Format: the log was moved to another place. No node
// starts on it any more, of this version or of an older one.
const FormatMoved = 1 << 30

// Moved reports whether the log was moved to another place.
func (c *Cluster) Moved() bool { return c.Format&FormatMoved != 0 }

// Version returns the version that is in use, also of a log that was moved.
func (c *Cluster) Version() uint32 { return max(c.Format&^FormatMoved, SegmentVersionMin) }

// CheckFormat fails with storage.ErrFormat if this version cannot read the segments of a
// cluster, and with ErrMoved if the log was moved.
func (c *Cluster) CheckFormat() error {
	if c.Moved() {
		return ErrMoved
	}
	return c.CheckVersion()
}

// CheckVersion is CheckFormat for what may read a log that was moved.
func (c *Cluster) CheckVersion() error {
	if c.Version() > SegmentVersion {
		return fmt.Errorf("%w: the log has segments of version %d, but this version reads up to %d: use the newer program", storage.ErrFormat, c.Version(), SegmentVersion)
	}
	return nil
}

// CheckReads fails with storage.ErrFormat, and names the nodes, if registered nodes cannot
// read a version.
func CheckReads(nodes []NodeRecord, version uint32) error {
	var errs []error
	for i := range nodes {
		if n := &nodes[i]; n.Reads < version {
			errs = append(errs, fmt.Errorf("%w: node %s at %s reads up to version %d of segments, expected %d: upgrade its program and start it, or remove it with \"ostiary node remove %s\"",
				storage.ErrFormat, n.ID, n.Address, n.Reads, version, n.ID))
		}
	}
	return errors.Join(errs...)
}
