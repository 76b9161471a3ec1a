// Package backups has the commands backup, verify and restore, and the command of the socket of
// a data folder that they use. [Commands] returns them. It has no format of its own: that of a
// backup is in internal/backup.
package backups

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct{ *cli.App }

// Commands returns the commands backup, verify and restore.
func Commands(run *cli.App) []*cobra.Command {
	a := &app{run}
	var all []*cobra.Command
	for _, cmd := range []*cobra.Command{a.backupCommand(), a.verifyCommand(), a.restoreCommand()} {
		all = append(all, cli.Uses(cmd, "data", "secret-key-file", "lock-wait"))
	}
	return all
}
