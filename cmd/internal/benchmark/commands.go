// Package benchmark has the commands that run the workloads of package bench
// against this program, the library or another server. [Commands] returns them. It
// measures nothing itself.
package benchmark

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct{ *cli.App }

// Commands returns the command that measures.
func Commands(run *cli.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{a.benchCommand()}
}
