package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/bench"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

func (a *app) benchACP() *cobra.Command {
	var f benchFlags
	var o bench.ACPOptions
	var scales []string
	cmd := &cobra.Command{Use: "acp", Short: "Registering and checking documents, as DefraDB's report does", Args: cobra.NoArgs,
		Long: "Register so many documents one by one, check access to one, and ask whether it is registered: the three benchmarks of\n" +
			"DefraDB's report, in memory, on disk without waiting for it as the report's, and on disk with an fsync for each.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, text := range scales {
				n, err := strconv.Atoi(text)
				if err != nil || n < 1 {
					return fmt.Errorf("%w: scale %q is not a number of documents", errUsage, text)
				}
				o.Scales = append(o.Scales, n)
			}
			dir, err := os.MkdirTemp("", "ostiary-bench-")
			if err != nil {
				return err
			}
			err = a.measured(cmd.Context(), &f, func(ctx context.Context, emit func(bench.Record) error) error {
				folder := 0
				disk := func(noSync bool) func() (storage.Driver, error) {
					return func() (storage.Driver, error) {
						folder++
						return pebble.Open(fmt.Sprintf("%s/%d", dir, folder), pebble.Options{NoSync: noSync})
					}
				}
				o.Stores = []bench.ACPStore{{Name: "memory"}, {Name: "pebble, unsynced", Open: disk(true)}, {Name: "pebble, synced", Open: disk(false)}}
				r := &bench.Runner{Emit: emit}
				var end func()
				r.Progress, end = a.progress()
				defer end()
				return errors.Join(r.ACP(ctx, o), emitAll(emit, bench.ACPPublished()))
			})
			return errors.Join(err, os.RemoveAll(dir))
		}}
	f.addOutput(cmd)
	s := cmd.Flags()
	s.StringSliceVar(&scales, "scales", nil, "numbers of documents; 256 to 8192 by default")
	s.IntVar(&o.Runs, "runs", 5, "how often all documents are registered")
	s.DurationVar(&o.Load.Duration, "duration", 300*time.Millisecond, "how long each other cell runs")
	return cmd
}

func emitAll(emit func(bench.Record) error, records []bench.Record) error {
	for _, r := range records {
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) benchPermify() *cobra.Command {
	var f benchFlags
	var o bench.PermifyOptions
	cmd := &cobra.Command{Use: "permify", Short: "Permify's published load test, over its REST API", Args: cobra.NoArgs,
		Long: "Write the load test's data through Permify's REST API, ten tuples and attributes for each id, ask checks and bulk checks,\n" +
			"and then let checks arrive as the load test does, up to --peak a second.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.measured(cmd.Context(), &f, func(ctx context.Context, emit func(bench.Record) error) error {
				o.Load = f.load
				err := a.onSides(ctx, &f, "", nil, 0, emit, func(r *bench.Runner) error { return r.Permify(ctx, o) })
				if err != nil {
					return err
				}
				return emitAll(emit, bench.PermifyPublished())
			})
		}}
	f.add(cmd)
	s := cmd.Flags()
	s.IntVar(&o.IDs, "ids", 100_000, "users, contents and interactions, each")
	s.Float64Var(&o.PeakRate, "peak", 10_000, "checks a second at the end of the ramp; 0 leaves the ramp out")
	s.IntVar(&f.load.Clients, "clients", 8, "requests under way outside of the ramp")
	s.DurationVar(&f.load.Duration, "duration", 3*time.Second, "how long each cell runs outside of the ramp")
	s.DurationVar(&f.load.WarmUp, "warm-up", 300*time.Millisecond, "how long it runs before, unmeasured")
	return cmd
}

func (a *app) benchNative() *cobra.Command {
	var f benchFlags
	var o bench.NativeOptions
	var size string
	cmd := &cobra.Command{Use: "native", Short: "What the neutral doors add: one question through three doors, reasons, entitlements, differences, watches", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Size, err = parseSize(size); err != nil {
				return err
			}
			return a.measured(cmd.Context(), &f, func(ctx context.Context, emit func(bench.Record) error) error {
				o.Load = f.load
				return a.onSides(ctx, &f, "", nil, 0, emit, func(r *bench.Runner) error { return r.Native(ctx, o) })
			})
		}}
	f.add(cmd)
	s := cmd.Flags()
	s.StringVar(&size, "size", "67k", "tuples in the store")
	s.IntVar(&o.Watchers, "watchers", 1_000, "connections that follow the log")
	s.IntVar(&o.Writes, "writes", 50, "changes that they are told of")
	s.IntVar(&f.load.Clients, "clients", 8, "requests under way")
	s.DurationVar(&f.load.Duration, "duration", 3*time.Second, "how long each cell runs")
	s.DurationVar(&f.load.WarmUp, "warm-up", 300*time.Millisecond, "how long it runs before, unmeasured")
	return cmd
}
