// Command ostiary serves a data folder or runs one command on it: it manages
// stores, schemas and tuples, and runs checks, lists, expansions and
// explanations. Its main type is app, one run of the program. It never decides
// by itself: package ostiary computes every answer.
//
// The exit code is 0 on success (for check: allowed), 1 if a check is denied or
// a store test fails, and 2 on an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary"
)

// The exit codes.
const (
	exitOK     = 0
	exitDenied = 1
	exitError  = 2
)

// errDenied makes the program exit with exitDenied. The command has already
// printed its result, so run prints nothing for it.
var errDenied = errors.New("denied")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, lookup: os.LookupEnv, environ: os.Environ()}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// lockWaitDefault is the default of --lock-wait.
const lockWaitDefault = 5 * time.Second

// app is one run of the program: its streams, its environment and the flags
// that every command shares.
type app struct {
	in       io.Reader
	out, err io.Writer
	lookup   func(string) (string, bool)
	environ  []string // the variables to search for misspelt names

	// The persistent flags.
	data, store   string
	server, token string
	caCert        string
	model, tuples string
	lockWait      time.Duration
	secretKey     string // --secret-key-file
	keystoneKeys  string // --keystone-keys
	// keystoneReceiptKeys is --keystone-receipt-keys.
	keystoneReceiptKeys string
	json                bool
	reason              string // --reason

	patience    patience // for the source of an import
	notedNoKeys bool     // the warning about a server without keys was printed
	// ambiguous is true if variables name a folder and a server, and the command
	// line neither.
	ambiguous bool
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errDenied):
		return exitDenied
	}
	a.json = a.json || slices.Contains(args, "--json") // cobra may fail before it parses the flags
	if ctx.Err() != nil && cmd.Name() != "serve" {     // whose end is an interrupt
		err = interrupted(ctx, err)
	}
	a.reportError(cmd, usageError(root, err))
	return exitError
}

// stoppedError is the error of work that ended before its end.
type stoppedError struct {
	err error
	// done describes how much was done or how to continue, for example
	// " (nothing was imported)".
	done string
	// partly is true if a part of an import may be in the store.
	partly bool
}

func (e *stoppedError) Error() string { return e.err.Error() + e.done }
func (e *stoppedError) Unwrap() error { return e.err }

// interrupted returns the error of a command that ended with err after the user
// interrupted it, and err itself if it has another reason.
func interrupted(ctx context.Context, err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.Cause(ctx)) && !errors.Is(err, ostiary.ErrCanceled) {
		return err
	}
	if stopped, ok := errors.AsType[*stoppedError](err); ok {
		return &stoppedError{&clearError{"interrupted", context.Canceled}, stopped.done, stopped.partly}
	}
	return &clearError{"interrupted", context.Canceled}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ostiary",
		Short: "Decide who may do what, from the relations that you store",
		Long: "Decide who may do what, from the relations that you store.\n\n" +
			"Exit codes: 0 success, or allowed; 1 a check is denied or a store test failed; 2 an error.\n" +
			"An environment variable can set every flag: OSTIARY_DATA sets --data, OSTIARY_ON_DUPLICATE sets --on-duplicate.",
		SilenceUsage: true, SilenceErrors: true,
		DisableSuggestions: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireValues(cmd.Flags()); err != nil {
				return err
			}
			if err := a.environment(cmd.Flags()); err != nil {
				return err
			}
			if err := refuseNegative(cmd.Flags()); err != nil {
				return err
			}
			ctx, err := a.authored(cmd)
			if err != nil {
				return err
			}
			cmd.SetContext(ctx)
			a.warnUnknownVariables(cmd.Root())
			return a.cleanData()
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.Version = versionText(version())
	root.SetVersionTemplate("ostiary {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&a.data, "data", "./ostiary-data", `data folder, or "memory" for an empty folder in memory, which is lost when the command ends`)
	f.StringVar(&a.store, "store", "", "name or id of the store; required if there are several")
	f.StringVar(&a.secretKey, "secret-key-file", "", "file of the key that encrypts passwords and other secrets: 32 bytes in base64; default: the data folder's name with .key at its end, if it exists")
	f.DurationVar(&a.lockWait, "lock-wait", lockWaitDefault, "how long to wait for another command that has the folder open")
	f.StringVar(&a.model, "model", "", "with --data memory: a model file to write first")
	f.StringVar(&a.tuples, "tuples", "", "with --data memory: a tuple file to import first")
	f.StringVar(&a.server, "server", "", "URL of a server to use instead of a folder: http://HOST:PORT or https://HOST:PORT")
	f.StringVar(&a.token, "token", "", "preshared key for --server; prefer the variable OSTIARY_TOKEN, because other users can read command lines")
	f.StringVar(&a.caCert, "ca-cert", "", "PEM file of certificates to trust in addition to the system's: of --server, --from https://… and --keystone-oidc")
	f.StringVar(&a.reason, "reason", "", "why the command writes, for example the number of a ticket: the log of the store keeps it for ever")
	f.BoolVar(&a.json, "json", false, "print results and errors as JSON")
	root.AddCommand(a.serveCommand(), a.storeCommand(), a.schemaCommand(), a.tupleCommand(), a.importCommand(), a.checkCommand(), a.listCommand(),
		a.expandCommand(), a.explainCommand(), a.entitlementsCommand(), a.diffCommand(), a.whatIfCommand(), a.watchCommand(), a.changesCommand(), a.permifyCommand(), a.acpCommand(), a.xacmlCommand(), a.keystoneCommand(), a.benchCommand(), a.versionCommand())
	nameArguments(root)
	checkHelp(root)
	a.addCompletion(root)
	root.RegisterFlagCompletionFunc("store", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.storeNames(cmd), cobra.ShellCompDirectiveNoFileComp
	})
	return root
}

// environment sets each flag that the command line does not set from its
// OSTIARY_… variable. An empty variable has no effect. A folder that the command
// line names is not replaced by the server of a variable.
func (a *app) environment(flags *pflag.FlagSet) error {
	var errs []error
	folder, server := flags.Changed("data"), flags.Changed("server")
	if folder && server {
		return fmt.Errorf("%w: --data names a folder and --server a server: expected one of them", errUsage)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || folder && f.Name == "server" {
			return
		}
		name := envName(f.Name)
		if value, ok := a.lookup(name); ok && value != "" {
			if err := flags.Set(f.Name, value); err != nil {
				if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
					err = valueError(name, invalid)
				}
				errs = append(errs, err)
			}
		}
	})
	a.ambiguous = !server && flags.Changed("data") && flags.Changed("server")
	return errors.Join(errs...)
}

// envPrefix is the start of the names of the program's variables.
const envPrefix = "OSTIARY_"

// envName returns the environment variable that sets a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// group returns a command that only has subcommands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%w: %q needs a command; see --help", errUsage, cmd.CommandPath())
	}}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return nil
	}
	cmd.AddCommand(commands...)
	return cmd
}
