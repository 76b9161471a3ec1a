package raftlog_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
)

// valve holds back what the connections of the consensus receive, while it is shut.
type valve struct {
	mu   sync.Mutex
	shut chan struct{} // closed when what is held goes on; nil while nothing is held
	held int           // messages that wait or have waited
}

// streams is a grpc.StreamClientInterceptor.
func (v *valve) streams(ctx context.Context, desc *grpc.StreamDesc, c *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, c, method, o...)
	if err != nil || !strings.HasSuffix(method, "/Connect") {
		return s, err
	}
	return valved{s, v}, nil
}

type valved struct {
	grpc.ClientStream
	valve *valve
}

func (s valved) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.valve.pass()
	}
	return err
}

func (v *valve) pass() {
	v.mu.Lock()
	shut := v.shut
	if shut != nil {
		v.held++
	}
	v.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

func (v *valve) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = make(chan struct{})
}

func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.shut)
	v.shut = nil
}

func (v *valve) holds() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.held > 0
}

// TestOldAnswer asks a node whether it leads while an answer that a voter gave before is on
// its way. The voter has ended since, so the answer confirms nothing.
func TestOldAnswer(t *testing.T) {
	t.Parallel()
	f, v := newFleetOf(t, 1, 5*time.Second, nil), &valve{} // the leader goes on for some time although it hears nothing
	f.options = []grpc.DialOption{grpc.WithStreamInterceptor(v.streams)}
	f.start(1, "")
	f.add(f.nodes[1])
	f.append(0, 1)
	f.lead(0)
	if err := raftlog.VerifyLeader(f.ctx(), f.nodes[0].Server); err != nil {
		t.Fatalf("with all voters: %v", err)
	}
	v.close()
	wait.Until(t, "an answer is on its way", v.holds)
	f.cut(1)
	asked := make(chan error, 1)
	go func() { asked <- raftlog.VerifyLeader(f.ctx(), f.nodes[0].Server) }()
	var err error
	select {
	case err = <-asked:
		v.open()
	case <-time.After(300 * time.Millisecond): // the question was sent, unless it is refused at once
		v.open()
		err = <-asked
	}
	if err == nil {
		t.Error("an answer from before the question confirms that the node leads")
	}
	f.cut(-1)
}

// TestNoVoteConfirms cuts a leader off from the other voter: a server that does not vote
// cannot confirm that it leads.
func TestNoVoteConfirms(t *testing.T) {
	t.Parallel()
	f := newSteadyFleet(t, 2)
	f.start(2, "")
	m := raftlog.Member{ID: f.nodes[2].ID(), Address: f.nodes[2].address}
	if err := f.nodes[0].Add(f.ctx(), m); err != nil {
		t.Fatal(err)
	}
	f.check(1, f.append(0, 1))
	f.lead(0)
	f.cut(1)
	if err := raftlog.VerifyLeader(f.ctx(), f.nodes[0].Server); err == nil {
		t.Error("a server without a vote confirms that the node leads")
	}
	f.cut(-1)
}
