// Package cli is the frame of the command line: one run of the program with its
// flags and variables, the data folder that a command opens, the server that it
// sends requests to, and the form of results, errors and hints. Its main type is
// [App]. It has no command of its own except version, and never decides anything.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
)

// App is one run of the program: its streams, its environment and the flags
// that every command shares.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Lookup   func(string) (string, bool)
	Environ  []string // the variables to search for misspelt names; none are searched if it is nil
	// Logs open the shared logs of several nodes, by the scheme of their URLs.
	Logs map[string]OpenLog

	// The persistent flags.
	Data, Store   string
	Server, Token string
	CaCert        string
	clientCert    string // --client-cert
	clientKey     string // --client-key
	model, tuples string
	LockWait      time.Duration
	SecretKey     string // --secret-key-file
	keystoneKeys  string // --keystone-keys
	// keystoneReceiptKeys is --keystone-receipt-keys.
	keystoneReceiptKeys string
	JSON                bool
	reason              string // --reason
	helpAll             bool   // --help-all

	Patience    Patience // for the source of an import
	notedNoKeys bool     // the warning about a server without keys was printed
	// ambiguous is true if variables name a folder and a server, and the command
	// line neither.
	ambiguous bool
	// engine is that of the open folder; nil without one.
	engine *ostiary.Engine
}

// lockWaitDefault is the default of --lock-wait.
const lockWaitDefault = 5 * time.Second

// StoppedError is the error of work that ended before its end.
type StoppedError struct {
	Err error
	// Done describes how much was done or how to continue, for example
	// " (nothing was imported)".
	Done string
	// Partly is true if a part of an import may be in the store.
	Partly bool
}

func (e *StoppedError) Error() string { return e.Err.Error() + e.Done }

func (e *StoppedError) Unwrap() error { return e.Err }

// interrupted returns the error of a command that ended with err after the user
// interrupted it, and err itself if it has another reason.
func interrupted(ctx context.Context, err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.Cause(ctx)) && !errors.Is(err, authz.ErrCanceled) {
		return err
	}
	if stopped, ok := errors.AsType[*StoppedError](err); ok {
		return &StoppedError{Err: WithText("interrupted", context.Canceled), Done: stopped.Done, Partly: stopped.Partly}
	}
	return WithText("interrupted", context.Canceled)
}

