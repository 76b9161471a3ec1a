package node

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

func (a *app) upgradeCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{Use: "upgrade", Short: "Let the nodes write the newest version of the log that this program knows", Args: cobra.NoArgs,
		Long: "Let the nodes of a cluster write the newest version of segments that this program knows. Every registered node must be able to\n" +
			"read it: upgrade the program of each node first. From then on, an older program cannot join the cluster.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLog(cmd.Context(), at, func(log sharedlog.Log) error {
				before, err := upgrade(cmd.Context(), log, sharedlog.SegmentVersion)
				if err != nil {
					return err
				}
				return a.Print(map[string]uint32{"before": before, "format": sharedlog.SegmentVersion}, func(w io.Writer) {
					if before == sharedlog.SegmentVersion {
						fmt.Fprintf(w, "the nodes use version %d already\n", before)
						return
					}
					fmt.Fprintf(w, "the nodes use version %d; they used version %d before\n", sharedlog.SegmentVersion, before)
				})
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	return cmd
}

// upgrade raises the version of segments that is in use, and returns the one before. It
// changes nothing, and names the node, if a registered one cannot read the version.
func upgrade(ctx context.Context, log sharedlog.Log, to uint32) (before uint32, err error) {
	old, err := describe(ctx, log)
	if err != nil || old.Format == to {
		return old.Format, err
	}
	if old.Format > to {
		return old.Format, fmt.Errorf("the nodes use version %d of segments, and this program reads up to %d: upgrade it", old.Format, to)
	}
	next := old
	next.Format = to
	if err := allRead(ctx, log, to); err != nil {
		return old.Format, err
	}
	if err := log.SwapCluster(ctx, old, next); err != nil {
		return old.Format, err
	}
	// A node that has started meanwhile has either registered, or sees the change.
	if err := allRead(ctx, log, to); err != nil {
		return old.Format, errors.Join(err, log.SwapCluster(ctx, next, old))
	}
	return old.Format, nil
}

// allRead fails if a registered node cannot read a version of segments.
func allRead(ctx context.Context, log sharedlog.Log, version uint32) error {
	nodes, _, err := log.Nodes(ctx)
	var errs []error
	for _, n := range nodes {
		if n.Reads < version {
			errs = append(errs, fmt.Errorf("node %s at %s reads up to version %d of segments, expected %d: upgrade its program and start it, or remove it with \"ostiary node remove %s\"",
				n.ID, n.Address, n.Reads, version, n.ID))
		}
	}
	return errors.Join(append(errs, err)...)
}
