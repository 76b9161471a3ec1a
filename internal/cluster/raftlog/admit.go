package raftlog

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/storage"
)

// ErrToken means that a token does not let a node join: it is wrong, was used, or has
// expired. For use with errors.Is.
var ErrToken = errors.New("token is refused")

// TokensMax is the largest number of tokens that are neither used nor expired.
const TokensMax = 100

// TokenBytes is the size of the secret of a token in bytes.
const TokenBytes = 16

// Bounds of what a server sends about itself, in bytes.
const (
	// ServerBytesMax is the largest size of the id of a server.
	ServerBytesMax = 64
	// AddressBytesMax is the largest size of its address: a host name, and a port.
	AddressBytesMax = 320
)

// tokenRecord is a token in the machine. It stays for a while after it was used or has
// expired, so that an error can say so.
type tokenRecord struct {
	Until  time.Time `msgpack:"u"`
	UsedBy string    `msgpack:"b,omitempty"` // server
}

// tokenKept is how long a token outlives its expiry.
const tokenKept = 7 * 24 * time.Hour

// serverState is what the machine knows about the right of a server to take part.
type serverState uint8

// The values of serverState. The numbers are in the database.
const (
	serverUnknown  serverState = iota // it is a member, or a stranger
	serverAdmitted                    // by a token
	serverRemoved
)

func tokenKey(token storage.Hash) []byte {
	return append([]byte{keyMachine, machineToken}, token[:]...)
}

// AddToken makes a token with which one node can join the log, until some time has
// passed. It returns the secret of the token. It fails if there are TokensMax of them.
func (n *Server) AddToken(ctx context.Context, valid time.Duration) ([]byte, error) {
	secret := make([]byte, TokenBytes)
	_, _ = rand.Read(secret) // never fails
	l := n.Log()
	defer l.Close()
	return secret, l.change(ctx, &command{Operation: opToken, Token: tokenHash(secret), Until: time.Now().Add(valid).UTC()})
}

func tokenHash(secret []byte) storage.Hash {
	return sha256.Sum256(append([]byte("ostiary: token of a node\x00"), secret...))
}

// Admit uses a token: from then on the server with an id may add itself with
// [Server.AddSelf]. It fails with ErrToken if the token is wrong, has expired, or was used
// by another server; then nothing is proposed. before, if it is not nil, is called once the
// token is known to be good, and its error ends Admit.
func (n *Server) Admit(ctx context.Context, secret []byte, server string, before func() error) error {
	switch {
	case server == "":
		return fmt.Errorf("%w: the node has no id", ErrToken)
	case len(server) > ServerBytesMax:
		return fmt.Errorf("%w: the id of the node has %d bytes, expected at most %d (ServerBytesMax)", ErrToken, len(server), ServerBytesMax)
	case len(secret) != TokenBytes:
		return fmt.Errorf("%w: its secret has %d bytes, expected %d", ErrToken, len(secret), TokenBytes)
	}
	c := &command{Operation: opAdmit, Token: tokenHash(secret), Server: server}
	done, err := n.checkAdmit(ctx, c)
	if err == nil && before != nil {
		err = before()
	}
	if err != nil || done {
		return err
	}
	l := n.Log()
	defer l.Close()
	return l.change(ctx, c)
}

// checkAdmit fails if this node knows that the use of a token will fail. done is true if the
// token was used for the same server before, so that nothing is left to do. A token that the
// node does not know may be newer than what it has applied, so it catches up first: once, and
// once more if it had begun to before the call.
func (n *Server) checkAdmit(ctx context.Context, c *command) (done bool, err error) {
	for range 2 {
		if done, err = n.machine.checkAdmit(c, time.Now()); !errors.Is(err, errTokenUnknown) {
			return done, err
		}
		if err := n.catchUp(ctx); err != nil {
			return false, err
		}
	}
	return n.machine.checkAdmit(c, time.Now())
}

// catchUpPause is the time before this node asks the leader how far it is, so that many
// callers share the answer. catchUpTime bounds the wait for it.
const (
	catchUpPause = 50 * time.Millisecond
	catchUpTime  = 10 * time.Second
)

// catchUp returns when this node has what was decided before the call, or before a call that
// catches up already.
func (n *Server) catchUp(ctx context.Context) error {
	n.mu.Lock()
	r := n.catching
	if r == nil {
		r = &round{done: make(chan struct{})}
		n.catching = r
		go func() {
			ctx, cancel := context.WithTimeout(n.ctx, catchUpTime)
			defer cancel()
			select {
			case <-time.After(catchUpPause):
				l := n.Log()
				defer l.Close()
				_, r.err = l.confirm(ctx)
			case <-ctx.Done():
				r.err = storage.ErrClosed
			}
			n.mu.Lock()
			n.catching = nil
			n.mu.Unlock()
			close(r.done)
		}()
	}
	n.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// addToken adds a token, and drops those that have expired long ago.
func (w *machineWriter) addToken(c *command) error {
	live := 0
	for token, t := range w.tokens {
		switch {
		case c.Now.After(t.Until.Add(tokenKept)):
			delete(w.tokens, token)
			if err := w.batch.Delete(tokenKey(token), nil); err != nil {
				return err
			}
		case t.UsedBy == "" && c.Now.Before(t.Until):
			live++
		}
	}
	if live >= TokensMax {
		return fmt.Errorf("%w: %d tokens are neither used nor expired, and that is the limit TokensMax", storage.ErrTooLarge, live)
	}
	return w.setToken(c.Token, tokenRecord{Until: c.Until})
}

func (w *machineWriter) setToken(token storage.Hash, t tokenRecord) error {
	w.tokens[token] = t
	return w.set(tokenKey(token), &t)
}

// errTokenUnknown is the kind of ErrToken of a token that the machine does not have.
var errTokenUnknown = fmt.Errorf("%w: it is not known: it is of another cluster, or has expired more than %d days ago", ErrToken, int(tokenKept.Hours()/24))

// checkAdmit is [machine.mayAdmit] at a time. done is true if the token was used for the same
// server before.
func (m *machine) checkAdmit(c *command, now time.Time) (done bool, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, err := m.mayAdmit(c, now)
	return err == nil && t.UsedBy == c.Server && m.servers[c.Server] == serverAdmitted, err
}

// mayAdmit returns the token of a command, or why a server cannot use it at a time. The caller
// holds m.mu.
func (m *machine) mayAdmit(c *command, now time.Time) (tokenRecord, error) {
	t, ok := m.tokens[c.Token]
	switch {
	case !ok:
		return t, errTokenUnknown
	case t.UsedBy != "" && t.UsedBy != c.Server:
		return t, fmt.Errorf("%w: node %s has used it: each token lets one node join", ErrToken, t.UsedBy)
	case t.UsedBy == "" && now.After(t.Until):
		return t, fmt.Errorf("%w: it has expired at %s", ErrToken, t.Until.Format(time.RFC3339))
	case m.servers[c.Server] == serverRemoved:
		return t, fmt.Errorf("%w: node %s was removed, and its folder cannot join again: expected a new folder", ErrToken, c.Server)
	}
	return t, nil
}

// admit uses a token for a server.
func (w *machineWriter) admit(c *command) error {
	t, err := w.mayAdmit(c, c.Now)
	if err != nil {
		return err
	}
	t.UsedBy = c.Server
	if err := w.setToken(c.Token, t); err != nil {
		return err
	}
	return w.setServer(c.Server, serverAdmitted)
}

func (w *machineWriter) setServer(id string, s serverState) error {
	w.servers[id] = s
	return w.set(append([]byte{keyMachine, machineServer}, id...), s)
}
