// Command ostiary serves a data folder or runs one command on it: it manages
// stores, schemas and tuples, and runs checks, lists, expansions and
// explanations. It lists the commands, which are in internal. It never decides
// by itself: package ostiary computes every answer.
//
// The exit code is 0 on success (for check: allowed), 1 if a check is denied or
// a store test fails, and 2 on an error.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/auditing"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/backups"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/keys"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/node"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/relations"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/serve"
	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

func main() { start(logs()) }

// logs returns the kinds of shared logs, by the scheme of their URLs.
func logs() map[string]cli.OpenLog {
	onPostgres := func(ctx context.Context, address string) (sharedlog.Log, error) { return postgres.Open(ctx, address) }
	onMySQL := func(ctx context.Context, address string) (sharedlog.Log, error) { return mysql.Open(ctx, address) }
	return map[string]cli.OpenLog{"postgres": onPostgres, "postgresql": onPostgres, "mysql": onMySQL, "mariadb": onMySQL}
}

// start runs the program with these kinds of shared logs, and exits. Tests add one.
func start(logs map[string]cli.OpenLog) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Lookup: os.LookupEnv, Environ: os.Environ(), Logs: logs}
	code := run(ctx, a, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, a *cli.App, args []string) int {
	if len(args) == 0 {
		return firstCommands(a)
	}
	return a.Execute(ctx, root(a), args)
}

// root returns the program with all its commands.
func root(a *cli.App) *cobra.Command {
	cmd := a.RootCommand(slices.Concat(serve.Commands(a), relations.Commands(a), protocols.Commands(a), keys.Commands(a), node.Commands(a), backups.Commands(a), auditing.Commands(a), []*cobra.Command{benchCommand(), demoCommand(a)})...)
	relations.AddCompletion(a, cmd)
	return cmd
}
