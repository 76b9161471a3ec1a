package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// operation is what a command does. The numbers are in the log.
type operation uint8

const (
	opAppend operation = iota + 1
	opTrim
	opCluster
	opLease
	opRegister
	opReport
	opForget
	opSnapshot
	opNothing // changes nothing
	opPart    // a part of the segment of a later append
	opToken   // adds a token, with which one node may join
	opAdmit   // uses a token
	opDismiss // removes the right of a server to take part
	opRestore // makes a position the last one, and replaces all secrets
)

// command is a change of the shared log, as an entry of the consensus has it. Each
// operation uses some of the fields.
type command struct {
	Operation operation          `msgpack:"o"`
	After     sharedlog.Position `msgpack:"a,omitempty"` // of an append or a restoration
	// Record is the segment of an append. In a restoration, its position is the last one of
	// the log from then on, and its bytes are all secrets, see encodeSecrets.
	Record  sharedlog.Record         `msgpack:"r,omitempty"`
	Secrets []sharedlog.SecretChange `msgpack:"c,omitempty"`
	Below   uint64                   `msgpack:"b,omitempty"` // of a trim
	Part    []byte                   `msgpack:"d,omitempty"`
	// Parts are the entries of the consensus with the parts of a large segment, whose
	// Record has no bytes then: one large entry would delay the heartbeats.
	Parts []uint64 `msgpack:"e,omitempty"`

	Cluster    [2]sharedlog.Cluster `msgpack:"u,omitempty"` // old and new
	Lease      [2]sharedlog.Lease   `msgpack:"l,omitempty"` // old and new
	Node       sharedlog.NodeRecord `msgpack:"n,omitempty"`
	SnapshotAt sharedlog.Position   `msgpack:"p,omitempty"`
	Server     string               `msgpack:"v,omitempty"` // the server that has the parts of a snapshot, or that joins or is removed
	Token      storage.Hash         `msgpack:"k,omitempty"` // see Server.AddToken
	Until      time.Time            `msgpack:"t,omitempty"` // when the token expires
	Now        time.Time            `msgpack:"w,omitempty"` // the leader's clock
}

// written is a command as encode writes it. A field without a value is left out: as
// omitempty leaves out only what can be nil, a command itself would have some 850 bytes of
// zeros. Programs before this one write these, so decodeCommand reads both forms.
type written struct {
	Operation  operation                `msgpack:"o"`
	After      *sharedlog.Position      `msgpack:"a,omitempty"`
	Record     *sharedlog.Record        `msgpack:"r,omitempty"`
	Secrets    []sharedlog.SecretChange `msgpack:"c,omitempty"`
	Below      uint64                   `msgpack:"b,omitempty"`
	Part       []byte                   `msgpack:"d,omitempty"`
	Parts      []uint64                 `msgpack:"e,omitempty"`
	Cluster    *[2]sharedlog.Cluster    `msgpack:"u,omitempty"`
	Lease      *[2]sharedlog.Lease      `msgpack:"l,omitempty"`
	Node       *sharedlog.NodeRecord    `msgpack:"n,omitempty"`
	SnapshotAt *sharedlog.Position      `msgpack:"p,omitempty"`
	Server     string                   `msgpack:"v,omitempty"`
	Token      *storage.Hash            `msgpack:"k,omitempty"`
	Until      time.Time                `msgpack:"t,omitempty"`
	Now        time.Time                `msgpack:"w,omitempty"`
}

func (c *command) encode() ([]byte, error) {
	w := &written{Operation: c.Operation, After: set(&c.After), Secrets: c.Secrets, Below: c.Below, Part: c.Part, Parts: c.Parts,
		Cluster: set(&c.Cluster), Lease: set(&c.Lease), Node: set(&c.Node), SnapshotAt: set(&c.SnapshotAt), Server: c.Server, Token: set(&c.Token), Until: c.Until, Now: c.Now}
	if c.Record.Position != (sharedlog.Position{}) || len(c.Record.Bytes) > 0 {
		w.Record = &c.Record
	}
	return msgpack.Marshal(w)
}

// set returns v, or nil if it is the zero value.
func set[T comparable](v *T) *T {
	var zero T
	if *v == zero {
		return nil
	}
	return v
}

