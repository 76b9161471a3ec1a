package raftlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	consensus "github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/raftlog/wire"
	"github.com/ostiary/ostiary/storage"
)

// VotersMax is the largest number of voters that [Server.Add] makes. Each further server
// only follows: with more voters each write waits for more disks.
const VotersMax = 5

// Member is a server of the consensus.
type Member struct {
	// ID is the id of the server.
	ID string
	// Address is where others reach it.
	Address string
	// Voter is true if the server's vote counts. A majority of the voters must be up.
	Voter bool
	// Leader is true for the leader.
	Leader bool
}

// Members returns the servers of the consensus, as this node knows them.
func (n *Server) Members() ([]Member, error) {
	f := n.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	_, leader := n.raft.LeaderWithID()
	var all []Member
	for _, s := range f.Configuration().Servers {
		all = append(all, Member{string(s.ID), string(s.Address), s.Suffrage == consensus.Voter, s.ID == leader})
	}
	return all, nil
}

// memberTimeout bounds one change of the members.
const memberTimeout = 10 * time.Second

// Add adds a server, or changes its address or whether it votes. A server that would be
// more than VotersMax voters does not vote. Only one change is made at a time. Any node
// can be asked; the leader makes the change.
func (n *Server) Add(ctx context.Context, m Member) error {
	if m.ID == "" || m.Address == "" {
		return fmt.Errorf("add a node: id %q, address %q: expected both", m.ID, m.Address)
	}
	return n.changeMembers(ctx, &memberChange{Add: m})
}

// AddSelf adds this node, or changes its address or whether it votes, through the node
// at another address: for a node that does not know the leader yet. It fails with
// ErrRefused if the node was not admitted by a token, or was removed, or if another process
// with its id answers at the address that it had.
func (n *Server) AddSelf(ctx context.Context, through string, voter bool) error {
	b, err := msgpack.Marshal(&memberChange{Add: Member{ID: n.ID(), Address: n.opts.Address, Voter: voter}, Process: n.process})
	if err != nil {
		return err
	}
	o, err := n.call(ctx, through, wire.RaftClient.Members, b)
	if err == nil {
		err = o.err()
	}
	if err != nil {
		return fmt.Errorf("node at %s: %w", through, err)
	}
	return nil
}

// Remove removes a server: no other one listens to it from then on, and it cannot come
// back without a new token. It fails for the last voter.
func (n *Server) Remove(ctx context.Context, id string) error {
	return n.changeMembers(ctx, &memberChange{Remove: id})
}

// TakeLead makes this node lead, if it is a voter: what it appends then needs no other
// node to pass it on. It does nothing if the node leads already.
func (n *Server) TakeLead(ctx context.Context) error {
	return n.changeMembers(ctx, &memberChange{Lead: n.ID()})
}

// memberChange is a change of the servers: Remove or Lead if it is not "", otherwise
// Add.
type memberChange struct {
	Add    Member `msgpack:"a"`
	Remove string `msgpack:"r"`
	Lead   string `msgpack:"l,omitempty"` // the server that is to lead
	// Process is the process of a server that adds itself; see serveTerm.
	Process string `msgpack:"i,omitempty"`
	// PassedOn is true if the node that was asked does not lead, and asks the leader.
	PassedOn bool `msgpack:"p,omitempty"`
	// Known asks for the address of a member instead, which is the text of the outcome.
	Known string `msgpack:"k,omitempty"`
}

// changeMembers makes a change of the servers on the leader.
func (n *Server) changeMembers(ctx context.Context, c *memberChange) error {
	c.PassedOn = true
	b, err := msgpack.Marshal(c)
	if err != nil {
		return err
	}
	_, err = n.ask(ctx, nil, func(ctx context.Context) outcome { return outcomeOf(n.makeChange(ctx, c)) }, func(ctx context.Context, address string) (outcome, error) {
		return n.callAgain(ctx, address, wire.RaftClient.Members, b)
	})
	return err
}

