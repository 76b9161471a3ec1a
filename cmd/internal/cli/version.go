package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		out := Version()
		return a.Print(out, func(w io.Writer) { Println(w, cmd.Root().Name()+" "+versionText(out)) })
	}}
}

// Version returns the program's version, its commit if that is known, and the
// version and platform of Go.
func Version() map[string]string {
	out := map[string]string{"version": "unknown", "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		out["version"] = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out["commit"] = s.Value
			}
		}
	}
	return out
}

func versionText(v map[string]string) string {
	return fmt.Sprintf("%s (%s, %s)", v["version"], v["go"], v["platform"])
}