// Environment sets each flag that the command line does not set from its
// OSTIARY_… variable. An empty variable has no effect. A folder that the command
// line names is not replaced by the server of a variable.
func (a *App) Environment(flags *pflag.FlagSet) error {
	var errs []error
	folder, server := flags.Changed("data"), flags.Changed("server")
	if folder && server {
		return fmt.Errorf("%w: --data names a folder and --server a server: expected one of them", ErrUsage)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == helpAllName || folder && f.Name == "server" {
			return
		}
		name := EnvName(f.Name)
		if value, ok := a.Lookup(name); ok && value != "" {
			if err := flags.Set(f.Name, value); err != nil {
				if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
					err = ValueError(name, invalid)
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

// EnvName returns the environment variable that sets a flag.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Group returns a command that only has subcommands.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%w: %q needs a command; see --help", ErrUsage, cmd.CommandPath())
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

// ErrDenied makes the program exit with exitDenied. The command has already
// printed its result, so run prints nothing for it.
var ErrDenied = errors.New("denied")

// Patience is how an import waits for its source. The zero value has the defaults.
type Patience struct {
	// Attempts is how many attempts in a row may fail before the import ends. An
	// attempt that copied something is not counted. Default 6.
	Attempts int
	// Pause is the time before the second attempt; before each further one it is
	// twice as long. Default 500 ms; negative means none.
	Pause time.Duration
	// Silence is how long the source may send no byte of a response. Each further
	// attempt has twice the time. Default one minute.
	Silence time.Duration
}

func (p Patience) WithDefaults() Patience {
	if p.Attempts <= 0 {
		p.Attempts = 6
	}
	if p.Pause == 0 {
		p.Pause = 500 * time.Millisecond
	}
	if p.Silence <= 0 {
		p.Silence = time.Minute
	}
	return p
}

// EnvKeys is the variable with the preshared keys of a server, separated by commas.
const EnvKeys = "OSTIARY_AUTH_KEYS"

// The values of --auth.
const (
	AuthNone      = "none"
	AuthPreshared = "preshared"
	AuthKeys      = "keys"
)

// The exit codes.
const (
	ExitOK     = 0
	exitDenied = 1
	ExitError  = 2
)

// Execute executes a command line with the commands of root, and returns the exit
// code.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrDenied):
		return exitDenied
	}
	a.JSON = a.JSON || slices.Contains(args, "--json") // cobra may fail before it parses the flags
	if ctx.Err() != nil && cmd.Name() != "serve" {     // whose end is an interrupt
		err = interrupted(ctx, err)
	}
	a.reportError(cmd, usageError(root, err))
	return ExitError
}

// RootCommand returns the command of the program ostiary, with the flags that all its
// commands share.
func (a *App) RootCommand(commands ...*cobra.Command) *cobra.Command {
	root := a.Program(&cobra.Command{
		Use:   "ostiary",
		Short: "Decide who may do what, from the relations that you store",
		Long: "Decide who may do what, from the relations that you store.\n\n" +
			"Exit codes: 0 success, or allowed; 1 a check is denied or a store test failed; 2 an error.\n" +
			"An environment variable can set every flag: OSTIARY_DATA sets --data, OSTIARY_ON_DUPLICATE sets --on-duplicate.",
	}, commands...)
	f := root.PersistentFlags()
	f.StringVar(&a.Data, "data", "./ostiary-data", `data folder, or "memory" for an empty folder in memory, which is lost when the command ends`)
	f.StringVar(&a.Store, "store", "", "name or id of the store; required if there are several")
	f.StringVar(&a.SecretKey, "secret-key-file", "", "file of the key that encrypts passwords and other secrets: 32 bytes in base64; default: the data folder's name with .key at its end, if it exists")
	f.DurationVar(&a.LockWait, "lock-wait", lockWaitDefault, "how long to wait for another command that has the folder open")
	f.StringVar(&a.model, "model", "", "with --data memory: a model file to write first")
	f.StringVar(&a.tuples, "tuples", "", "with --data memory: a tuple file to import first")
	f.StringVar(&a.Server, "server", "", "URL of a server to use instead of a folder: http://HOST:PORT or https://HOST:PORT")
	f.StringVar(&a.Token, "token", "", "preshared key for --server; prefer the variable OSTIARY_TOKEN, because other users can read command lines")
	f.StringVar(&a.CaCert, "ca-cert", "", "PEM file of certificates to trust in addition to the system's: of --server, --from https://… and --keystone-oidc")
	f.StringVar(&a.clientCert, "client-cert", "", "PEM file with the certificate that a command shows to --server or --from https://…, and its chain")
	f.StringVar(&a.clientKey, "client-key", "", "PEM file with the key of --client-cert")
	f.StringVar(&a.reason, "reason", "", "why the command writes, for example the number of a ticket: the log of the store keeps it for ever")
	return root
}

// Program makes root the command of a program with commands: variables set flags, --json
// selects the form of results and errors, and mistakes are explained. It returns root.
func (a *App) Program(root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.DisableSuggestions = true
	root.PersistentPreRunE = a.prepare
	root.SetFlagErrorFunc(flagError)
	root.Version = versionText(Version())
	root.SetVersionTemplate(root.Name() + " {{.Version}}\n")
	root.SetUsageFunc(a.usage)
	f := root.PersistentFlags()
	f.BoolVar(&a.JSON, "json", false, "print results and errors as JSON")
	f.Var(helpAll{a}, helpAllName, "help with all flags: also those that few deployments need, and those of every command")
	f.Lookup(helpAllName).NoOptDefVal = "true"
	root.AddCommand(append(commands, a.versionCommand())...)
	nameArguments(root)
	checkHelp(root)
	return root
}

// prepare applies the variables and checks the flags, before a command runs.
func (a *App) prepare(cmd *cobra.Command, _ []string) error {
	if err := requireValues(cmd.Flags()); err != nil {
		return err
	}
	if err := refuseUnused(cmd); err != nil {
		return err
	}
	if err := a.Environment(cmd.Flags()); err != nil {
		return err
	}
	if err := RefuseNegative(cmd.Flags()); err != nil {
		return err
	}
	ctx, err := a.authored(cmd)
	if err != nil {
		return err
	}
	cmd.SetContext(ctx)
	a.warnUnknownVariables(cmd.Root())
	return a.CleanData()
}
