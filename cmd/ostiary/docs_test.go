package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/cmd/internal/benchmark"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestDocs checks that docs/cli.md names every command and every flag.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if path := strings.TrimPrefix(cmd.CommandPath(), "ostiary "); cmd.Runnable() && path != "help" && !cmd.HasSubCommands() && !cmd.Hidden &&
			!strings.Contains(string(text), "`"+path) {
			t.Errorf("docs/cli.md does not name the command %q", path)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if cmd.Name() != "serve" && f.Name != "help" && !strings.Contains(string(text), "--"+f.Name) {
				t.Errorf("docs/cli.md does not name --%s of %q", f.Name, cmd.CommandPath())
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	a := &cli.App{Lookup: func(string) (string, bool) { return "", false }}
	walk(root(a))
	walk(benchmark.Root(a))
}

// unusedByServe are the flags of every command that serve refuses or does not use.
var unusedByServe = []string{"help-all", "reason", "server", "store", "token"}

// TestSettings checks that docs/operate/configure.md has every flag of serve, by topic.
// OSTIARY_REWRITE=1 writes them.
func TestSettings(t *testing.T) {
	t.Parallel()
	const file = "../../docs/operate/configure.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a := &cli.App{Lookup: func(string) (string, bool) { return "", false }}
	cmd, _, err := root(a).Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "<!-- settings")
	comment, rest, _ := strings.Cut(rest, "-->\n")
	_, tail, ok := strings.Cut(rest, "<!-- end of settings -->")
	if !ok {
		t.Fatal("docs/operate/configure.md has no marks for the tables")
	}
	var table strings.Builder
	row := func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		fmt.Fprintf(&table, "| `--%s` | %s | %s |\n", f.Name, shownDefault(f), strings.ReplaceAll(f.Usage, "|", "\\|"))
	}
	heading := func(name string) {
		fmt.Fprintf(&table, "\n### %s\n\n| flag | default | meaning |\n|---|---|---|\n", name)
	}
	heading("Flags of every command")
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(unusedByServe, f.Name) {
			row(f)
		}
	})
	for _, group := range cli.Topics(cmd.LocalFlags(), true) {
		if group.Name == "" {
			group.Flags.VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" {
					t.Errorf("--%s has no topic", f.Name)
				}
			})
			continue
		}
		heading(group.Name)
		group.Flags.VisitAll(row)
	}
	golden.Equal(t, file, head+"<!-- settings"+comment+"-->\n"+table.String()+"\n<!-- end of settings -->"+tail)
}

// TestBoundsOfSecurity checks that the bounds in docs/security.md have the defaults of serve.
func TestBoundsOfSecurity(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	a := &cli.App{Lookup: func(string) (string, bool) { return "", false }}
	cmd, _, err := root(a).Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| .* \\| `--([a-z-]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 20 {
		t.Errorf("docs/security.md has %d bounds with a setting, expected at least 20", len(rows))
	}
	for _, row := range rows {
		if f := cmd.Flags().Lookup(row[1]); f == nil {
			t.Errorf("docs/security.md: serve has no flag --%s", row[1])
		} else if got := shownDefault(f); got != row[2] {
			t.Errorf("docs/security.md: --%s has the default %s, expected %s", row[1], row[2], got)
		}
	}
}

// shownDefault returns the default of a flag as a user writes it: 24h for 24h0m0s,
// and a dash for none.
func shownDefault(f *pflag.Flag) string {
	value := strings.Trim(f.DefValue, "[]")
	if f.Value.Type() == "duration" && value != "0s" {
		value = strings.TrimSuffix(value, "m0s") + strings.Repeat("m", strings.Count(value, "m0s"))
		value = strings.TrimSuffix(value, "h0m") + strings.Repeat("h", strings.Count(value, "h0m"))
	}
	if value == "" {
		return "–"
	}
	return "`" + value + "`"
}
