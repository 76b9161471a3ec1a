// Package protocols has the commands for the records of protocols: policies of
// XACML and of document access control, deployments of OpenStack Identity, and
// Permify's validation files. [Commands] returns them. It has no rules of these
// protocols.
package protocols

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct{ *cli.App }

// Commands returns the commands of protocols.
func Commands(run *cli.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{a.permifyCommand(), a.acpCommand(), a.xacmlCommand(), a.keystoneCommand()}
}
