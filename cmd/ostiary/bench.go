//go:build !nobench

package main

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/benchmark"
	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// benchCommands returns the command bench.
func benchCommands(a *cli.App) []*cobra.Command { return benchmark.Commands(a) }
