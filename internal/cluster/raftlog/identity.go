package raftlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// ErrRefused means that a node may not take part in a log: it belongs to another one,
// was removed, has the id or the address of another node, or has a version that the
// others do not speak. For use with errors.Is.
var ErrRefused = errors.New("node is refused")

// The versions of the calls between nodes that this package speaks. Nodes whose ranges
// have no version in common refuse each other.
const (
	VersionMin = 1
	VersionMax = 1
)

// The headers of each call. The consensus itself knows servers by their addresses alone,
// and an address can have another node than before.
const (
	headerCluster    = "ostiary-log"
	headerFrom       = "ostiary-log-from"
	headerTo         = "ostiary-log-to"
	headerVersionMin = "ostiary-log-version-min"
	headerVersionMax = "ostiary-log-version-max"
)

// keyCluster is the key of the name of the log.
var keyCluster = []byte("ostiary-cluster")

// clusterName returns the name of the log of a folder; "" for a new one.
func clusterName(s *store) (string, error) {
	b, err := s.Get(keyCluster)
	return string(b), err
}

// joinCluster sets the name of the log in a new folder.
func (n *Server) joinCluster() error {
	want := n.opts.Cluster
	switch {
	case n.cluster != "" && want != "" && n.cluster != want && !n.opts.First:
		return fmt.Errorf("%w: the folder belongs to log %s, expected %s", ErrRefused, n.cluster, want)
	case n.cluster != "":
		return nil
	case n.opts.First:
		want = randomID()
	case want == "":
		return errors.New("the folder is new: expected First, or the Cluster that the node joins")
	}
	n.cluster = want
	return n.entries.Set(keyCluster, []byte(want))
}

// Cluster returns the random name of the log, which the first node chooses. [Recover]
// changes it, so that nodes from before refuse to go on.
func (n *Server) Cluster() string { return n.cluster }

// outgoing returns ctx with the headers of a call to the node at an address.
func (n *Server) outgoing(ctx context.Context, address string) context.Context {
	to := ""
	for _, s := range n.configuration() {
		if s.Address == address {
			to = s.ID
		}
	}
	low, high := n.versions()
	return metadata.AppendToOutgoingContext(ctx, headerCluster, n.cluster, headerFrom, n.ID(), headerTo, to,
		headerVersionMin, strconv.Itoa(low), headerVersionMax, strconv.Itoa(high))
}

func (n *Server) versions() (low, high int) {
	if n.opts.versionMax != 0 {
		return n.opts.versionMax, n.opts.versionMax
	}
	return VersionMin, VersionMax
}

// configuration returns the members; none while the node is being opened.
func (n *Server) configuration() []Member {
	if !isClosed(n.opened) {
		return nil
	}
	members, _ := n.Members()
	return members
}

// admitted returns the id of the node that calls, or a status with ErrRefused.
func (n *Server) admitted(ctx context.Context) (from string, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	value := func(name string) string {
		if v := md.Get(name); len(v) == 1 {
			return v[0]
		}
		return ""
	}
	from = value(headerFrom)
	refuseWith := func(code codes.Code, why string) (string, error) {
		n.opts.Log.Warn("a call of another node is refused", "node", from, "why", why)
		return from, status.Error(code, why)
	}
	refuse := func(format string, args ...any) (string, error) {
		return refuseWith(codes.PermissionDenied, fmt.Sprintf(format, args...))
	}
	low, high := n.versions()
	theirLow, errLow := strconv.Atoi(value(headerVersionMin))
	theirHigh, errHigh := strconv.Atoi(value(headerVersionMax))
	switch to := value(headerTo); {
	case from == "" || errLow != nil || errHigh != nil:
		return refuse("the call names no node and no version")
	case theirHigh < low || theirLow > high:
		age := "newer"
		if theirHigh < low {
			age = "older"
		}
		return refuse("node %s is %s: it speaks versions %d to %d of the log between nodes, node %s versions %d to %d", from, age, theirLow, theirHigh, n.id, low, high)
	case value(headerCluster) != n.cluster:
		return refuse("node %s belongs to log %s, and node %s to log %s: to another cluster, or to the same one before or after \"ostiary node recover\"", from, value(headerCluster), n.id, n.cluster)
	case from == n.ID():
		return refuse("node %s calls itself: a data folder was copied", from)
	case to != "" && to != n.ID():
		return refuse("node %s looks for node %s at this address, and this is node %s: remove the node that is gone", from, to, n.id)
	case isClosed(n.opened) && n.gone(from):
		return refuse(removedText, from)
	}
	if code, err := n.certified(ctx, from); err != nil {
		return refuseWith(code, err.Error())
	}
	return from, nil
}

// gone reports whether a server was removed. Until it has left the members, a majority may
// need it.
func (n *Server) gone(server string) bool {
	return n.machine.wasRemoved(server) && !n.isMember(server)
}

// removedText is what a removed node gets.
const removedText = "node %s was removed"

// refused returns the error of a call to another node. A node that was removed fails.
func (n *Server) refused(err error) error {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.PermissionDenied {
		return err
	}
	err = fmt.Errorf("%w: %s", ErrRefused, s.Message())
	if s.Message() == fmt.Sprintf(removedText, n.id) {
		n.fail(err)
	}
	return err
}

// fail makes the node take part no longer.
func (n *Server) fail(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failed == nil {
		n.failed = why
		n.opts.Log.Error("the node takes part in the log no longer", "error", why)
	}
}

// failDisk makes the node take part no longer because of its disk, and cuts it off: what
// it would still send or answer may not be what is on the disk.
func (n *Server) failDisk(why error) {
	n.mu.Lock()
	if n.disk == nil {
		n.disk = why
		close(n.broken)
	}
	n.mu.Unlock()
	n.fail(why)
	n.cancel()
}

func (n *Server) diskFailed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.disk
}

// Failed returns why the node can take part no longer, or nil. A removed node does not hear it
// from the others, which do not call it any more: without a leader it does not call them.
func (n *Server) Failed() error {
	// A machine that is being restored is busy for some time. It is asked again then.
	if isClosed(n.opened) && n.machine.mu.TryRLock() {
		removed := n.machine.servers[n.ID()] == serverRemoved
		n.machine.mu.RUnlock()
		if removed && !n.isMember(n.ID()) {
			n.fail(fmt.Errorf("%w: "+removedText, ErrRefused, n.id))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

// clientStream is a stream to another node, whose errors are those of refused.
type clientStream struct {
	grpc.ClientStream
	node *Server
}

// RecvMsg implements [grpc.ClientStream].
func (s clientStream) RecvMsg(m any) error { return s.node.refused(s.ClientStream.RecvMsg(m)) }
