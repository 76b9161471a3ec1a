// Command ostiary serves a data folder, or works on it: stores, schemas, tuples,
// and the questions check, list, expand and explain. Its main type is app, one
// call of the program. It holds no rule of authorization: the library answers.
//
// It exits with 0 where all went well (for check: allowed), with 1 where a
// check is denied or a store test fails, and with 2 at any error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes.
const (
	exitOK     = 0
	exitDenied = 1
	exitError  = 2
)

// errDenied ends a command with exitDenied; what is to say was said.
var errDenied = errors.New("denied")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, lookup: os.LookupEnv}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// app is one call of the program.
type app struct {
	in       io.Reader
	out, err io.Writer
	lookup   func(string) (string, bool)

	// The flags that every command has.
	data, store   string
	server, token string
	model, tuples string
	json          bool
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errDenied):
		return exitDenied
	}
	a.reportError(err)
	return exitError
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ostiary",
		Short: "Answer who may do what, from relations you store",
		Long: "Answer who may do what, from relations you store.\n\n" +
			"Exit codes: 0 done, or allowed; 1 a check denied or a store test failed; 2 an error.\n" +
			"Every flag can be set by the environment: --data as OSTIARY_DATA, --on-duplicate as OSTIARY_ON_DUPLICATE.",
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.environment(cmd.Flags()) },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	f := root.PersistentFlags()
	f.StringVar(&a.data, "data", "./ostiary-data", `data folder, or "memory" to keep nothing`)
	f.StringVar(&a.store, "store", "", "store, by name or id; needed where there are several")
	f.StringVar(&a.model, "model", "", "with --data memory: write this model first")
	f.StringVar(&a.tuples, "tuples", "", "with --data memory: import these tuples first")
	f.StringVar(&a.server, "server", "", "ask the server at this URL instead of a folder, in OpenFGA's API")
	f.StringVar(&a.token, "token", "", "the server's preshared key; better in the environment, as OSTIARY_TOKEN")
	f.BoolVar(&a.json, "json", false, "answer in JSON")
	root.AddCommand(a.serveCommand(), a.storeCommand(), a.schemaCommand(), a.tupleCommand(), a.checkCommand(), a.listCommand(),
		a.expandCommand(), a.explainCommand(), a.entitlementsCommand(), a.diffCommand(), a.whatIfCommand(), a.watchCommand(), a.changesCommand(), a.permifyCommand(), a.acpCommand(), a.benchCommand(), a.versionCommand())
	return root
}

// environment gives each flag that the command line left out its value from
// OSTIARY_….
func (a *app) environment(flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		name := envName(f.Name)
		if value, ok := a.lookup(name); ok && value != "" {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	return errors.Join(errs...)
}

// envName is the environment's name of a flag.
func envName(flag string) string {
	return "OSTIARY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// group is a command that only has others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%q needs a command; see --help", cmd.CommandPath())
	}}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q; see --help", args[0], cmd.CommandPath())
		}
		return nil
	}
	cmd.AddCommand(commands...)
	return cmd
}
