package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/report"
)

// benchFlags select the servers to measure, the load, and the output files.
type benchFlags struct {
	targets []string
	driver  string
	token   string
	peer    bench.Side
	noFloor bool
	// prepare, if not nil, fills the folder of serve before it starts, and args are
	// further arguments of serve.
	prepare func(ctx context.Context, dir string) error
	args    []string
	nodes   int // of serve; 0 and 1 mean a single server

	sizes []string
	cells []string
	load  bench.Load
	lxd   bench.LXDOptions

	out, page string
}

func (f *benchFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringSliceVar(&f.targets, "target", []string{"serve"}, `what to measure, in turn: "serve" starts the program ostiary, "embedded" calls the library in this process, http://HOST:PORT and grpc://HOST:PORT are servers with OpenFGA's API`)
	s.StringVar(&f.driver, "driver", "pebble", `storage of serve and embedded: "pebble", in a new temporary folder, or "memory"`)
	s.StringVar(&f.token, "token", "", "preshared key for the servers at URLs")
	s.BoolVar(&f.noFloor, "no-floor", false, "do not measure the floor: a server that gets the same requests as serve and answers with fixed responses")
	f.addPeer(cmd)
	f.addOutput(cmd)
}

// addPeer adds the flags that describe the servers at URLs.
func (f *benchFlags) addPeer(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.peer.Peer, "peer-name", "peer", "name of the server at the URLs")
	s.StringVar(&f.peer.Version, "peer-version", "", "version of the server at the URLs")
	s.StringVar(&f.peer.Store, "peer-store", "", "storage of the server at the URLs")
	s.IntVar(&f.peer.PID, "peer-pid", 0, "process id of the server at the URLs, to measure its processor time and memory")
}

func (f *benchFlags) addOutput(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "out", "", "append the records to this file, as JSON lines")
	cmd.Flags().StringVar(&f.page, "html", "", "write the records with charts to this HTML file")
}

func (a *app) benchOpenFGA() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{Use: "openfga", Short: "Checks, batches, lists and writes on folders, groups and documents", Args: cobra.NoArgs,
		Long: "Measure what OpenFGA's users measure: direct and indirect checks, batches of 50, lists of 100 and 1,000, deep nesting, wide\n" +
			"fan-out, conditions, writes of 100, and a mix. Every answer is checked; a wrong one is a failure. Cells:\n\n  " + strings.Join(bench.CellsOpenFGA(), ", "),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.measured(cmd.Context(), &f, func(ctx context.Context, emit func(bench.Record) error) error {
				for _, text := range f.sizes {
					size, err := parseSize(text)
					if err == nil && size < bench.SizeMinOpenFGA {
						err = fmt.Errorf("%w: invalid --size %s: expected at least %d tuples", cli.ErrUsage, text, bench.SizeMinOpenFGA)
					}
					if err != nil {
						return err
					}
					model, tuples := bench.WorldOpenFGA(size)
					err = a.onSides(ctx, &f, model, tuples, size, emit, func(r *bench.Runner) error {
						return r.OpenFGA(ctx, bench.OpenFGAOptions{Size: size, Cells: f.cells, Load: f.load})
					})
					if err != nil {
						return err
					}
				}
				return nil
			})
		}}
	f.add(cmd)
	s := cmd.Flags()
	s.StringSliceVar(&f.sizes, "size", []string{"67k"}, "number of tuples in the store, at least 4k; several give a curve: 10k,1M,10M")
	s.StringSliceVar(&f.cells, "cells", nil, "cells to run; default: all")
	s.IntVar(&f.load.Clients, "clients", 0, "number of concurrent requests; default: 8, or 256 with --rate")
	s.Float64Var(&f.load.Rate, "rate", 0, "requests per second, sent on schedule even if responses are late; 0 sends each request when the response before it arrives")
	s.Float64Var(&f.load.RateEnd, "rate-end", 0, "rate at the end; the rate changes linearly from --rate to this")
	s.DurationVar(&f.load.Duration, "duration", 3*time.Second, "duration of each cell")
	s.DurationVar(&f.load.WarmUp, "warm-up", 500*time.Millisecond, "duration of the warm-up before each cell, which is not measured")
	s.DurationVar(&f.load.Timeout, "timeout", 30*time.Second, "maximum duration of one request")
	cmd.PreRun = func(*cobra.Command, []string) {
		if f.load.Clients == 0 && f.load.Rate == 0 {
			f.load.Clients = 8
		}
	}
	return cmd
}

