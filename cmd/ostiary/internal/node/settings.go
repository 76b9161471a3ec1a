package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// printedSettings are settings as ostiary node settings prints them.
type printedSettings struct {
	HolderLease string `json:"holderLease"`
	ReadLease   string `json:"readLease"`
	Acknowledge string `json:"acknowledge"`
}

func (a *app) settingsCommand() *cobra.Command {
	var at string
	var f cli.SettingsFlags
	cmd := &cobra.Command{Use: "settings", Short: "Show or change the settings that all nodes of a cluster have alike", Args: cobra.NoArgs,
		Long: "Show the settings that all nodes of a cluster have alike, or change those whose flags are set. The shared log keeps them,\n" +
			"and a node whose flags differ does not start. Stop all nodes before a change.",
		Example: "  ostiary node settings\n  ostiary node settings --holder-lease 2s --read-lease 1s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			want, err := f.Settings()
			if err != nil {
				return err
			}
			return a.withLog(cmd.Context(), at, func(log sharedlog.Log) error {
				s, err := changeSettings(cmd.Context(), log, want)
				if err != nil {
					return err
				}
				p := printedSettings{s.HolderLease.String(), s.ReadLease.String(), s.Acknowledge.String()}
				return a.Print(p, func(w io.Writer) {
					fmt.Fprintf(w, "holder-lease %s\nread-lease %s\nacknowledge %s\n", p.HolderLease, p.ReadLease, p.Acknowledge)
				})
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	f.Add(cmd.Flags(), "", "unset: do not change it")
	return cmd
}

// changeSettings replaces the settings that are not zero in want, and returns all of
// them. It fails if a node runs.
func changeSettings(ctx context.Context, log sharedlog.Log, want sharedlog.Settings) (sharedlog.Settings, error) {
	old, err := describe(ctx, log)
	if err != nil {
		return sharedlog.Settings{}, err
	}
	next := old
	next.Settings = want.Or(old.Settings).Or(cluster.DefaultSettings())
	if want.Or(old.Settings) == old.Settings {
		return next.Settings, nil
	}
	if err := next.Settings.Check(); err != nil {
		return next.Settings, fmt.Errorf("%w: %w", cli.ErrUsage, err)
	}
	if err := noneRuns(ctx, log); err != nil {
		return next.Settings, err
	}
	if err := log.SwapCluster(ctx, old, next); err != nil {
		return next.Settings, err
	}
	// A node that has started meanwhile has either registered, or sees the change.
	if err := noneRuns(ctx, log); err != nil {
		return next.Settings, errors.Join(err, log.SwapCluster(ctx, next, old))
	}
	return next.Settings, nil
}

// describe returns the description of the cluster, and fails if there is none.
func describe(ctx context.Context, log sharedlog.Log) (sharedlog.Cluster, error) {
	c, err := log.Cluster(ctx)
	if err == nil && c.ID == (sharedlog.ClusterID{}) {
		err = errors.New("the log has no cluster yet: the first node that starts creates it")
	}
	return c, err
}

// noneRuns fails if the registry has a node that may run.
func noneRuns(ctx context.Context, log sharedlog.Log) error {
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Runs(now) {
			return fmt.Errorf("%w: node %s at %s reported %s ago, so it runs: stop all nodes first; one that was killed counts as gone %s after its last report",
				cli.ErrUsage, n.ID, n.Address, now.Sub(n.Seen).Round(time.Millisecond), sharedlog.RunsTime)
		}
	}
	return nil
}
