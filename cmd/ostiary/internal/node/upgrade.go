package node

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// UpgradeOptions are the body of UpgradeCommand.
type UpgradeOptions struct {
	// To is the version that the program of the command knows.
	To uint32
}

// Upgraded is the answer to UpgradeCommand.
type Upgraded struct {
	// Before and Format are the versions of segments that were and are in use.
	Before uint32 `json:"before"`
	Format uint32 `json:"format"`
}

func (a *app) upgradeCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{Use: "upgrade", Short: "Let the nodes write the newest version of the log that this program knows", Args: cobra.NoArgs,
		Long: "Let the nodes of a cluster write the newest version of segments that this program knows. Every registered node must be able to\n" +
			"read it: upgrade the program of each node first. From then on, an older program cannot join the cluster.\n" +
			"Without --log, the server that has the folder of --data open is asked: any node of a cluster without a database.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := ask(cmd.Context(), a, at, UpgradeCommand, UpgradeOptions{sharedlog.SegmentVersion}, Upgrade)
			if err != nil {
				return err
			}
			return a.Print(u, func(w io.Writer) {
				if u.Before == u.Format {
					cli.Printf(w, "the nodes use version %d already\n", u.Before)
					return
				}
				cli.Printf(w, "the nodes use version %d; they used version %d before\n", u.Format, u.Before)
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	return cmd
}

// Upgrade raises the version of segments that is in use. It changes nothing, and names the
// node, if a registered one cannot read the version.
func Upgrade(ctx context.Context, log sharedlog.Log, o UpgradeOptions) (u Upgraded, err error) {
	old, err := describe(ctx, log)
	u = Upgraded{old.Format, o.To}
	if err != nil || old.Format == o.To {
		return u, err
	}
	if old.Format > o.To {
		return u, fmt.Errorf("the nodes use version %d of segments, and this program reads up to %d: upgrade it", old.Format, o.To)
	}
	next := old
	next.Format = o.To
	if err := allRead(ctx, log, o.To); err != nil {
		return u, err
	}
	if err := log.SwapCluster(ctx, old, next); err != nil {
		return u, err
	}
	// A node that has started meanwhile has either registered, or sees the change.
	if err := allRead(ctx, log, o.To); err != nil {
		return u, errors.Join(err, log.SwapCluster(ctx, next, old))
	}
	return u, nil
}

// allRead fails if a registered node cannot read a version of segments.
func allRead(ctx context.Context, log sharedlog.Log, version uint32) error {
	nodes, _, err := log.Nodes(ctx)
	return errors.Join(sharedlog.CheckReads(nodes, version), err)
}
