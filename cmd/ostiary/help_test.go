package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/benchmark"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestHelp compares the help of every command with testdata/help.golden.
func TestHelp(t *testing.T) {
	t.Parallel()
	app := func(out *bytes.Buffer) *cli.App {
		return &cli.App{In: strings.NewReader(""), Out: out, Err: out, Lookup: func(string) (string, bool) { return "", false }}
	}
	var all strings.Builder
	var walk func(program func(*cli.App) *cobra.Command, cmd *cobra.Command)
	walk = func(program func(*cli.App) *cobra.Command, cmd *cobra.Command) {
		var out bytes.Buffer
		arguments := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		a := app(&out)
		code := a.Execute(context.Background(), program(a), arguments)
		fmt.Fprintf(&all, "==== %s --help: exit %d ====\n%s\n", cmd.CommandPath(), code, out.String())
		for _, sub := range cmd.Commands() {
			walk(program, sub)
		}
	}
	for _, program := range []func(*cli.App) *cobra.Command{root, benchmark.Root} {
		walk(program, program(app(new(bytes.Buffer))))
	}
	golden.Equal(t, "testdata/help.golden", all.String())
}
