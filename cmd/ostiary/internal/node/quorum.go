package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// The commands of the socket of a data folder, for a cluster without a database.
const (
	TokenCommand    = "node-token"
	ListCommand     = "node-list"
	RemoveCommand   = "node-remove"
	SettingsCommand = "node-settings"
	UpgradeCommand  = "node-upgrade"
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
	if a.Data == cli.InMemory {
		return fmt.Errorf("%w: the command needs the data folder of a node that runs, expected --data FOLDER", cli.ErrUsage)
	}
	err := cli.Control(ctx, a.Data, command, body, answer)
	if errors.Is(err, cli.ErrNoControl) {
		return fmt.Errorf("%w: start it, or name the folder of another node with --data; for a cluster with a database, set --log", err)
	}
	return err
}
