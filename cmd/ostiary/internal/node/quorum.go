package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// The commands of the socket of a data folder, for a cluster without a database.
const (
	TokenCommand    = "node-token"
	ListCommand     = "node-list"
	RemoveCommand   = "node-remove"
	SettingsCommand = "node-settings"
	UpgradeCommand  = "node-upgrade"
	RotateCommand   = "node-rotate-authority"
)

// TokenOptions are the body of TokenCommand.
type TokenOptions struct {
	// Valid is for how long the token is valid.
	Valid time.Duration
}

// MadeToken is the answer to TokenCommand.
type MadeToken struct {
	// Token is the text of the token. It is a secret.
	Token string `json:"token"`
}

// RemoveOptions are the body of RemoveCommand.
type RemoveOptions struct {
	// ID is the node.
	ID storage.NodeID
	// Force removes a node that runs.
	Force bool
}

// Removed is the answer to RemoveCommand.
type Removed struct {
	// Authority is true if the folder of the removed node has the key of the authority of
	// the nodes' certificates.
	Authority bool `json:"authority"`
}

// RotateOptions are the body of RotateCommand.
type RotateOptions struct {
	// WithoutAway leaves nodes behind that do not answer.
	WithoutAway bool
}

// Rotated is the answer to RotateCommand.
type Rotated struct {
	// Authority is the name of the new authority.
	Authority string `json:"authority"`
	// Nodes are the ids of the nodes that have it, and Away those of the others.
	Nodes []string `json:"nodes"`
	Away  []string `json:"away"`
}

// tokenHours is the default and tokenHoursMax the upper bound of --hours.
const (
	tokenHours    = 1
	tokenHoursMax = 7 * 24
)

func (a *app) tokenCommand() *cobra.Command {
	var hours int
	cmd := &cobra.Command{Use: "token", Short: "Make a token with which one node can join", Args: cobra.NoArgs,
		Long: "Make a token with which one new node can join a cluster without a database: \"ostiary serve --join TOKEN\".\n" +
			"It is asked of the server that has the folder of --data open, a node of the cluster. It contains the addresses of the nodes,\n" +
			"the fingerprint of their authority and a secret. It can be used once. Who has it can make a node of the cluster, which has all data.",
		Example: "  ostiary node token --data /var/lib/ostiary\n  ostiary serve --data /var/lib/ostiary --nodes-address node2.example:8082 --join TOKEN",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hours < 1 || hours > tokenHoursMax {
				return fmt.Errorf("%w: invalid --hours %d: expected 1 to %d", cli.ErrUsage, hours, tokenHoursMax)
			}
			var made MadeToken
			if err := a.control(cmd.Context(), TokenCommand, TokenOptions{time.Duration(hours) * time.Hour}, &made); err != nil {
				return err
			}
			return a.Print(made, func(w io.Writer) { cli.Println(w, made.Token) })
		}}
	cli.CountVar(cmd.Flags(), &hours, "hours", 1, tokenHours, "hours for which the token is valid")
	return cmd
}

func (a *app) rotateCommand() *cobra.Command {
	var o RotateOptions
	cmd := &cobra.Command{Use: "rotate-authority", Short: "Replace the authority of the nodes' certificates", Args: cobra.NoArgs,
		Long: "Replace the authority that signs the certificates of the nodes of a cluster without a database, while they run. Every node has its key, so a node\n" +
			"that was removed keeps it: who has its folder can make certificates of the cluster until the authority is replaced.\n" +
			"It is asked of the server that has the folder of --data open, any node. All nodes first trust both authorities, then get certificates of the new one,\n" +
			"and then trust it alone. If a node does not answer, the command names it and changes nothing: start it, or remove it. With --without-away the others\n" +
			"go on without it: start it with --join TOKEN then, and it gets the new authority and keeps its folder. Tokens that were made before do not work any more.\n" +
			"The command can be repeated at any time; after one that has failed, repeat it.",
		Example: "  ostiary node rotate-authority --data /var/lib/ostiary",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var done Rotated
			if err := a.control(cmd.Context(), RotateCommand, o, &done); err != nil {
				return err
			}
			return a.Print(done, func(w io.Writer) {
				cli.Printf(w, "replaced the authority on %s; it is %q\n", cli.Plural(len(done.Nodes), "node"), done.Authority)
				for _, id := range done.Away {
					cli.Printf(w, "node %s was away: start it with --join and the token of \"ostiary node token\", or remove it\n", id)
				}
			})
		}}
	cmd.Flags().BoolVar(&o.WithoutAway, "without-away", false, "go on without nodes that do not answer; each needs a token to come back")
	return cmd
}

// ask runs a command on the log of a URL. Without one, it asks the server that has the
// data folder open.
func ask[O, A any](ctx context.Context, a *app, at, command string, o O, run func(context.Context, sharedlog.Log, O) (A, error)) (answer A, err error) {
	if at == "" {
		return answer, a.control(ctx, command, o, &answer)
	}
	err = a.withLog(ctx, at, func(log sharedlog.Log) error {
		answer, err = run(ctx, log, o)
		return err
	})
	return answer, err
}

// control sends a command to the server that has the data folder open.
func (a *app) control(ctx context.Context, command string, body, answer any) error {
	if a.Server != "" { // of a variable
		return fmt.Errorf("%w: OSTIARY_SERVER is set, expected --data FOLDER, the data folder of a node that runs", cli.ErrUnsupported)
	}
	if a.Data == cli.InMemory {
		return fmt.Errorf("%w: the command needs the data folder of a node that runs, expected --data FOLDER", cli.ErrUsage)
	}
	err := cli.Control(ctx, a.Data, command, body, answer)
	if errors.Is(err, cli.ErrNoControl) {
		return fmt.Errorf("%w: start it, or name the folder of another node with --data; for a cluster with a database, set --log", err)
	}
	return err
}
