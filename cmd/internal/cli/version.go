package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
)

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		out := Version()
		return a.Print(out, func(w io.Writer) { Println(w, cmd.Root().Name()+" "+versionText(out)) })
	}}
}

// Version returns the program's version, its commit and the date of that if they are
// known, and the version and platform of Go.
func Version() map[string]string {
	out := map[string]string{"version": "unknown", "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		out["version"] = info.Main.Version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				out["commit"] = s.Value
			case "vcs.time":
				out["date"] = s.Value
			}
		}
	}
	return out
}

func versionText(v map[string]string) string {
	commit := ""
	if len(v["commit"]) > 12 && len(v["date"]) > len(time.DateOnly) {
		commit = fmt.Sprintf("commit %s of %s, ", v["commit"][:12], v["date"][:len(time.DateOnly)])
	}
	return fmt.Sprintf("%s (%s%s, %s)", v["version"], commit, v["go"], v["platform"])
}
