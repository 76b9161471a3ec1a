// Package node has the commands for the nodes of a cluster: certificates, the registry of
// a shared log, and the move of stores between folders and logs. [Commands] returns them.
// It has no rule of a cluster: those are in internal/cluster.
package node

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct{ *cli.App }

// Commands returns the command node with its subcommands, and migrate.
func Commands(run *cli.App) []*cobra.Command {
	a := &app{run}
	nodes := cli.Group("node", "Prepare and watch the nodes of a cluster", a.certificateCommand(), a.tokenCommand(), a.listCommand(), a.removeCommand(), a.rotateCommand(), a.settingsCommand(), a.upgradeCommand(), a.recoverCommand(), a.healCommand(), a.lostCommand())
	return []*cobra.Command{cli.Uses(nodes, "data", "secret-key-file", "lock-wait"), cli.Uses(a.migrateCommand(), "secret-key-file", "lock-wait")}
}
