package quorum

import (
	"context"
	"strings"
)

// AskOlder asks the first node of a token to admit a node whose program reads no version of
// the log that this program knows.
func AskOlder(ctx context.Context, t *Token) error {
	_, err := t.ask(ctx, t.Addresses[0], &joinRequest{Secret: t.Secret, Server: strings.Repeat("0a", 16)})
	return err
}

// Address returns where others reach the node.
func (q *Quorum) Address() string { return q.opts.Address }

// LogName returns the name of the log.
func (q *Quorum) LogName() string { return q.node.Cluster() }
