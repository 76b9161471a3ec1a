package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestDocs: docs/cli.md names every command and every flag.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if path := strings.TrimPrefix(cmd.CommandPath(), "ostiary "); cmd.Runnable() && !cmd.HasSubCommands() && !cmd.Hidden &&
			!strings.Contains(string(text), "`"+path) {
			t.Errorf("docs/cli.md does not name the command %q", path)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(string(text), "--"+f.Name) {
				t.Errorf("docs/cli.md does not name --%s of %q", f.Name, cmd.CommandPath())
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	a := &app{lookup: func(string) (string, bool) { return "", false }}
	walk(a.root())
}
