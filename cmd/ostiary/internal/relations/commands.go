// Package relations has the commands on stores: schemas, tuples, questions, the
// log, and copies of stores. [Commands] returns them. Each works on a data folder
// and on a server. It never decides anything.
package relations

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct{ *cli.App }

// Commands returns the commands on stores.
func Commands(run *cli.App) []*cobra.Command {
	a := &app{run}
	return []*cobra.Command{a.storeCommand(), a.schemaCommand(), a.tupleCommand(), a.importCommand(), a.checkCommand(), a.listCommand(),
		a.expandCommand(), a.explainCommand(), a.entitlementsCommand(), a.diffCommand(), a.whatIfCommand(), a.watchCommand(), a.changesCommand()}
}

// AddCompletion makes the shell complete the arguments and flags of root and its
// subcommands.
func AddCompletion(run *cli.App, root *cobra.Command) {
	a := &app{run}
	a.completeArguments(root)
	root.RegisterFlagCompletionFunc("store", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.storeNames(cmd), cobra.ShellCompDirectiveNoFileComp
	})
}
