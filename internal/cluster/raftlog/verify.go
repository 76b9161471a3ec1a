package raftlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	consensus "github.com/hashicorp/raft"

	"github.com/ostiary/ostiary/internal/cluster/raftlog/wire"
)

// roundsMax is how many questions whether it leads a node asks the voters at a time.
const roundsMax = 16

// round is one question of several calls.
type round struct {
	done chan struct{} // closed when err is set
	err  error
}

// verifyLeader returns once a majority has confirmed that this node leads: no other node had
// begun to lead at the time of the call.
func (n *Server) verifyLeader(ctx context.Context) error {
	n.mu.Lock()
	r := n.next
	if r == nil {
		r = &round{done: make(chan struct{})}
		if n.rounds < roundsMax {
			n.rounds++
			go n.verify(r)
		} else {
			n.next = r
		}
	}
	n.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return errEnded
	}
}

// verify asks for a round, and for those that wait meanwhile, until none does.
func (n *Server) verify(r *round) {
	for r != nil && n.ctx.Err() == nil {
		r.err = n.askVoters()
		close(r.done)
		n.mu.Lock()
		if r, n.next = n.next, nil; r == nil {
			n.rounds--
		}
		n.mu.Unlock()
	}
}

// askVoters returns once a majority of the voters has answered that no term is newer than
// the one in which this node leads. A node that leads in a newer term got the votes of a
// majority, and a voter takes the new term before it votes. So if another node led when the
// question was sent, one of the voters that answer it knows that term.
//
// VerifyLeader of the consensus does not prove this. It counts answers that arrive after the
// question, although the follower may have sent them before it, and then voted for another
// node. It also counts servers that do not vote.
func (n *Server) askVoters() error {
	term := n.raft.CurrentTerm()
	configuration := n.raft.GetConfiguration()
	if err := errors.Join(n.leadsIn(term), configuration.Error()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	voters, confirmed := 0, 0
	servers := configuration.Configuration().Servers
	answers := make(chan error, len(servers))
	for _, s := range servers {
		switch {
		case s.Suffrage != consensus.Voter:
			continue
		case s.ID == n.id:
			confirmed++
		default:
			go func() { answers <- n.askTerm(ctx, string(s.Address), term) }()
		}
		voters++
	}
	look := time.NewTicker(n.opts.Heartbeat)
	defer look.Stop()
	var failed []error
	for confirmed <= voters/2 {
		select {
		case err := <-answers:
			if err == nil {
				confirmed++
			} else if failed = append(failed, err); len(failed) >= voters-voters/2 {
				return fmt.Errorf("a majority does not confirm that this node leads: %w", errors.Join(failed...))
			}
		case <-look.C: // those that do not answer may follow another node by now
			if err := n.leadsIn(term); err != nil {
				return err
			}
		case <-ctx.Done():
			return errEnded
		}
	}
	return nil
}

// leadsIn returns why this node does not lead in a term, as far as it knows.
func (n *Server) leadsIn(term uint64) error {
	if state, now := n.raft.State(), n.raft.CurrentTerm(); state != consensus.Leader || now != term {
		return fmt.Errorf("%w: it is a %s in term %d", errNotLeader, strings.ToLower(state.String()), now)
	}
	return nil
}

// askTerm fails if the node at an address knows a newer term, or cannot be asked.
func (n *Server) askTerm(ctx context.Context, address string, term uint64) error {
	o, err := n.call(ctx, address, wire.RaftClient.Term, nil)
	if err == nil {
		err = o.err()
	}
	if err == nil && o.Term > term {
		err = fmt.Errorf("%w: the term is %d, and it leads in term %d", errNotLeader, o.Term, term)
	}
	if err != nil {
		return fmt.Errorf("node at %s: %w", address, err)
	}
	return nil
}

// serveTerm answers with the newest term that this node knows, and with its process.
func (n *Server) serveTerm() outcome {
	if !isClosed(n.opened) {
		return outcomeOf(errors.New("the node is being opened"))
	}
	return outcome{Term: n.raft.CurrentTerm(), Process: n.process}
}
