package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// firstCommands prints the commands to begin with, and where all others are: it is what the
// program prints without arguments. It returns the exit code.
func firstCommands(a *cli.App) int {
	program := root(a)
	var out strings.Builder
	fmt.Fprintf(&out, "%s.\n", program.Short)
	for _, group := range [...]struct {
		title string
		names []string
	}{{"Try it", []string{"demo"}}, {"Decide", []string{"check", "explain", "list"}}, {"Serve", []string{"serve"}}, {"Learn", []string{"help"}}} {
		fmt.Fprintf(&out, "\n%s:\n", group.title)
		for _, cmd := range program.Commands() {
			if slices.Contains(group.names, cmd.Name()) {
				fmt.Fprintf(&out, "  %s %-8s %s\n", program.Name(), cmd.Name(), cmd.Short)
			}
		}
	}
	fmt.Fprintf(&out, "\n\"%[1]s --help\" lists all commands and flags, \"%[1]s COMMAND --help\" those of a command.\n", program.Name())
	if _, err := a.Out.Write([]byte(out.String())); err != nil {
		return cli.ExitError
	}
	return cli.ExitOK
}
