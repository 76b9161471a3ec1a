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

// withLog opens the log of --log for f.
func (a *app) withLog(ctx context.Context, at string, f func(sharedlog.Log) error) (err error) {
	if err := needLog(at); err != nil {
		return err
	}
	log, err := a.OpenLog(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return f(log)
}

// needLog fails unless --log is set.
func needLog(at string) error {
	if at == "" {
		return fmt.Errorf("%w: the command needs --log", cli.ErrUsage)
	}
	return nil
}

// lateTime is how long after its last report a node is late: it reports every 5 seconds.
// After sharedlog.RunsTime it is gone.
const lateTime = 12 * time.Second

// The states of nodes.
const (
	stateHolder  = "holder"
	stateLive    = "live"
	stateLate    = "late"
	stateGone    = "gone"
	stateStopped = "stopped"
)

// state returns what is known about a node at a time of the log.
func state(n *sharedlog.NodeRecord, l sharedlog.Lease, now time.Time) string {
	switch ago := now.Sub(n.Seen); {
	case n.Stopped:
		return stateStopped
	case ago >= sharedlog.RunsTime:
		return stateGone
	case ago >= lateTime:
		return stateLate
	case writes(l, n.ID):
		return stateHolder
	}
	return stateLive
}

// Listed is a node as ostiary node list prints it.
type Listed struct {
	ID        string    `json:"id"`
	Address   string    `json:"address"`
	Zone      string    `json:"zone"`
	Preferred bool      `json:"preferred"`
	Start     uint64    `json:"start"`
	State     string    `json:"state"`
	Writes    bool      `json:"writes"`
	Applied   uint64    `json:"applied"`
	Lag       uint64    `json:"lag"` // when the node reported
	Synced    uint64    `json:"synced"`
	Reads     uint32    `json:"reads"`
	Seen      time.Time `json:"seen"`
	// Log is what the node does for the log, if the nodes keep it themselves: leads, votes
	// or follows.
	Log string `json:"log,omitempty"`
	// AgoMillis is how long ago the node was seen, by the clock of the log.
	AgoMillis int64 `json:"agoMillis"`
}

// ago returns how long ago the node was seen.
func (l *Listed) ago() string {
	if l.Start == 0 {
		return "never"
	}
	return (time.Duration(l.AgoMillis) * time.Millisecond).Round(time.Second).String() + " ago"
}

func (a *app) listCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{Use: "list", Short: "List the nodes that are registered in a shared log", Args: cobra.NoArgs,
		Long: "List the nodes that are registered in a shared log. Each of them reports every 5 seconds: its figures are those of the time\n" +
			"under SEEN. Both figures are numbers of segments of the log: APPLIED is the last one that the copy of the node has, so that its reads show it;\n" +
			"SYNCED is the last one that is in the copy on its disk for certain. SYNCED is behind APPLIED as a rule, because a copy is written to the disk now and then:\n" +
			"nothing is lost then, since the log has the rest. LAG is how many segments of the log the node had not applied.\n" +
			"STATE is holder (it writes), live, late (no report for 12 seconds), gone (none for 30 seconds) or stopped (it has ended in order).\n" +
			"Without --log, the server that has the folder of --data open is asked: a node of a cluster without a database.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := ask(cmd.Context(), a, at, ListCommand, struct{}{}, List)
			if err != nil {
				return err
			}
			return a.Print(map[string]any{"nodes": nodes}, func(w io.Writer) {
				cli.Printf(w, "ID\tADDRESS\tZONE\tSTART\tSTATE\tLOG\tAPPLIED\tLAG\tSYNCED\tSEEN\n")
				for _, n := range nodes {
					zone, log := n.Zone, n.Log
					if zone == "" {
						zone = "-"
					}
					if n.Preferred {
						zone += " (preferred)"
					}
					if log == "" {
						log = "-"
					}
					cli.Printf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%d\t%d\t%d\t%s\n", n.ID, n.Address, zone, n.Start, n.State, log, n.Applied, n.Lag, n.Synced, n.ago())
				}
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	return cmd
}

// List returns the nodes of the registry of a log.
func List(ctx context.Context, log sharedlog.Log, _ struct{}) ([]Listed, error) {
	lease, err := log.Lease(ctx)
	if err != nil {
		return nil, err
	}
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Listed, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, Listed{ID: n.ID.String(), Address: n.Address, Zone: n.Zone, Preferred: n.Preferred, Start: n.Start,
			State: state(&n, lease, now), Writes: writes(lease, n.ID), Applied: n.Applied, Lag: max(n.Head, n.Applied) - n.Applied,
			Synced: n.Synced, Reads: n.Reads, Seen: n.Seen, AgoMillis: now.Sub(n.Seen).Milliseconds()})
	}
	return out, nil
}

// writes reports whether a node holds a lease, and has not resigned.
func writes(l sharedlog.Lease, id storage.NodeID) bool { return l.Holder == id && l.Renewals > 0 }

func (a *app) removeCommand() *cobra.Command {
	var at string
	var force bool
	cmd := &cobra.Command{Use: "remove ID", Short: "Remove a node from the registry of a shared log", Args: cobra.ExactArgs(1),
		Long: "Remove a node that does not come back from the registry of a shared log, so that trimming and the rotation of keys do not wait for it.\n" +
			"The others refuse the node from then on, and its certificate. A node that still runs ends, and does not start again: a new node has a new, empty folder.\n" +
			"Without --log, the server that has the folder of --data open is asked: any node of a cluster without a database. The majority then no longer counts\n" +
			"the removed node, and a new folder joins with a token. To replace a node, remove it first.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := storage.ParseNodeID(args[0])
			if err != nil {
				return fmt.Errorf("%w: %w", cli.ErrUsage, err)
			}
			done, err := ask(cmd.Context(), a, at, RemoveCommand, RemoveOptions{id, force}, Remove)
			if err != nil {
				return err
			}
			return a.Print(map[string]any{"removed": id.String(), "authority": done.Authority}, func(w io.Writer) {
				cli.Printf(w, "removed node %s\n", id)
				if done.Authority {
					cli.Printf(w, "its folder still has the key of the nodes' authority: unless you destroy the folder, replace the authority with \"ostiary node rotate-authority\"\n")
				}
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	cmd.Flags().BoolVar(&force, "force", false, "remove a node that has reported in the last 30 seconds, or that writes")
	return cmd
}

// ErrUnknown means that no such node is registered.
var ErrUnknown = errors.New("unknown node")

// Remove removes a node from the registry of a log. Unless o.Force is set, it refuses a
// node that runs, or that writes. It fails with ErrUnknown if there is none.
func Remove(ctx context.Context, log sharedlog.Log, o RemoveOptions) (done Removed, err error) {
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return done, err
	}
	lease, err := log.Lease(ctx)
	if err != nil {
		return done, err
	}
	for _, n := range nodes {
		switch {
		case n.ID != o.ID:
			continue
		case o.Force:
		case n.Runs(now):
			return done, fmt.Errorf("%w: node %s reported %s ago, so it may run: stop it first; a node that was killed counts as gone %s after its last report, or with --force at once",
				cli.ErrUsage, n.ID, now.Sub(n.Seen).Round(time.Millisecond), sharedlog.RunsTime)
		case writes(lease, n.ID):
			return done, fmt.Errorf("%w: node %s holds the lease of the node that writes: wait until another one has taken over, or --force", cli.ErrUsage, n.ID)
		}
		return done, sharedlog.Remove(ctx, log, n.ID)
	}
	return done, fmt.Errorf("%w: no node %s is registered; \"ostiary node list\" shows the nodes", ErrUnknown, o.ID)
}
