package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// TestPrecedence sets each flag of serve in the configuration file, in the environment and on
// the command line, in all combinations. The line has precedence over the environment, and
// that over the file. The values are only parsed, so most name nothing that exists.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	values := map[string][3]string{
		"bool": {"true", "false", "true"}, "duration": {"1s", "2s", "3s"}, "int": {"11", "12", "13"}, "int64": {"11", "12", "13"}, "uint64": {"11", "12", "13"},
		"float64": {"0.25", "0.5", "0.75"}, "bytes": {"11KiB", "12KiB", "13KiB"}, "number": {"11", "12", "13"},
		"string": {"file", "variable", "line"}, "stringSlice": {"file", "variable", "line"}, "stringArray": {"file", "variable", "line"},
		"id": {"01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW", "01ARZ3NDEKTSV4RRFFQ69G5FAX"},
	}
	var flags []*pflag.Flag
	Commands(&cli.App{})[0].LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "config" {
			flags = append(flags, f)
		}
	})
	if len(flags) < 100 {
		t.Fatalf("serve has %d flags, expected at least 100", len(flags))
	}
	dir := t.TempDir()
	for _, f := range flags {
		of, known := values[f.Value.Type()]
		if !known {
			t.Fatalf("--%s has the type %s: add values", f.Name, f.Value.Type())
		}
		for set := 1; set < 8; set++ { // bits of the ways: 1 is the file, 2 the variable, 4 the line
			want := of[0]
			for way, value := range of {
				if set&(1<<way) != 0 {
					want = value
				}
			}
			if got := oneSetting(t, dir, f, of, set); got != want && got != "["+want+"]" {
				t.Errorf("--%s, set in the ways %03b: got %q, expected %q", f.Name, set, got, want)
			}
		}
	}
}

// oneSetting returns the value that serve uses for a flag that some of the ways set.
func oneSetting(t *testing.T, dir string, f *pflag.Flag, of [3]string, set int) (got string) {
	t.Helper()
	var args []string
	lookup := func(string) (string, bool) { return "", false }
	if set&1 != 0 {
		file := filepath.Join(dir, "settings.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, "%s: %q\n", f.Name, of[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", file)
	}
	if set&2 != 0 {
		lookup = func(name string) (string, bool) { return of[1], name == cli.EnvName(f.Name) }
	}
	if set&4 != 0 {
		args = append(args, "--"+f.Name+"="+of[2])
	}
	var out strings.Builder
	a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &out, Lookup: lookup}
	cmd := Commands(a)[0]
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		config, err := cmd.Flags().GetString("config")
		err = errors.Join(err, applyConfig(cmd.Flags(), config))
		got = cmd.Flags().Lookup(f.Name).Value.String()
		return err
	}
	if code := a.Execute(t.Context(), a.RootCommand(cmd), append([]string{"serve"}, args...)); code != cli.ExitOK {
		t.Errorf("%q exits with %d: %s", args, code, out.String())
	}
	return got
}
