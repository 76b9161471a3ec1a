// Package benchmark has the commands of the program ostiary-bench, which run the workloads
// of package bench against the program ostiary, the library or another server. [Root]
// returns them. It measures nothing itself.
package benchmark

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// app is a run of the program, with the methods of the commands of this package.
type app struct {
	*cli.App
	server string // the file of the program ostiary; "" before it is found
}

// Root returns the program ostiary-bench with all its commands.
func Root(run *cli.App) *cobra.Command {
	a := &app{App: run}
	return run.Program(&cobra.Command{
		Use:   "ostiary-bench",
		Short: "Run published benchmarks of authorization systems, against ostiary or another server",
		Long: "Run published benchmarks of authorization systems, against the program ostiary, the library or another server.\n\n" +
			"The program ostiary is the one next to this program, or else the one in PATH. It must be of the same build.\n" +
			"An environment variable can set every flag: OSTIARY_DURATION sets --duration.",
	}, a.benchOpenFGA(), a.benchLXD(), a.benchCluster(), a.benchACP(), a.benchPermify(), a.benchNative(), a.benchONAP(), a.benchXACML(), a.benchKeystone(), a.benchGeo(), a.benchDatabase(), a.benchReport(), a.benchFloor())
}
