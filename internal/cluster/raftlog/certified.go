package raftlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/internal/cluster/raftlog/wire"
)

// certified fails, with the code for the caller, unless the certificate of a call is that
// of the node that it names. Who calls for itself to join is no member yet: serveMembers
// checks its certificate. The members that this node knows may be old, so that a new member
// or another address of a member is looked up elsewhere before a call is refused.
func (n *Server) certified(ctx context.Context, from string) (codes.Code, error) {
	if n.opts.Certified == nil {
		return codes.OK, nil
	}
	address := addressOf(n.configuration(), from)
	named, err := n.opts.Certified(ctx, from, address)
	method, _ := grpc.Method(ctx)
	switch {
	case err == nil:
		return codes.OK, nil
	case named:
		return codes.PermissionDenied, err
	case address == "" && method == wire.Raft_Members_FullMethodName:
		return codes.OK, nil
	case n.certifiedPeer(ctx, from):
		return codes.OK, nil
	}
	now, errLook := n.lookUp(ctx, from)
	switch {
	case errLook != nil:
		return codes.Unavailable, fmt.Errorf("%w; %w", err, errLook)
	case now == "" || now == address:
		return codes.PermissionDenied, err
	}
	_, err = n.opts.Certified(ctx, from, now)
	return codes.PermissionDenied, err
}

// certifiedPeer reports whether this node knows no member yet, and the certificate of a call is
// for one of the addresses that came with its token. So a new node joins nodes whose program
// does not answer where a member is.
func (n *Server) certifiedPeer(ctx context.Context, from string) bool {
	return len(n.configuration()) == 0 && slices.ContainsFunc(n.opts.Peers, func(peer string) bool {
		_, err := n.opts.Certified(ctx, from, peer)
		return err == nil
	})
}

// addressOf returns the address of a member; "" if it is none.
func addressOf(members []Member, id string) string {
	if i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id }); i >= 0 {
		return members[i].Address
	}
	return ""
}

// lookUp asks the other nodes that this one knows for the address of a member; "" if it is
// none, and the one that this node knows if there is no other node to ask. It fails if none
// answers, if their answers differ, or while another call of it runs: a caller cannot make
// this node ask often.
func (n *Server) lookUp(ctx context.Context, id string) (string, error) {
	if !n.looking.TryLock() {
		return "", errors.New("the members are being looked up for another call")
	}
	defer n.looking.Unlock()
	request, err := msgpack.Marshal(&memberChange{Known: id})
	if err != nil {
		return "", err
	}
	ask := slices.Clone(n.opts.Peers)
	for _, m := range n.configuration() {
		if m.ID != id && m.ID != n.ID() {
			ask = append(ask, m.Address)
		}
	}
	if len(ask) == 0 {
		return addressOf(n.configuration(), id), nil
	}
	slices.Sort(ask)
	ask = slices.Compact(ask)
	ctx, cancel := context.WithTimeout(ctx, 2*n.opts.Heartbeat+time.Second)
	defer cancel()
	type answer struct {
		address string
		err     error
	}
	answers := make(chan answer, len(ask))
	for _, at := range ask {
		go func() {
			o, err := n.call(ctx, at, wire.RaftClient.Members, request)
			if err == nil {
				err = o.err()
			}
			answers <- answer{o.Text, err}
		}()
	}
	answered, found := false, ""
	errs := []error{fmt.Errorf("none of the nodes at %s has answered where the node is", strings.Join(ask, ", "))}
	for range ask {
		a := <-answers
		switch {
		case a.err != nil:
			errs = append(errs, a.err)
		case found != "" && a.address != "" && found != a.address:
			return "", fmt.Errorf("the other nodes do not agree where node %s is: at %s, or at %s", id, found, a.address)
		default:
			answered, found = true, cmp.Or(found, a.address)
		}
	}
	if !answered {
		return "", errors.Join(errs...)
	}
	return found, nil
}
