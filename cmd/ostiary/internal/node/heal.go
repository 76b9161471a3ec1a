package node

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

func (a *app) healCommand() *cobra.Command {
	var at string
	var force bool
	cmd := &cobra.Command{Use: "heal", Short: "Give a shared log that has lost its end what this node has", Args: cobra.NoArgs,
		Long: "Give a shared log what the data folder of this node has: its database was restored from a backup, is new, or another one has taken over that did not\n" +
			"have the last writes. Stop all nodes first, and run the command where --data is the folder of the node that has most (\"ostiary node list\", or its error).\n" +
			"It stores a snapshot in the log, and the log goes on where the folder ends. Other nodes take what they lack when they start.\n\n" +
			"It refuses a log with segments that the folder does not have, because something else was written after the loss. To keep what the log has, move the\n" +
			"folders of the nodes away: each node takes a new copy. What is only in the old folders is lost then; \"ostiary node lost\" lists it.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := needLog(at); err != nil {
				return err
			}
			key, err := a.ReadSecretKey()
			if err != nil {
				return err
			}
			local, err := a.OpenCopy(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, local.Close()) }()
			return a.withLog(cmd.Context(), at, func(log sharedlog.Log) error {
				h, err := replica.Heal(cmd.Context(), log, local, replica.Fingerprint(key), force)
				if errors.Is(err, storage.ErrHistory) {
					err = fmt.Errorf("%w. Something else was written to the log, or it has lost nothing: start the node, or move %s away to take what the log has, after \"ostiary node lost\" has listed what is lost then", err, a.Data)
				}
				if err != nil {
					return err
				}
				out := map[string]any{"had": h.Had.Sequence, "has": h.Has.Sequence, "secrets": h.Secrets}
				return a.Print(out, func(w io.Writer) {
					if h.Had == h.Has {
						cli.Printf(w, "the log has lost nothing that this node has: both end with segment %s\n", h.Has)
						return
					}
					cli.Printf(w, "the log ended with segment %s; it has %s and goes on after segment %s: start the nodes\n", h.Had, cli.Plural(int(h.Has.Sequence-h.Had.Sequence), "segment")+" more", h.Has)
				})
			})
		}}
	cli.AddLog(cmd.Flags(), &at)
	cmd.Flags().BoolVar(&force, "force", false, "do not check whether nodes have reported in the last 30 seconds; a restored log has the reports of the time of its backup")
	return cmd
}
