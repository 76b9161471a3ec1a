// Package serve is the command that serves a data folder: it reads the settings,
// opens the doors and the ports, and runs the server. [Commands] returns the
// command, the one that opens the console on a folder, and the one that asks a server whether it is ready. It lists the doors, and does no work of a door or of package server.
package serve

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct{ *cli.App }

// Commands returns the commands that serve a data folder and ask for the server's health.
func Commands(run *cli.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{a.serveCommand(), a.consoleCommand(), a.healthCommand()}
}
