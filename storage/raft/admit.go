package raft

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
func (n *Node) AddToken(ctx context.Context, valid time.Duration) ([]byte, error) {
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
// [Node.AddSelf]. It fails with ErrToken if the token is wrong, has expired, or was used
// by another server.
func (n *Node) Admit(ctx context.Context, secret []byte, server string) error {
	if server == "" {
		return fmt.Errorf("%w: the node has no id", ErrToken)
	}
	l := n.Log()
	defer l.Close()
	return l.change(ctx, &command{Operation: opAdmit, Token: tokenHash(secret), Server: server})
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

// admit uses a token for a server.
func (w *machineWriter) admit(c *command) error {
	t, ok := w.tokens[c.Token]
	switch {
	case !ok:
		return fmt.Errorf("%w: it is not known: it is of another cluster, or has expired more than %d days ago", ErrToken, int(tokenKept.Hours()/24))
	case t.UsedBy != "" && t.UsedBy != c.Server:
		return fmt.Errorf("%w: node %s has used it: each token lets one node join", ErrToken, t.UsedBy)
	case t.UsedBy == "" && c.Now.After(t.Until):
		return fmt.Errorf("%w: it has expired at %s", ErrToken, t.Until.Format(time.RFC3339))
	case w.servers[c.Server] == serverRemoved:
		return fmt.Errorf("%w: node %s was removed, and its folder cannot join again: expected a new folder", ErrToken, c.Server)
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
