package raftlog

import (
	"fmt"
	"sync"
	"time"

	consensus "github.com/hashicorp/raft"
)

// transport carries the messages of the consensus. It differs from the one of the library in
// its pipelines, and in how long it asks a node to lead. After a follower has refused an
// entry, the library reads no more answers, and may still send: its own pipeline then waits
// for both for ever, the follower gets no more entries from this leader although heartbeats
// keep it from an election, and the node cannot be closed.
type transport struct {
	*consensus.NetworkTransport
	leadTime time.Duration // how long TimeoutNow waits
}

// TimeoutNow implements [consensus.Transport]. Meanwhile the leader takes no entries, so it
// does not wait as long as for other answers: the node may have been halted.
func (t *transport) TimeoutNow(id consensus.ServerID, target consensus.ServerAddress, args *consensus.TimeoutNowRequest, resp *consensus.TimeoutNowResponse) error {
	var own consensus.TimeoutNowResponse
	answer := make(chan error, 1)
	go func() { answer <- t.NetworkTransport.TimeoutNow(id, target, args, &own) }()
	select {
	case err := <-answer:
		*resp = own
		return err
	case <-time.After(t.leadTime):
		return fmt.Errorf("node %s, which is to lead, did not answer within %s", id, t.leadTime)
	}
}

// AppendEntriesPipeline implements [consensus.Transport].
func (t *transport) AppendEntriesPipeline(id consensus.ServerID, target consensus.ServerAddress) (consensus.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(p), nil
}

// pipeline keeps the answers of another one until they are read.
type pipeline struct {
	consensus.AppendPipeline
	answers chan consensus.AppendFuture
	closing sync.Once
	closed  chan struct{}
}

func newPipeline(of consensus.AppendPipeline) *pipeline {
	p := &pipeline{AppendPipeline: of, answers: make(chan consensus.AppendFuture), closed: make(chan struct{})}
	go p.pass()
	return p
}

// pass reads the answers. Only the sender bounds how many are kept: it has few requests
// under way, and stops soon after nobody reads.
func (p *pipeline) pass() {
	var kept []consensus.AppendFuture
	for {
		var next consensus.AppendFuture
		var answers chan consensus.AppendFuture // nil, which takes nothing, if none is kept
		if len(kept) > 0 {
			next, answers = kept[0], p.answers
		}
		select {
		case f := <-p.AppendPipeline.Consumer():
			kept = append(kept, f)
		case answers <- next:
			kept = kept[1:]
		case <-p.closed:
			return
		}
	}
}

// Consumer implements [consensus.AppendPipeline].
func (p *pipeline) Consumer() <-chan consensus.AppendFuture { return p.answers }

// Close implements [consensus.AppendPipeline].
func (p *pipeline) Close() error {
	p.closing.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}
