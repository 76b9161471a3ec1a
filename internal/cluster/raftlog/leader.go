package raftlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/internal/cluster/raftlog/wire"
)

// ErrNoLeader means that no node leads, so that nothing can be decided.
var ErrNoLeader = errors.New("no node leads those that keep the log")

// leaderTime is how long AwaitLeader waits for a leader, and answerTime how long it waits for
// the answers of the members after that.
const (
	leaderTime = 3500 * time.Millisecond
	answerTime = time.Second
)

// AwaitLeader returns when a majority has confirmed that a node leads. If none leads within a
// few seconds, it fails with ErrNoLeader, and names the members that answer this node, and
// those that do not.
func (n *Server) AwaitLeader(ctx context.Context) error {
	l := n.Log()
	defer l.Close()
	limited, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	_, err := l.confirm(limited)
	if err == nil || limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	members, err := n.Members()
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrNoLeader, n.whoAnswers(ctx, members))
}

// whoAnswers asks all members at once, and returns what is known about each.
func (n *Server) whoAnswers(ctx context.Context, members []Member) string {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	texts := make([]string, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() {
			texts[i] = fmt.Sprintf("node %s at %s answers", m.ID, m.Address)
			if _, err := n.processOf(ctx, m, wire.RaftClient.Term); err != nil {
				texts[i] = fmt.Sprintf("node %s at %s does not answer (%s)", m.ID, m.Address, status.Convert(err).Message())
			}
			if !m.Voter {
				texts[i] += ", and does not vote"
			}
		})
	}
	asked.Wait()
	return strings.Join(texts, "; ")
}
