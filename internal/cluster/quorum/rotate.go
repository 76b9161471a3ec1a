package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/quorum/wire"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
)

// This file replaces the authority of the nodes' certificates while they run. Every node
// has its key, so who had the folder of a node, which was removed since, can make
// certificates until the authority is replaced. One node does it in three steps, each on all
// nodes before the next one begins: they trust both authorities; they make their
// certificates with the new one; they trust the new one alone. Whenever it stops, the nodes
// still trust the certificates of each other. A second attempt begins again with another
// authority, and with what all nodes trust then.

// ErrAway means that nodes do not answer, so that the authority cannot be replaced on all.
var ErrAway = errors.New("not all nodes answer")

// rotation is the attempt to replace the authority that a node takes part in.
type rotation struct {
	by   string    // the node that makes it
	last time.Time // when the node was asked last
}

// rotationTime is how long after its last step an attempt of another node keeps others out.
const rotationTime = time.Minute

// authorityRequest asks a node to trust Authorities alone, if there are any, and to make its
// certificates with Key, if there is one.
type authorityRequest struct {
	Authorities []byte `msgpack:"a,omitempty"`
	Key         []byte `msgpack:"k,omitempty"`
	Ends        bool   `msgpack:"e,omitempty"` // it is the last step
}

// authorityAnswer has the certificates of the authorities that a node trusts.
type authorityAnswer struct {
	Authorities []byte `msgpack:"a"`
}

// authorityService implements [wire.AuthorityServer]. Each message has msgpack.
type authorityService struct {
	wire.UnimplementedAuthorityServer
	quorum *Quorum
}

