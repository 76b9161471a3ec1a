package quorum

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/quorum/wire"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Token is what a new node needs to join: where the nodes are, how it knows them, and
// how they know it. Who has it can become a node of the cluster, once.
type Token struct {
	// Addresses are those of nodes.
	Addresses []string
	// Authority is the authority of their certificates.
	Authority certificate.Fingerprint
	// Secret is known to the log.
	Secret []byte
}

// tokenPrefix begins the text of a token of this version.
const tokenPrefix = "ostiary-join-1."

// addressesMax is how many addresses a token has at most.
const addressesMax = 5

// String returns the text of the token, which ParseToken reads. It is a secret.
func (t *Token) String() string {
	b := slices.Concat(t.Authority[:], t.Secret, []byte(strings.Join(t.Addresses, ",")))
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken reads the text of a token. It fails with raftlog.ErrToken.
func ParseToken(text string) (*Token, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), tokenPrefix)
	b, err := base64.RawURLEncoding.DecodeString(rest)
	t := &Token{}
	n := len(t.Authority)
	if !ok || err != nil || len(b) <= n+raftlog.TokenBytes {
		return nil, fmt.Errorf("%w: it is no token: expected the text that \"ostiary node token\" prints, which begins with %s", raftlog.ErrToken, tokenPrefix)
	}
	copy(t.Authority[:], b)
	t.Secret, t.Addresses = b[n:n+raftlog.TokenBytes], strings.Split(string(b[n+raftlog.TokenBytes:]), ",")
	return t, nil
}

// Token makes a token with which one node can join, until some time has passed.
func (q *Quorum) Token(ctx context.Context, valid time.Duration) (*Token, error) {
	secret, err := q.node.AddToken(ctx, valid)
	if err != nil {
		return nil, err
	}
	all := append([]string{q.opts.Address}, q.peers()...)
	return &Token{Addresses: all[:min(len(all), addressesMax)], Authority: q.files.Fingerprint(), Secret: secret}, nil
}

// joinRequest asks for the certificates of the cluster.
type joinRequest struct {
	Secret []byte `msgpack:"s"`
	Server string `msgpack:"i"` // id of the node
	Reads  uint32 `msgpack:"r"` // the newest version of the log that the node reads
	// Cluster is the name of the log that the folder of the node has; "" for a new folder.
	Cluster string `msgpack:"c,omitempty"`
	// Address is where other nodes will reach the node; "" from an older program.
	Address string `msgpack:"a,omitempty"`
}

// decode reads a request of a caller without a certificate. Unmarshal makes room for a length
// before it reads as many bytes, so all lengths are compared with the message first.
func (r *joinRequest) decode(b []byte) error {
	if err := msgpack.NewDecoder(bytes.NewReader(b)).Skip(); err != nil {
		return err
	}
	return msgpack.Unmarshal(b, r)
}

// joinAnswer is the answer. Who has it is a node of the cluster.
type joinAnswer struct {
	Cluster      string   `msgpack:"c"`
	Peers        []string `msgpack:"p"`
	Authority    []byte   `msgpack:"a,omitempty"` // nothing if the cluster has an authority of its own
	AuthorityKey []byte   `msgpack:"k,omitempty"`

	HolderLease time.Duration `msgpack:"h,omitempty"` // of the cluster
}

// joinService implements [wire.JoinServer]. Each message has msgpack.
type joinService struct {
	wire.UnimplementedJoinServer
	quorum *Quorum
}

