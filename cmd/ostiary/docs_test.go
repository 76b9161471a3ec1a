package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/internal/golden"
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
	a := &app{lookup: func(string) (string, bool) { return "", false }}
	walk(a.root())
}

// TestSettings checks that the table in docs/operations.md has every setting of
// serve. OSTIARY_REWRITE=1 rewrites the table.
func TestSettings(t *testing.T) {
	t.Parallel()
	const file = "../../docs/operations.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{lookup: func(string) (string, bool) { return "", false }}
	cmd, _, err := a.root().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "<!-- settings")
	comment, rest, _ := strings.Cut(rest, "-->\n")
	_, tail, ok := strings.Cut(rest, "<!-- end of settings -->")
	if !ok {
		t.Fatal("docs/operations.md has no marks for the table")
	}
	var table strings.Builder
	fmt.Fprint(&table, "| setting | environment | default | meaning |\n|---|---|---|---|\n")
	row := func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		value := f.DefValue
		if value == "" || value == "[]" {
			value = "–"
		} else {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&table, "| `--%s` | `%s` | %s | %s |\n", f.Name, envName(f.Name), value, strings.ReplaceAll(f.Usage, "|", "\\|"))
	}
	row(cmd.InheritedFlags().Lookup("data"))
	cmd.LocalFlags().VisitAll(row)
	want := head + "<!-- settings" + comment + "-->\n" + table.String() + "<!-- end of settings -->" + tail
	if want == string(text) {
		return
	}
	if !golden.Rewrite() {
		t.Fatal("the table in docs/operations.md differs from the code; OSTIARY_REWRITE=1 rewrites it")
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
