package sharedlog

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Settings are what all nodes of a cluster must have alike. The first node writes them
// into the description of the cluster. They are zero if no node has leases.
type Settings struct {
	// HolderLease is how long the lease of the node that writes lasts, and ReadLease how
	// long a read lease lasts.
	HolderLease, ReadLease time.Duration
	// Acknowledge is when a write is acknowledged.
	Acknowledge Acknowledge
}

// The leases of a new cluster.
const (
	HolderLeaseDefault = time.Second
	ReadLeaseDefault   = 700 * time.Millisecond
)

// DefaultSettings returns the settings of a new cluster.
func DefaultSettings() Settings {
	return Settings{HolderLease: HolderLeaseDefault, ReadLease: ReadLeaseDefault, Acknowledge: AcknowledgeLeased}
}

// Settle returns the settings of a node that needs s in a cluster that has settings, or
// none. A field of s that is zero is that of the cluster, or of DefaultSettings. Settle fails
// with [ErrSettings] if they differ.
func (s Settings) Settle(have Settings) (Settings, error) {
	all := s.Or(have).Or(DefaultSettings())
	if have != (Settings{}) && all != have {
		return all, fmt.Errorf("%w: %s", ErrSettings, all.Differences(have))
	}
	return all, all.Check()
}

// ErrSettings means that a node needs other settings than its cluster has. For use with
// errors.Is.
var ErrSettings = errors.New("settings of this node differ from those of the cluster")

// Acknowledge is when a write is acknowledged to its caller.
type Acknowledge uint8

// The values of Acknowledge. Logs contain the numbers.
const (
	// AcknowledgeLeased acknowledges a write when every node with a read lease shows it.
	// A read on any node then sees every write that was acknowledged before.
	AcknowledgeLeased Acknowledge = 1
	// AcknowledgeLocal acknowledges a write when the log has it and the node that writes
	// shows it. Other nodes show it a little later, and reads need no lease.
	AcknowledgeLocal Acknowledge = 2
)

// String returns leased or local, and "" for zero.
func (a Acknowledge) String() string {
	switch a {
	case AcknowledgeLeased:
		return "leased"
	case AcknowledgeLocal:
		return "local"
	case 0:
		return ""
	}
	return fmt.Sprintf("Acknowledge(%d)", uint8(a))
}

// ParseAcknowledge returns the value of which String returns a name.
func ParseAcknowledge(name string) (Acknowledge, error) {
	for _, a := range [...]Acknowledge{AcknowledgeLeased, AcknowledgeLocal} {
		if name == a.String() {
			return a, nil
		}
	}
	return 0, fmt.Errorf("invalid time of the acknowledgement %q: expected %s or %s", name, AcknowledgeLeased, AcknowledgeLocal)
}

// LeaseMax bounds both leases of [Settings]: writes wait for a node that is gone for as
// long.
const LeaseMax = time.Hour

// Check fails if a lease is not above 0 and at most LeaseMax, or if there is no such
// Acknowledge.
func (s Settings) Check() error {
	for _, of := range [...]struct {
		name  string
		lease time.Duration
	}{{"holder lease", s.HolderLease}, {"read lease", s.ReadLease}} {
		if of.lease <= 0 || of.lease > LeaseMax {
			return fmt.Errorf("invalid %s %s: expected above 0 and at most %s", of.name, of.lease, LeaseMax)
		}
	}
	if s.Acknowledge != AcknowledgeLeased && s.Acknowledge != AcknowledgeLocal {
		return fmt.Errorf("unknown time of the acknowledgement %d: expected %s or %s", s.Acknowledge, AcknowledgeLeased, AcknowledgeLocal)
	}
	return nil
}

// leaseMin is the shortest lease that an operator can set: a shorter one runs out while a
// node waits for a processor or a network.
const leaseMin = 300 * time.Millisecond

// Fit fails if the leases do not fit together: the holder lease is longer than the read
// lease, which it grants, and both are at least 300 ms. Settings that a cluster has already
// are not checked by it.
func (s Settings) Fit() error {
	if s.HolderLease <= s.ReadLease || s.ReadLease < leaseMin {
		return fmt.Errorf("invalid leases: holder lease %s, read lease %s: expected a holder lease longer than the read lease, and both at least %s", s.HolderLease, s.ReadLease, leaseMin)
	}
	return nil
}

// Or returns s with the fields of other in place of those that are zero.
func (s Settings) Or(other Settings) Settings {
	return Settings{cmp.Or(s.HolderLease, other.HolderLease), cmp.Or(s.ReadLease, other.ReadLease), cmp.Or(s.Acknowledge, other.Acknowledge)}
}

// Differences returns the settings that differ, with the values of both, for errors.
func (s Settings) Differences(cluster Settings) string {
	var all []string
	add := func(name string, own, other fmt.Stringer) {
		if own != other {
			all = append(all, fmt.Sprintf("%s %q, expected %q", name, own, other))
		}
	}
	add("holder lease", s.HolderLease, cluster.HolderLease)
	add("read lease", s.ReadLease, cluster.ReadLease)
	add("acknowledge", s.Acknowledge, cluster.Acknowledge)
	return strings.Join(all, "; ")
}
