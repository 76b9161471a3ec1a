// Package forward has what one node needs to send a request that writes to the node that
// writes, the holder: the contract between the server and the connection of the nodes, and
// [Sending], which tries until a node has served the request. It opens no connection and
// serves no request.
package forward

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/ostiary/ostiary/storage"
)

// ErrNotBegun means that the other node did not begin with a forwarded request: it is
// not the holder any more, or it was not reached. The request had no effect, and can be
// sent to another node.
var ErrNotBegun = errors.New("the other node did not begin with the request")

// Forwarder finds the node that writes, which is called the holder. Its methods may be
// called concurrently.
type Forwarder interface {
	// Target returns the holder, and waits until there is one or ctx ends. own is true,
	// and the target nil, if it is this node.
	Target(ctx context.Context) (t Target, own bool, err error)
	// Begin reports whether this node, as the holder, may begin with a request that another
	// node has forwarded. If it does, a hand-over of the role waits until ctx ends, so that
	// nothing that has begun is left. During a hand-over Begin waits for the next holder.
	Begin(ctx context.Context) bool
	// Next returns the id of the next request that this node forwards, which no other
	// request of any node has, and whose number is a multiple of [storage.RequestWrites], and the sequence of the log that this node has applied.
	Next() (id storage.RequestID, after uint64)
}

// Target is another node as the receiver of forwarded requests. Its methods may be
// called concurrently.
type Target interface {
	// Node returns the id of the node, as text.
	Node() string
	// HTTP sends r to the node, which calls its ServeForwarded, and copies the
	// response to w while it comes. Before each part it waits until this node has
	// applied everything that the other node had applied when it sent the part. The
	// context of r bounds all of this. HTTP returns an error that wraps [ErrNotBegun] if
	// the other node did not begin, and any other error if the response broke off or if
	// nothing is known. It has written to w only if the other node began.
	HTTP(w http.ResponseWriter, r *http.Request, as Head) error
	// RPC sends a unary gRPC call to the node, which calls its InvokeForwarded,
	// and returns its result once this node has applied what it led to. Its errors mean
	// what those of HTTP mean.
	RPC(ctx context.Context, c Call, as Head) (Answer, error)
}

// Whole is the body of a request that is in memory. Several of them may travel together.
type Whole struct {
	Bytes []byte
	bytes.Reader
}

// NewWhole returns a body.
func NewWhole(b []byte) *Whole {
	w := &Whole{Bytes: b}
	w.Reset(b)
	return w
}

// Close implements [io.Closer].
func (w *Whole) Close() error { return nil }

// Call is a unary gRPC call.
type Call struct {
	// Method is the full name: "/package.Service/Method".
	Method string
	// Metadata is what the client sent with the call, without credentials.
	Metadata metadata.MD
	// Message is the request in the encoding of protobuf.
	Message []byte
}

// Answer is the result of a [Call].
type Answer struct {
	// Metadata is sent before the message.
	Metadata metadata.MD
	// Message is the response in the encoding of protobuf; nil after an error.
	Message []byte
	// Err is the error of the service, with a gRPC status; nil if there is none.
	Err error
}

// KeyID identifies a key of the server to another node. Nobody can find the key's secret with
// it, unless the secret can be guessed. The zero KeyID is no key.
type KeyID [32]byte

// Head is what a node knows about a request that it forwards, and what the other
// node relies on. It never travels with a request of a client.
type Head struct {
	// Door is the name of the door.
	Door string
	// Keys are the keys that the first node has accepted: one, or those that match the
	// token of the caller. The zero KeyID is for a server without keys, for public routes,
	// and for doors that authenticate their callers.
	Keys []KeyID
	// Origin is the origin of the writes. Its Caller names the caller who has a token. Its Request identifies the request, so that the
	// holder finds what it has written already.
	Origin storage.Origin
	// After is the sequence of the log that the first node had applied before it sent the
	// request for the first time.
	After uint64
	// Repeated is true if the request was sent before, and may have had effects.
	Repeated bool
	// Remote is the address of the client, as the first node sees it.
	Remote string
	// ID is the id of the request in logs and responses.
	ID string
	// Secure is true if the client uses TLS.
	Secure bool
	// Timeout is the time that is left for the request. 0 means that it has no bound, as
	// a stream.
	Timeout time.Duration
}
