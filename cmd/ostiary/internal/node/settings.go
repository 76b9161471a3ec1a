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
			"and a node whose flags differ does not start. Stop all nodes before a change.\n" +
			"Without --log, the server that has the folder of --data open is asked: any node of a cluster without a database, which has no log while all\n" +
			"nodes are stopped. So it takes a change while they run: restart one node after the other then, the one that writes last.",
		Example: "  ostiary node settings --log URL\n  ostiary node settings --data /var/lib/ostiary --holder-lease 2s --read-lease 1s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			want, err := f.Settings()
			if err != nil {
				return err
			}
			s, err := ask(cmd.Context(), a, at, SettingsCommand, want, changeStopped)
			if err != nil {
				return err
			}
			p := printedSettings{s.HolderLease.String(), s.ReadLease.String(), s.Acknowledge.String()}
			return a.Print(p, func(w io.Writer) {
				cli.Printf(w, "holder-lease %s\nread-lease %s\nacknowledge %s\n", p.HolderLease, p.ReadLease, p.Acknowledge)
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	f.Add(cmd.Flags(), "", "unset: do not change it")
	return cmd
}

// ChangeRunning replaces the settings that are not zero in want while nodes run, and
// returns all of them. Nodes use them once they are restarted. Until all are, those with
// shorter leases wait as long as the leases of the others last, which the registry has. A
// shorter lease is refused if the registry does not have those of a node.
func ChangeRunning(ctx context.Context, log sharedlog.Log, want sharedlog.Settings) (sharedlog.Settings, error) {
	return changeSettings(ctx, log, want, func(old, next sharedlog.Settings) error {
		if next.HolderLease >= old.HolderLease && next.ReadLease >= old.ReadLease {
			return nil
		}
		nodes, _, err := log.Nodes(ctx)
		var errs []error
		for _, n := range nodes {
			if n.HolderLease == 0 || n.ReadLease == 0 {
				errs = append(errs, fmt.Errorf("%w: node %s at %s does not report which leases it uses, so they cannot become shorter: upgrade its program and start it, or remove it with \"ostiary node remove %s\"",
					cli.ErrUsage, n.ID, n.Address, n.ID))
			}
		}
		return errors.Join(append(errs, err)...)
	})
}

// changeStopped is ChangeRunning for a log that nodes need not run for. It fails if one
// runs.
func changeStopped(ctx context.Context, log sharedlog.Log, want sharedlog.Settings) (sharedlog.Settings, error) {
	return changeSettings(ctx, log, want, func(_, _ sharedlog.Settings) error { return noneRuns(ctx, log) })
}

// changeSettings replaces the settings that are not zero in want, and returns all of
// them. It changes nothing if allowed fails, which is called before and after the change.
func changeSettings(ctx context.Context, log sharedlog.Log, want sharedlog.Settings, allowed func(old, next sharedlog.Settings) error) (sharedlog.Settings, error) {
	old, err := describe(ctx, log)
	if err != nil {
		return sharedlog.Settings{}, err
	}
	next := old
	next.Settings = want.Or(old.Settings).Or(sharedlog.DefaultSettings())
	if want.Or(old.Settings) == old.Settings {
		return next.Settings, nil
	}
	if err := errors.Join(next.Settings.Check(), next.Settings.Fit()); err != nil {
		return next.Settings, fmt.Errorf("%w: %w", cli.ErrUsage, err)
	}
	if err := allowed(old.Settings, next.Settings); err != nil {
		return next.Settings, err
	}
	if err := log.SwapCluster(ctx, old, next); err != nil {
		return next.Settings, err
	}
	// A node that has started meanwhile has either registered, or sees the change.
	if err := allowed(old.Settings, next.Settings); err != nil {
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
