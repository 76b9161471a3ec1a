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

// shard is the only shard so far.
const shard = sharedlog.Shard(0)

// withLog opens the log of --log for f.
func (a *app) withLog(ctx context.Context, at string, f func(sharedlog.Log) error) (err error) {
	if at == "" {
		return fmt.Errorf("%w: the command needs --log", cli.ErrUsage)
	}
	log, err := a.OpenLog(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return f(log)
}

// listed is a node as ostiary node list prints it.
type listed struct {
	ID      string    `json:"id"`
	Address string    `json:"address"`
	Start   uint64    `json:"start"`
	Writes  bool      `json:"writes"`
	Applied uint64    `json:"applied"`
	Lag     uint64    `json:"lag"`
	Synced  uint64    `json:"synced"`
	Reads   uint32    `json:"reads"`
	Seen    time.Time `json:"seen"`
	ago     time.Duration
}

func (a *app) listCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{Use: "list", Short: "List the nodes that are registered in a shared log", Args: cobra.NoArgs,
		Long: "List the nodes that are registered in a shared log. Each of them reports every 5 seconds, so its figures are that old.\n" +
			"lag is how many segments of the log the node had not applied then; synced is what is on its disk for certain.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLog(cmd.Context(), at, func(log sharedlog.Log) error {
				nodes, err := list(cmd.Context(), log)
				if err != nil {
					return err
				}
				return a.Print(map[string]any{"nodes": nodes}, func(w io.Writer) {
					fmt.Fprintln(w, "ID\tADDRESS\tSTART\tROLE\tAPPLIED\tLAG\tSYNCED\tSEEN")
					for _, n := range nodes {
						role := "follows"
						if n.Writes {
							role = "writes"
						}
						fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%s ago\n", n.ID, n.Address, n.Start, role, n.Applied, n.Lag, n.Synced, n.ago.Round(time.Second))
					}
				})
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	return cmd
}

func list(ctx context.Context, log sharedlog.Log) ([]listed, error) {
	head, err := log.Head(ctx, shard)
	if err != nil {
		return nil, err
	}
	lease, err := log.Lease(ctx, shard)
	if err != nil {
		return nil, err
	}
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]listed, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, listed{ID: n.ID.String(), Address: n.Address, Start: n.Start, Writes: writes(lease, n.ID), Applied: n.Applied,
			Lag: max(head.Sequence, n.Applied) - n.Applied, Synced: n.Synced, Reads: n.Reads, Seen: n.Seen, ago: now.Sub(n.Seen)})
	}
	return out, nil
}

// writes reports whether a node holds a lease, and has not resigned.
func writes(l sharedlog.Lease, id storage.NodeID) bool { return l.Holder == id && l.Renewals > 0 }

// aliveTime is how long after its last report a node counts as running.
const aliveTime = 30 * time.Second

func (a *app) removeCommand() *cobra.Command {
	var at string
	var force bool
	cmd := &cobra.Command{Use: "remove ID", Short: "Remove a node from the registry of a shared log", Args: cobra.ExactArgs(1),
		Long: "Remove a node that does not come back from the registry of a shared log, so that trimming and the rotation of keys do not wait for it.\n" +
			"A node that still runs is refused by the others, and ends; when it is started again, it registers again.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := storage.ParseNodeID(args[0])
			if err != nil {
				return fmt.Errorf("%w: %w", cli.ErrUsage, err)
			}
			return a.withLog(cmd.Context(), at, func(log sharedlog.Log) error {
				if err := remove(cmd.Context(), log, id, force); err != nil {
					return err
				}
				return a.Print(map[string]string{"removed": id.String()}, func(w io.Writer) { fmt.Fprintf(w, "removed node %s\n", id) })
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	cmd.Flags().BoolVar(&force, "force", false, "remove a node that has reported in the last 30 seconds, or that writes")
	return cmd
}

func remove(ctx context.Context, log sharedlog.Log, id storage.NodeID, force bool) error {
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return err
	}
	lease, err := log.Lease(ctx, shard)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		switch {
		case n.ID != id:
			continue
		case force:
		case now.Sub(n.Seen) < aliveTime:
			return fmt.Errorf("%w: node %s reported %s ago, so it runs: stop it first, or --force", cli.ErrUsage, id, now.Sub(n.Seen).Round(time.Millisecond))
		case writes(lease, id):
			return fmt.Errorf("%w: node %s holds the lease of the node that writes: wait until another one has taken over, or --force", cli.ErrUsage, id)
		}
		return log.Forget(ctx, id)
	}
	return fmt.Errorf("no node %s is registered; \"ostiary node list\" shows the nodes", id)
}
