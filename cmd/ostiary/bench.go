package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// benchCommand returns the command bench, which fails: the benchmarks are another program.
func benchCommand() *cobra.Command {
	return &cobra.Command{Use: "bench", Short: "Where the benchmarks are", Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
		return fmt.Errorf("%w: the benchmarks are the program ostiary-bench, with the same commands and flags: get it next to this program with "+
			"\"go install github.com/ostiary/ostiary/cmd/ostiary-bench@latest\", or build both with \"make build\"", cli.ErrUsage)
	}}
}