// serveMembers makes a change for another server, which is a member or joins.
func (n *Server) serveMembers(ctx context.Context, from string, request []byte) outcome {
	var c memberChange
	if err := msgpack.Unmarshal(request, &c); err != nil {
		return outcomeOf(fmt.Errorf("%w: change of members: %w", storage.ErrDamaged, err))
	}
	if c.Known != "" {
		return n.serveKnown(from, c.Known)
	}
	if len(c.Add.ID) > ServerBytesMax || len(c.Add.Address) > AddressBytesMax {
		return outcomeOf(fmt.Errorf("%w: the id of node %.80s has %d bytes and its address %d, expected at most %d (ServerBytesMax) and %d (AddressBytesMax)",
			ErrRefused, c.Add.ID, len(c.Add.ID), len(c.Add.Address), ServerBytesMax, AddressBytesMax))
	}
	if !c.PassedOn {
		// A node that joins, or has moved, asks for itself, and this node answers for it.
		if c.Add.ID != from {
			return outcomeOf(fmt.Errorf("%w: node %s may change only itself", ErrRefused, from))
		}
		if err := n.mayJoin(ctx, from); err != nil {
			return outcomeOf(err)
		}
		if n.opts.Certified != nil {
			if _, err := n.opts.Certified(ctx, from, c.Add.Address); err != nil {
				return outcomeOf(fmt.Errorf("%w: %w", ErrRefused, err))
			}
		}
		return outcomeOf(n.changeMembers(ctx, &c))
	}
	if !n.isMember(from) {
		return outcomeOf(fmt.Errorf("%w: node %s is no member", ErrRefused, from))
	}
	return outcomeOf(n.makeChange(ctx, &c))
}

// serveKnown answers another member with the address of a member.
func (n *Server) serveKnown(from, id string) outcome {
	members, err := n.Members()
	if err == nil && addressOf(members, from) == "" {
		err = fmt.Errorf("%w: node %s is no member", ErrRefused, from)
	}
	if err != nil {
		return outcomeOf(err)
	}
	return outcome{Text: addressOf(members, id)}
}

func (n *Server) isMember(id string) bool {
	members, err := n.Members()
	return err == nil && addressOf(members, id) != ""
}

// mayJoin fails with ErrRefused unless a server is a member, or was admitted.
func (n *Server) mayJoin(ctx context.Context, id string) error {
	state := serverUnknown
	l := n.Log()
	defer l.Close()
	if _, err := l.look(ctx, func(m *machine) { state = m.servers[id] }); err != nil {
		return err
	}
	switch {
	case state == serverAdmitted || n.isMember(id):
		return nil
	case state == serverRemoved:
		return fmt.Errorf("%w: "+removedText, ErrRefused, id)
	}
	return fmt.Errorf("%w: node %s was not admitted by a token", ErrRefused, id)
}

// makeChange makes a change on the leader. The caller asks the next leader if this one ends in
// the middle: a change may be made twice.
func (n *Server) makeChange(ctx context.Context, c *memberChange) error {
	err := n.makeChangeOnce(ctx, c)
	if errors.Is(err, consensus.ErrLeadershipLost) {
		err = fmt.Errorf("%w: %w", errNotLeader, err)
	}
	return err
}

func (n *Server) makeChangeOnce(ctx context.Context, c *memberChange) error {
	if !n.Leader() {
		return errNotLeader
	}
	members, err := n.Members()
	if err != nil {
		return err
	}
	voters, found := 0, Member{ID: c.Add.ID}
	for _, m := range members {
		if m.Voter {
			voters++
		}
		if m.ID == c.Add.ID || m.ID == c.Remove || m.ID == c.Lead {
			found = m
		}
	}
	if c.Process != "" && found.Address != "" && found.Address != c.Add.Address {
		if err := n.runsOnce(ctx, found, c); err != nil {
			return err
		}
	}
	if err := n.checkAddress(ctx, members, c.Add); err != nil {
		return err
	}
	switch id, address := consensus.ServerID(c.Add.ID), consensus.ServerAddress(c.Add.Address); {
	case c.Lead == n.ID():
		return nil
	case c.Lead != "":
		if !found.Voter {
			return fmt.Errorf("node %s does not vote, so it cannot lead", c.Lead)
		}
		return n.transfer(ctx, found)
	case c.Remove != "":
		return n.remove(ctx, c.Remove, found, voters)
	case c.Add.Voter && (found.Voter || voters < VotersMax):
		return n.await(ctx, func() consensus.Future { return n.raft.AddVoter(id, address, 0, memberTimeout) })
	case found.Voter && voters == 1:
		return fmt.Errorf("node %s: it is the last voter", c.Add.ID)
	case found.Voter:
		if err := n.await(ctx, func() consensus.Future { return n.raft.DemoteVoter(id, 0, memberTimeout) }); err != nil {
			return err
		}
		fallthrough
	default:
		return n.await(ctx, func() consensus.Future { return n.raft.AddNonvoter(id, address, 0, memberTimeout) })
	}
}