// Join implements [wire.JoinServer]. Its answers name neither nodes nor addresses to a caller
// without a good token.
func (s joinService) Join(ctx context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	refuse := func(server string, code codes.Code, why error, text string) (*wrapperspb.BytesValue, error) {
		remote := ""
		if p, ok := peer.FromContext(ctx); ok {
			remote = p.Addr.String()
		}
		s.quorum.opts.Refused(remote, server, fmt.Errorf("a node that wants to join: %w", why))
		return nil, status.Error(code, text)
	}
	var request joinRequest
	if err := request.decode(in.GetValue()); err != nil {
		return refuse("", codes.InvalidArgument, err, "the request is no msgpack of a request to join")
	}
	id, err := storage.ParseNodeID(request.Server)
	if err != nil {
		err = fmt.Errorf("its id has %d characters, expected 32 hexadecimal digits", len(request.Server))
		return refuse("", codes.InvalidArgument, err, err.Error())
	}
	answer, err := s.quorum.admit(ctx, id, &request)
	switch {
	case errors.Is(err, raftlog.ErrToken):
		return refuse(id.String(), codes.PermissionDenied, err, err.Error())
	case errors.Is(err, storage.ErrFormat):
		return refuse(id.String(), codes.FailedPrecondition, err, err.Error())
	case errors.Is(err, raftlog.ErrRefused):
		return refuse(id.String(), codes.NotFound, err, err.Error())
	case err != nil:
		return refuse(id.String(), codes.Unavailable, err, "the node cannot use the token now, and its log has the reason: it may wait for the other nodes")
	}
	b, err := msgpack.Marshal(answer)
	return wrapperspb.Bytes(b), err
}

// admit uses the token of a node that joins, if it reads the log: otherwise nothing
// changes.
func (q *Quorum) admit(ctx context.Context, id storage.NodeID, r *joinRequest) (*joinAnswer, error) {
	if err := q.node.Admit(ctx, r.Secret, id.String(), func() error { return q.checkJoins(ctx, id, r) }); err != nil {
		return nil, err
	}
	a := &joinAnswer{Cluster: q.node.Cluster(), Peers: append([]string{q.opts.Address}, q.peers()...), HolderLease: q.node.HolderLease()}
	if q.opts.Files == nil {
		pair, err := readPair(q.opts.Folder, authorityName, authorityKeyName)
		if err != nil {
			return nil, err
		}
		a.Authority, a.AuthorityKey = pair.Certificate, pair.Key
	}
	q.opts.Log.Info("a node joins", "node", id)
	return a, nil
}

// checkJoins fails unless the program of a node with a good token reads the version of the log
// of the cluster, its folder is new or belongs to the log, and no other node is at its address.
func (q *Quorum) checkJoins(ctx context.Context, id storage.NodeID, r *joinRequest) error {
	if r.Cluster != "" && r.Cluster != q.node.Cluster() {
		return otherCluster(r.Cluster, q.node.Cluster())
	}
	if r.Address != "" {
		if err := q.node.CheckAddress(ctx, raftlog.Member{ID: id.String(), Address: r.Address}); errors.Is(err, raftlog.ErrRefused) {
			return err // the node waits for other reasons once it has joined
		}
	}
	log := q.node.Log()
	defer log.Close()
	cluster, err := log.Cluster(ctx)
	if err == nil && r.Reads < cluster.Version() {
		err = fmt.Errorf("%w: the cluster uses version %d of the log, but the program of node %s reads up to %d: use the newer program", storage.ErrFormat, cluster.Version(), id, r.Reads)
	}
	return err
}

// joinTime bounds an attempt to join through one node.
const joinTime = 15 * time.Second

// join uses the token of this node, which gets the name of the log and the certificates.
func (q *Quorum) join(ctx context.Context) error {
	token, err := ParseToken(q.opts.Join)
	if err != nil {
		return err
	}
	// A token is used by a node, so that the node can ask again.
	if err := q.state.write(q.opts.Folder); err != nil {
		return err
	}
	answer, err := q.askAll(ctx, token)
	if err != nil {
		return err
	}
	q.state.Cluster, q.state.Peers, q.state.HolderLease = answer.Cluster, answer.Peers, answer.HolderLease
	switch {
	case len(answer.AuthorityKey) > 0 && q.opts.Files != nil:
		return errors.New("the nodes of the cluster make their certificates themselves: expected a node without certificates of its own")
	case len(answer.AuthorityKey) > 0:
		return writePair(q.opts.Folder, authorityName, authorityKeyName, certificate.Pair{Certificate: answer.Authority, Key: answer.AuthorityKey})
	case q.opts.Files == nil:
		return errors.New("the nodes of the cluster have certificates of another authority: expected a certificate for this node")
	}
	return nil
}