// decodeCommand reads a command. A field that this program does not know is an error, as
// an unknown operation is: nodes that ignore it would have another state than those that
// do not.
func decodeCommand(b []byte) (*command, error) {
	c := &command{}
	d := msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(bytes.NewReader(b))
	d.DisallowUnknownFields(true)
	if err := d.Decode(c); err != nil {
		kind := storage.ErrDamaged
		if strings.Contains(err.Error(), "unknown field") {
			kind = storage.ErrFormat
		}
		return nil, fmt.Errorf("%w: command of the consensus: %w", kind, err)
	}
	return c, nil
}

// encodeSecrets and decodeSecrets are all secrets of a restoration.
func encodeSecrets(all []sharedlog.SecretChange) ([]byte, error) { return msgpack.Marshal(all) }

func decodeSecrets(b []byte) (all []sharedlog.SecretChange, err error) {
	if err = msgpack.Unmarshal(b, &all); err != nil {
		err = fmt.Errorf("%w: secrets of a restoration: %w", storage.ErrDamaged, err)
	}
	return all, err
}

// setTime sets the time of a command that has one. The leader calls it, so that there is
// one clock.
func (c *command) setTime(now time.Time) bool {
	switch c.Operation {
	case opRegister, opReport:
		c.Node.Seen = now
	case opToken, opAdmit:
		c.Now = now
	default:
		return false
	}
	return true
}

// outcome is what a command led to, on its way to the node that proposed it. The zero
// outcome is success.
type outcome struct {
	// Kind names the error; see errorKinds.
	Kind string `msgpack:"k,omitempty"`
	Text string `msgpack:"t,omitempty"`
	// Head is the last position, of a conflict.
	Head sharedlog.Position `msgpack:"h,omitempty"`
	// Index is the entry of the consensus after which the outcome can be read.
	Index uint64 `msgpack:"i,omitempty"`
	// Term is the term of the consensus that the node has reached.
	Term uint64 `msgpack:"e,omitempty"`
	// Process is the random number of the process of the node.
	Process string `msgpack:"p,omitempty"`
	// Time is the leader's clock.
	Time time.Time `msgpack:"z,omitempty"`
}

// errNotLeader means that a server is not the leader, so that it did not begin with a
// request.
var errNotLeader = errors.New("server is not the leader")

// errEnded means that the consensus of a server has ended while it had a command: the
// next leader may still have it, so the outcome is open.
var errEnded = errors.New("consensus of the server has ended")

// errorKinds are the errors that keep their identity on the way to another node.
// storage.ErrClosed is not among them: a log that another node has closed is open here.
var errorKinds = map[string]error{
	"swap":      sharedlog.ErrSwap,
	"lease":     sharedlog.ErrLease,
	"taken":     sharedlog.ErrNodeTaken,
	"size":      storage.ErrTooLarge,
	"damaged":   storage.ErrDamaged,
	"notleader": errNotLeader,
	"snapshot":  sharedlog.ErrNoSnapshot,
	"token":     ErrToken,
	"format":    storage.ErrFormat,
	"refused":   ErrRefused,
}

// conflictKind and otherKind are the other values of outcome.Kind.
const (
	conflictKind = "conflict"
	otherKind    = "error"
)

// outcomeOf returns the outcome of an error.
func outcomeOf(err error) outcome {
	var conflict *sharedlog.ConflictError
	switch {
	case err == nil:
		return outcome{}
	case errors.As(err, &conflict):
		return outcome{Kind: conflictKind, Head: conflict.Head}
	}
	for kind, is := range errorKinds {
		if errors.Is(err, is) {
			return outcome{Kind: kind, Text: err.Error()}
		}
	}
	return outcome{Kind: otherKind, Text: err.Error()}
}

// err returns the error of an outcome.
func (o *outcome) err() error {
	switch o.Kind {
	case "":
		return nil
	case conflictKind:
		return &sharedlog.ConflictError{Head: o.Head}
	}
	if is := errorKinds[o.Kind]; is != nil {
		return &remoteError{o.Text, is}
	}
	return errors.New(o.Text)
}

// remoteError is an error of another node.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

func (o *outcome) encode() ([]byte, error) { return msgpack.Marshal(o) }

func decodeOutcome(b []byte) (o outcome, err error) {
	err = msgpack.NewDecoder(bytes.NewReader(b)).Decode(&o)
	return o, err
}