// CheckAddress fails if a server that wants to be a member has the address of another one:
// with ErrRefused if that one answers there.
func (n *Server) CheckAddress(ctx context.Context, m Member) error {
	members, err := n.Members()
	if err != nil {
		return err
	}
	return n.checkAddress(ctx, members, m)
}

// checkAddress is CheckAddress with the members. It does nothing without an address.
func (n *Server) checkAddress(ctx context.Context, members []Member, m Member) error {
	for _, have := range members {
		if have.ID == m.ID || have.Address != m.Address {
			continue
		}
		if _, err := n.processOf(ctx, have, wire.RaftClient.Term); err != nil {
			return fmt.Errorf("node %s cannot be at %s, the address of node %s, which does not answer: choose another address, or remove node %s", m.ID, m.Address, have.ID, have.ID)
		}
		return fmt.Errorf("%w: node %s cannot be at %s, because node %s is there: choose another address", ErrRefused, m.ID, m.Address, have.ID)
	}
	return nil
}

// processOf returns the process that answers as a member at its address, whose term is asked
// for. It fails if none does.
func (n *Server) processOf(ctx context.Context, m Member, term unary) (string, error) {
	if m.ID == n.ID() {
		return n.process, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*n.opts.Heartbeat)
	defer cancel()
	o, err := n.call(ctx, m.Address, term, nil)
	return o.Process, err
}

// termOnceConnected asks for the term of a node, and waits for the connection to it.
func termOnceConnected(to wire.RaftClient, ctx context.Context, request *wrapperspb.BytesValue, options ...grpc.CallOption) (*wrapperspb.BytesValue, error) {
	return to.Term(ctx, request, append(options, grpc.WaitForReady(true))...)
}

// runsOnce fails with ErrRefused if another process than the one that wants a new address
// for a server answers at the one that it has: a folder was copied, so two processes have
// its vote, and the one that asks may lack what the other one has confirmed.
func (n *Server) runsOnce(ctx context.Context, have Member, c *memberChange) error {
	// A connection that has failed fails at once until its next attempt, although the node may
	// have started meanwhile: so it is tried now, and waited for.
	if conn, err := n.opts.Dial(ctx, have.Address); err == nil {
		conn.ResetConnectBackoff()
	}
	if process, err := n.processOf(ctx, have, termOnceConnected); err != nil || process == c.Process {
		return nil // it has left that address, or is reached at both
	}
	return fmt.Errorf("%w: another process answers as node %s at %s, so it cannot be at %s: its data folder was copied; end one of the two, or join with a new folder", ErrRefused, have.ID, have.Address, c.Add.Address)
}

// transfer makes another voter lead. It fails soon after an attempt that has failed, see
// transferPause.
func (n *Server) transfer(ctx context.Context, to Member) error {
	n.mu.Lock()
	wait := time.Until(n.transferred[to.ID].Add(transferPause))
	n.mu.Unlock()
	if wait > 0 {
		return fmt.Errorf("node %s did not take the lead over: another attempt is made after %s", to.ID, wait.Round(time.Second))
	}
	err := n.await(ctx, func() consensus.Future {
		return n.raft.LeadershipTransferToServer(consensus.ServerID(to.ID), consensus.ServerAddress(to.Address))
	})
	if err != nil && !errors.Is(err, errNotLeader) {
		n.mu.Lock()
		n.transferred[to.ID] = time.Now()
		n.mu.Unlock()
	}
	return err
}

// transferPause is the time between two attempts to make a node lead. An attempt that has
// failed leaves a question for the node's replication, which may wait for an answer of the
// node meanwhile. While it does, a second attempt would make the consensus refuse all
// entries, and for ever if another node leads meanwhile: see hashicorp/raft, issue 696.
const transferPause = time.Minute

// remove removes a server on the leader. It loses its right to take part first, so that it
// knows that, and that an attempt that fails in between can be repeated: the server is still a
// member, and votes.
func (n *Server) remove(ctx context.Context, id string, found Member, voters int) error {
	switch {
	case found.Voter && voters == 1:
		return fmt.Errorf("remove node %s: it is the last voter", id)
	case id == n.ID():
		// The next leader removes it.
		if err := n.await(ctx, n.raft.LeadershipTransfer); err != nil {
			return fmt.Errorf("remove node %s, which leads: %w", id, err)
		}
		return errNotLeader
	}
	b, err := (&command{Operation: opDismiss, Server: id}).encode()
	if err == nil {
		_, err = n.propose(ctx, b)
	}
	if err != nil || found.Address == "" {
		return err
	}
	return n.await(ctx, func() consensus.Future { return n.raft.RemoveServer(consensus.ServerID(id), 0, memberTimeout) })
}
