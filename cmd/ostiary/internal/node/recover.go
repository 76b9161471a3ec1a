package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
)

// standing is what ostiary node recover prints.
type standing struct {
	ID      string    `json:"id"`
	Cluster string    `json:"cluster"`
	Term    uint64    `json:"term"`
	Index   uint64    `json:"index"`
	At      time.Time `json:"at"`
	Voters  []string  `json:"voters"` // addresses
}

func standingOf(s raftlog.Standing) standing {
	out := standing{ID: s.ID, Cluster: s.Cluster, Term: s.Term, Index: s.Index, At: s.At.UTC(), Voters: []string{}}
	for _, m := range s.Members {
		if m.Voter {
			out.Voters = append(out.Voters, m.Address)
		}
	}
	return out
}

func (s *standing) print(w io.Writer) {
	cli.Printf(w, "node %s of cluster %s\n", s.ID, s.Cluster)
	at := ""
	if !s.At.IsZero() {
		at = " of " + s.At.Format(time.RFC3339)
	}
	cli.Printf(w, "last entry: term %d, index %d%s\n", s.Term, s.Index, at)
	cli.Printf(w, "voters: %s\n", strings.Join(s.Voters, ", "))
}

// errLoss is the error of a recovery that was not confirmed.
var errLoss = errors.New("nothing was changed: expected --accept-loss. Writes that were acknowledged, and that only other nodes have, are lost then. " +
	"Recover the folder with the highest term, and among those the highest index. While a majority of the voters can come back, start those nodes instead")

func (a *app) recoverCommand() *cobra.Command {
	var accept bool
	var address string
	cmd := &cobra.Command{Use: "recover", Short: "Make one node the whole of a cluster whose majority never comes back", Args: cobra.NoArgs,
		Long: "Make the folder of one stopped node the whole of a cluster without a database whose majority never comes back. Without --accept-loss,\n" +
			"print how far the folder is, and end with an error. The folder becomes a cluster of one node with a new name; other nodes of the old one\n" +
			"are refused, and new folders can join.",
		RunE: func(*cobra.Command, []string) error {
			folder := filepath.Join(a.Data, quorum.FolderName)
			if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: %s is not there: expected the data folder of a node of a cluster without a database", cli.ErrUsage, folder)
			}
			if h := cli.ServerOf(a.Data); h != nil {
				return fmt.Errorf("%w: a server (process %d) has the folder %s open: stop it first", cli.ErrUsage, h.PID, a.Data)
			}
			before, err := quorum.Inspect(folder)
			if err != nil {
				return err
			}
			if !accept {
				found := standingOf(before)
				return errors.Join(a.Print(found, found.print), fmt.Errorf("%w: %w", cli.ErrUsage, errLoss))
			}
			if host, _, err := net.SplitHostPort(address); err != nil || host == "" {
				return fmt.Errorf("%w: invalid --nodes-address %q: expected that of this node, HOST:PORT", cli.ErrUsage, address)
			}
			after, err := quorum.Recover(folder, address)
			if err != nil {
				return err
			}
			found := standingOf(after)
			found.Voters = []string{address}
			return a.Print(found, func(w io.Writer) {
				cli.Printf(w, "recovered; this node is the whole cluster now. Start it with --cluster, and let new folders join\n")
				found.print(w)
			})
		}}
	cmd.Flags().BoolVar(&accept, "accept-loss", false, "recover, and lose what only other nodes have")
	cmd.Flags().StringVar(&address, "nodes-address", "", "with --accept-loss: HOST:PORT where other nodes will reach this one")
	return cmd
}