func (a *app) benchLXD() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{Use: "lxd", Short: "The calls that LXD makes to list ten projects", Args: cobra.NoArgs,
		Long: "Replay the 31, 32 or 85 calls that LXD makes of its authorizer for one listing of ten projects with recursion, 50 times,\n" +
			"and show LXD's own published figures next to the results. With --nodes, each target serve is a cluster without a database on this machine,\n" +
			"measured at the node that writes, which the published tables name the leader, and at another one.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.nodes != 1 && (f.nodes < 3 || f.nodes > nodesMax) {
				return fmt.Errorf("%w: invalid --nodes %d: expected 1, or 3 to %d", cli.ErrUsage, f.nodes, nodesMax)
			}
			return a.measured(cmd.Context(), &f, func(ctx context.Context, emit func(bench.Record) error) error {
				model, tuples := bench.WorldLXD()
				err := a.onSides(ctx, &f, model, tuples, 72, emit, func(r *bench.Runner) error { return r.LXD(ctx, f.lxd) })
				if err != nil {
					return err
				}
				return emitAll(emit, bench.LXDPublished())
			})
		}}
	f.add(cmd)
	cmd.Flags().IntVar(&f.lxd.Runs, "runs", 50, "number of listings of each kind")
	cmd.Flags().IntVar(&f.nodes, "nodes", 1, "number of nodes of each target serve")
	return cmd
}

func (a *app) benchReport() *cobra.Command {
	var page string
	cmd := &cobra.Command{Use: "report FILE...", Short: "Show records as a table, or write an HTML page with charts", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []bench.Record
			for _, name := range args {
				file, err := os.Open(name)
				if err != nil {
					return err
				}
				records, err := bench.Read(name, file)
				if err := errors.Join(err, file.Close()); err != nil {
					return err
				}
				all = append(all, records...)
			}
			if page != "" {
				return writePage(page, all)
			}
			return a.Print(all, func(w io.Writer) { report.Text(w, all) })
		}}
	cmd.Flags().StringVar(&page, "html", "", "write the records with charts to this HTML file")
	return cmd
}

func writePage(name string, records []bench.Record) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(report.HTML(file, "What Ostiary's benchmarks measured", records), file.Close())
}

// benchFloor returns the hidden command that runs the floor: a server that does
// nothing, with which the results are compared. The bench commands start it.
func (a *app) benchFloor() *cobra.Command {
	var address, rpc string
	cmd := &cobra.Command{Use: "floor", Short: "Serve the handler that does nothing, for comparison", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return err
			}
			defer bench.HoldHeap()() // serve governs its heap as well
			s := &http.Server{Handler: &bench.Floor{}, ReadHeaderTimeout: 10 * time.Second}
			stop := context.AfterFunc(cmd.Context(), func() { s.Close() })
			defer stop()
			if rpc != "" {
				messages, err := net.Listen("tcp", rpc)
				if err != nil {
					return err
				}
				floor := bench.NewGRPCFloor()
				defer floor.Stop()
				go floor.Serve(messages)
			}
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}}
	cmd.Flags().StringVar(&address, "http", "127.0.0.1:0", "address to listen on")
	cmd.Flags().StringVar(&rpc, "grpc", "", "address to listen on for gRPC")
	return cmd
}

// parseSize parses "67k", "10M" or a plain number.
func parseSize(text string) (int, error) {
	factor := 1.0
	digits := text
	switch {
	case strings.HasSuffix(text, "k"):
		factor, digits = 1e3, text[:len(text)-1]
	case strings.HasSuffix(text, "M"):
		factor, digits = 1e6, text[:len(text)-1]
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n*factor < 1 || n*factor > 1e9 {
		return 0, fmt.Errorf("%w: invalid size %q: expected a number of tuples such as 67k or 10M", cli.ErrUsage, text)
	}
	return int(n * factor), nil
}

// measured runs run and writes the records that it emits to the outputs of the
// flags. After an error it still writes the records emitted before it.
func (a *app) measured(ctx context.Context, f *benchFlags, run func(context.Context, func(bench.Record) error) error) error {
	var records []bench.Record
	var out *os.File
	if f.out != "" {
		file, err := os.OpenFile(f.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer file.Close()
		out = file
	}
	err := run(ctx, func(r bench.Record) error {
		records = append(records, r)
		if out == nil {
			return nil
		}
		return bench.Write(out, r)
	})
	if f.page != "" && len(records) > 0 {
		err = errors.Join(err, writePage(f.page, records))
	}
	if len(records) > 0 {
		err = errors.Join(err, a.Print(records, func(w io.Writer) { report.Text(w, records) }))
	}
	return err
}
