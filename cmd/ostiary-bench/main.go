// Command ostiary-bench measures the program ostiary, which it starts, the library in its
// own process, or another server, with workloads that others have published. Its commands
// are in package benchmark. It is a program of its own because load generators and charts
// are no part of a server.
//
// The exit code is 0 on success, and 2 on an error.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ostiary/ostiary/cmd/internal/benchmark"
	"github.com/ostiary/ostiary/cmd/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The variables of the server are set for the servers that it starts, so no variable is
	// searched for misspelt names.
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Lookup: os.LookupEnv}
	code := a.Execute(ctx, benchmark.Root(a), os.Args[1:])
	stop()
	os.Exit(code)
}