// Set implements [wire.AuthorityServer].
func (s authorityService) Set(ctx context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	from, err := s.quorum.node.Caller(ctx)
	if err != nil {
		return nil, err
	}
	var request authorityRequest
	if err := msgpack.Unmarshal(in.GetValue(), &request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	trusts, err := s.quorum.setAuthority(ctx, from, &request)
	if err != nil {
		s.quorum.opts.Log.Warn("another node cannot replace the authority of this one", "node", from, "error", err)
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	b, err := msgpack.Marshal(&authorityAnswer{trusts})
	return wrapperspb.Bytes(b), err
}

// setAuthority makes one step of the attempt of a node on this one, and returns the
// authorities that it trusts.
func (q *Quorum) setAuthority(ctx context.Context, by string, r *authorityRequest) ([]byte, error) {
	if q.opts.Files != nil {
		return nil, errors.New("the certificates of the node are those of --nodes-certificate: replace their authority as docs/cluster.md describes")
	}
	q.authority.Lock()
	defer q.authority.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err // the other node has gone on without the answer
	}
	if q.rotation.by != by && time.Since(q.rotation.last) < rotationTime {
		return nil, fmt.Errorf("node %s replaces the authority: expected a pause of %s after its attempt", q.rotation.by, rotationTime)
	}
	q.rotation = rotation{by, time.Now()}
	if len(r.Authorities) > 0 {
		if err := q.useAuthority(certificate.Pair{Certificate: r.Authorities, Key: r.Key}); err != nil {
			return nil, err
		}
	}
	if r.Ends {
		q.rotation = rotation{}
	}
	have, err := readPair(q.opts.Folder, authorityName, authorityKeyName)
	return have.Certificate, err
}

// useAuthority makes this node trust the authorities of a pair alone, and make its
// certificates with its key, if there is one. The caller holds q.authority.
func (q *Quorum) useAuthority(next certificate.Pair) error {
	authority, err := replaceAuthority(q.opts.Folder, next)
	if err != nil {
		return err
	}
	if err := q.transport.Reload(); err != nil {
		return err
	}
	if q.files.Fingerprint() != authority.Fingerprint() {
		if err := q.issue(authority); err != nil {
			return err
		}
		q.transport.Renew() // before other nodes close what was opened with the old certificate
	}
	if err := certificate.Replace(q.file(authorityName), next.Certificate, 0o644); err != nil {
		return err
	}
	return q.transport.Reload()
}

// Rotated is what [Quorum.Rotate] has done.
type Rotated struct {
	// Authority is the name of the new authority.
	Authority string
	// Nodes are the ids of the nodes that have it.
	Nodes []string
	// Away are those of the nodes that do not.
	Away []string
}

// Rotate replaces the authority of all nodes. If a node does not answer, it fails with
// ErrAway and changes nothing, unless away is true: then nodes that do not answer are left
// behind, and each needs a token to come back.
func (q *Quorum) Rotate(ctx context.Context, away bool) (done Rotated, err error) {
	if q.opts.Files != nil {
		_, err := q.setAuthority(ctx, q.node.ID(), &authorityRequest{})
		return done, err
	}
	if !q.rotating.TryLock() {
		return done, errors.New("this node replaces the authority already")
	}
	defer q.rotating.Unlock()
	now := time.Now()
	authority, pair, err := certificate.NewAuthority(now, now.AddDate(authorityYears, 0, 0))
	if err != nil {
		return done, err
	}
	done.Authority = authority.Name()
	members, err := q.node.Members()
	if err != nil {
		return done, err
	}
	var trusted [][]byte
	var errs []error
	missing := map[string]bool{}
	for _, a := range q.each(ctx, members, &authorityRequest{}) {
		if a.err != nil {
			missing[a.ID] = true
			errs = append(errs, a.err)
			continue
		}
		trusted = append(trusted, a.trusts)
	}
	if len(errs) > 0 && (!away || missing[q.node.ID()]) {
		return done, fmt.Errorf("%w, and nothing was changed: %w", ErrAway, errors.Join(errs...))
	}
	all, err := certificate.Join(append(trusted, pair.Certificate)...)
	if err != nil {
		return done, err
	}
	for _, step := range []struct {
		request authorityRequest
		failed  string
	}{
		{authorityRequest{Authorities: all}, "no node uses the new authority yet"},
		{authorityRequest{Authorities: all, Key: pair.Key}, "all nodes trust the old and the new authority"},
		{authorityRequest{Authorities: pair.Certificate, Key: pair.Key, Ends: true}, "some nodes still trust the old authority"},
	} {
		if members, err = q.node.Members(); err != nil { // one may have joined
			return done, err
		}
		done.Nodes, done.Away, errs = nil, nil, nil
		for _, a := range q.each(ctx, members, &step.request) {
			switch {
			case a.err == nil:
				done.Nodes = append(done.Nodes, a.ID)
			case missing[a.ID]:
				done.Away = append(done.Away, a.ID)
			default:
				errs = append(errs, a.err)
			}
		}
		if len(errs) == 0 && len(step.request.Key) > 0 && !step.request.Ends {
			select {
			case <-time.After(settleTime):
			case <-ctx.Done():
				errs = append(errs, ctx.Err())
			}
		}
		if len(errs) > 0 {
			return done, fmt.Errorf("%s, because a node has stopped to answer; run the command again: %w", step.failed, errors.Join(errs...))
		}
	}
	q.opts.Log.Info("replaced the authority of the nodes", "authority", done.Authority, "nodes", len(done.Nodes), "away", strings.Join(done.Away, ", "))
	return done, nil
}

// answered is the answer of a member to a step.
type answered struct {
	raftlog.Member
	trusts []byte
	err    error
}

// stepTime bounds what a node takes for a step.
const stepTime = 5 * time.Second

// settleTime is how long calls have to end whose connection was opened with a certificate of
// the old authority.
const settleTime = time.Second

// each makes a step on all members, this one last, and returns their answers.
func (q *Quorum) each(ctx context.Context, members []raftlog.Member, r *authorityRequest) []answered {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	answers := make(chan answered, len(members))
	var own raftlog.Member
	for _, m := range members {
		if m.ID == q.node.ID() {
			own = m
			continue
		}
		go func() {
			trusts, err := q.askMember(ctx, m, r)
			if status.Code(err) == codes.Unimplemented {
				err = errors.New("its program is older: upgrade it")
			}
			if err != nil {
				err = fmt.Errorf("node %s at %s: %w", m.ID, m.Address, err)
			}
			answers <- answered{m, trusts, err}
		}()
	}
	var all []answered
	for len(all) < len(members)-1 {
		all = append(all, <-answers)
	}
	trusts, err := q.setAuthority(context.WithoutCancel(ctx), q.node.ID(), r)
	return append(all, answered{own, trusts, err})
}

// askMember makes a step on another node. It asks again if the connection ends, as it does
// when the node no longer trusts the certificate that it was opened with.
func (q *Quorum) askMember(ctx context.Context, m raftlog.Member, r *authorityRequest) ([]byte, error) {
	b, err := msgpack.Marshal(r)
	if err != nil {
		return nil, err
	}
	conn, err := q.node.Dial(ctx, m.Address)
	if err != nil {
		return nil, err
	}
	var out *wrapperspb.BytesValue
	for {
		if out, err = wire.NewAuthorityClient(conn).Set(ctx, wrapperspb.Bytes(b), grpc.WaitForReady(true)); status.Code(err) != codes.Unavailable {
			break
		}
		select {
		case <-time.After(enterPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("it does not answer within %s: %w", stepTime, err)
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("it does not answer within %s", stepTime)
	}
	if err != nil {
		return nil, err
	}
	var a authorityAnswer
	err = msgpack.Unmarshal(out.GetValue(), &a)
	return a.Authorities, err
}