// otherCluster is the error of a folder with the token of another cluster.
func otherCluster(folder, token string) error {
	return fmt.Errorf("%w: the folder belongs to log %s, and the token is of a node of log %s, another cluster: expected a new, empty folder, or no token", raftlog.ErrRefused, folder, token)
}

// rejoin gets the authority of the cluster with a token, for a folder that has joined: the
// authority was replaced while the node was away. It does nothing if the folder already
// trusts that authority. It fails with raftlog.ErrRefused if the token is of another cluster.
func (q *Quorum) rejoin(ctx context.Context) error {
	token, err := ParseToken(q.opts.Join)
	if err != nil {
		return err
	}
	have, err := readPair(q.opts.Folder, authorityName, authorityKeyName)
	if err != nil || certificate.Contains(have.Certificate, token.Authority) {
		return err
	}
	answer, err := q.askAll(ctx, token)
	switch {
	case err != nil:
		return err
	case answer.Cluster != q.state.Cluster:
		return otherCluster(q.state.Cluster, answer.Cluster)
	case len(answer.AuthorityKey) == 0:
		return errors.New("the nodes of the cluster have certificates of another authority")
	}
	q.state.Peers = answer.Peers
	if _, err := replaceAuthority(q.opts.Folder, certificate.Pair{Certificate: answer.Authority, Key: answer.AuthorityKey}); err != nil {
		return err
	}
	q.opts.Log.Info("got the new authority of the cluster with the token")
	return certificate.Replace(q.file(authorityName), answer.Authority, 0o644) // ownFiles makes the certificate
}

// askAll asks the nodes of a token, until one answers.
func (q *Quorum) askAll(ctx context.Context, token *Token) (*joinAnswer, error) {
	request := &joinRequest{token.Secret, q.state.ID.String(), sharedlog.SegmentVersion, q.state.Cluster, q.opts.Address}
	var errs []error
	for _, at := range token.Addresses {
		answer, err := token.ask(ctx, at, request)
		if err != nil {
			errs = append(errs, fmt.Errorf("node at %s: %w", at, err))
			continue
		}
		return answer, nil
	}
	return nil, errors.Join(errs...)
}

// ask sends a request to a node.
func (t *Token) ask(ctx context.Context, at string, r *joinRequest) (*joinAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return nil, fmt.Errorf("%w: it has an invalid address %q", raftlog.ErrToken, at)
	}
	conn, err := grpc.NewClient("passthrough:///"+at, grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(credentials.NewTLS(certificate.Joining(t.Authority, host))))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	b, err := msgpack.Marshal(r)
	if err != nil {
		return nil, err
	}
	out, err := wire.NewJoinClient(conn).Join(ctx, wrapperspb.Bytes(b))
	if err != nil {
		switch s := status.Convert(err); s.Code() {
		case codes.PermissionDenied:
			return nil, &refusal{s.Message(), raftlog.ErrToken}
		case codes.FailedPrecondition:
			return nil, &refusal{s.Message(), storage.ErrFormat}
		case codes.NotFound:
			return nil, &refusal{s.Message(), raftlog.ErrRefused}
		}
		return nil, err
	}
	a := &joinAnswer{}
	return a, msgpack.Unmarshal(out.GetValue(), a)
}

// refusal is the error of another node that lets this one not join.
type refusal struct {
	text string // the reason of the other node
	kind error
}

// Error returns the reason of the other node.
func (r *refusal) Error() string { return r.text }

// Unwrap returns the kind of the error.
func (r *refusal) Unwrap() error { return r.kind }
