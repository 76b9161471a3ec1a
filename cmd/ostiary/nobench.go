//go:build nobench

package main

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// benchCommands returns none: a program built with the tag nobench has no load
// generators and no charts.
func benchCommands(*cli.App) []*cobra.Command { return nil }
