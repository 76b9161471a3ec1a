package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

func (a *app) benchACP() *cobra.Command {
	var f benchFlags
	var o bench.ACPOptions
	var scales []string
	cmd := &cobra.Command{Use: "acp", Short: "Registering and checking documents, as DefraDB's report does", Args: cobra.NoArgs,
		Long: "Register documents one by one, check access to one, and look up its registration: the three benchmarks of DefraDB's report.\n" +
			"They run in memory, on disk without fsync (as in the report), and on disk with an fsync for each write.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, text := range scales {
				n, err := strconv.Atoi(text)
				if err != nil || n < 1 {
					return fmt.Errorf("%w: invalid scale %q: expected a number of documents", cli.ErrUsage, text)
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
				line := a.Progress()
				defer line.End()
				r := &bench.Runner{Emit: emit, Progress: line.Show}
				return errors.Join(r.ACP(ctx, o), emitAll(emit, bench.ACPPublished()))
			})
			return errors.Join(err, os.RemoveAll(dir))
		}}
	f.addOutput(cmd)
	s := cmd.Flags()
	s.StringSliceVar(&scales, "scales", nil, "numbers of documents; default: 256 to 8192")
	s.IntVar(&o.Runs, "runs", 5, "how many times all documents are registered")
	s.DurationVar(&o.Load.Duration, "duration", 300*time.Millisecond, "duration of each other cell")
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
		Long: "Write the load test's data through Permify's REST API (ten tuples and attributes for each id), run checks and bulk checks,\n" +
			"and then send checks at the rates of the load test, up to --peak per second.",
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
	s.IntVar(&o.IDs, "ids", 100_000, "number of users, of contents and of interactions")
	s.Float64Var(&o.PeakRate, "peak", 10_000, "checks per second at the end of the ramp; 0 skips the ramp")
	s.IntVar(&f.load.Clients, "clients", 8, "number of concurrent requests outside of the ramp")
	s.DurationVar(&f.load.Duration, "duration", 3*time.Second, "duration of each cell outside of the ramp")
	s.DurationVar(&f.load.WarmUp, "warm-up", 300*time.Millisecond, "duration of the warm-up before each cell, which is not measured")
	return cmd
}

func (a *app) benchNative() *cobra.Command {
	var f benchFlags
	var o bench.NativeOptions
	var size string
	cmd := &cobra.Command{Use: "native", Short: "One check through three doors, explanations, entitlements, differences and watches", Args: cobra.NoArgs,
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
	s.StringVar(&size, "size", "67k", "number of tuples in the store")
	s.IntVar(&o.Watchers, "watchers", 1_000, "number of connections that follow the log")
	s.IntVar(&o.Writes, "writes", 50, "number of writes that the watchers receive")
	s.IntVar(&f.load.Clients, "clients", 8, "number of concurrent requests")
	s.DurationVar(&f.load.Duration, "duration", 3*time.Second, "duration of each cell")
	s.DurationVar(&f.load.WarmUp, "warm-up", 300*time.Millisecond, "duration of the warm-up before each cell, which is not measured")
	return cmd
}

func (a *app) benchONAP() *cobra.Command {
	var f benchFlags
	var o bench.ONAPOptions
	cmd := &cobra.Command{Use: "onap", Short: "Health, statistics and decisions of ONAP's PDP, as its performance report", Args: cobra.NoArgs,
		Long: "Create and deploy the policies of the report through ONAP's APIs. Then each user asks for the health, for statistics and for\n" +
			"the seven decisions of the report, with three connections in parallel. The report's own figures follow the results.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.measured(cmd.Context(), &f, func(ctx context.Context, emit func(bench.Record) error) error {
				o.Load = f.load
				err := a.onSides(ctx, &f, "", nil, 0, emit, func(r *bench.Runner) error { return r.ONAP(ctx, o) })
				return errors.Join(err, emitAll(emit, bench.ONAPPublished()))
			})
		}}
	f.add(cmd)
	s := cmd.Flags()
	s.IntSliceVar(&o.Users, "users", []int{10, 20, 40, 80}, "numbers of users, one cell each")
	s.IntVar(&o.Windows, "windows", 1, "number of results of each cell, which show the memory over time")
	s.BoolVar(&o.Flat, "flat", false, "fail if memory, handles or goroutines of the server grow between the first third of the windows and the last window")
	s.DurationVar(&f.load.Duration, "duration", 3*time.Second, "duration of each window")
	s.DurationVar(&f.load.WarmUp, "warm-up", 300*time.Millisecond, "duration of the warm-up before each cell, which is not measured")
	return cmd
}

func (a *app) benchXACML() *cobra.Command {
	var f benchFlags
	var o bench.XACMLOptions
	cmd := &cobra.Command{Use: "xacml", Short: "Decisions on 1 to 100,000 XACML policies, in this process", Args: cobra.NoArgs,
		Long: "Decide on requests for one of many XACML policies, with requests in memory, as XML and as JSON; load the policies, and\n" +
			"change one of them. Figures of other engines follow, quoted.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.measured(cmd.Context(), &f, func(ctx context.Context, emit func(bench.Record) error) error {
				line := a.Progress()
				err := (&bench.Runner{Emit: emit, Progress: line.Show}).XACML(ctx, o)
				if line.End(); err != nil {
					return err
				}
				return emitAll(emit, bench.XACMLQuoted())
			})
		}}
	f.addOutput(cmd)
	s := cmd.Flags()
	s.IntSliceVar(&o.Policies, "policies", []int{1, 100, 10_000, 100_000}, "numbers of policies")
	s.IntSliceVar(&o.Threads, "threads", []int{1, 2}, "numbers of threads that decide")
	s.DurationVar(&o.Duration, "duration", 3*time.Second, "duration of each cell")
	return cmd
}
