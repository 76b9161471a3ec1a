package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		out := map[string]string{"version": "unknown", "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			out["version"] = info.Main.Version
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					out["commit"] = s.Value
				}
			}
		}
		return a.print(out, func(w io.Writer) {
			fmt.Fprintf(w, "ostiary %s (%s, %s)\n", out["version"], out["go"], out["platform"])
		})
	}}
}
