package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/databases"
)

func (a *app) benchDatabase() *cobra.Command {
	var f benchFlags
	var o databases.Options
	cmd := &cobra.Command{Use: "database", Short: "Appends, starts and reads with the log in a database, and the bare database in the same run", Args: cobra.NoArgs,
		Long: "Measure the library in this process with its log in a PostgreSQL, MariaDB or Galera database, and the bare database over the same\n" +
			"connection: the same bytes, inserted into a table without anything around it. The database must have no log; the tables are removed at\n" +
			"the end. With --away the database is behind a proxy that delays each way.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Address == "" {
				return fmt.Errorf("%w: --log is missing, expected the URL of a database", cli.ErrUsage)
			}
			for _, d := range o.Delays {
				if d < 0 || d > awayMax {
					return fmt.Errorf("%w: invalid --away %s: expected 0 to %s", cli.ErrUsage, d, awayMax)
				}
			}
			if o.Folder, err = os.MkdirTemp("", "ostiary-bench-"); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(o.Folder)) }()
			return a.measured(cmd.Context(), &f, func(ctx context.Context, emit func(bench.Record) error) error {
				line := a.Progress()
				defer line.End()
				o.Emit, o.Progress = emit, line.Show
				return databases.Run(ctx, o)
			})
		}}
	s := cmd.Flags()
	s.StringVar(&o.Address, "log", "", "URL of the database, with one host: postgres://USER:PASSWORD@HOST:PORT/NAME or mysql://…")
	s.DurationSliceVar(&o.Delays, "away", []time.Duration{0}, "how far away the database is, one way; several are measured in turn: 0,50ms,150ms")
	s.DurationVar(&o.Duration, "duration", 5*time.Second, "duration of each cell")
	s.IntVar(&o.Tuples, "tuples", 500_000, "number of tuples in the snapshot from which a node starts")
	f.addOutput(cmd)
	return cmd
}

// awayMax bounds the delay of a database.
const awayMax = 10 * time.Second
