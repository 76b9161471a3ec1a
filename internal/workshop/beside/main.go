//go:build linux

// Command beside builds the program of an earlier commit and that of the work tree, plays
// ten hot paths on both in turns, and prints the ratios: "make beside-main BASE=COMMIT". A
// ratio above 1 means that the work tree needs more. It ends only processes that it has
// started, and asserts nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// options are the settings of a comparison.
type options struct {
	turns   int           // of each path and program
	time    time.Duration // of a turn
	clients int           // that send at the same time
	only    string        // a part of the names of the paths to play; "" plays all
}

// figure is what one request needs: the time for which its client waits, and the processor
// time of the server. 0 means unknown.
type figure struct{ clock, processor time.Duration }

// play plays one turn and returns the mean figure of its requests.
type play func(ctx context.Context) (figure, error)

func main() {
	var o options
	base := flag.String("base", "", "the earlier commit")
	flag.IntVar(&o.turns, "turns", 20, "turns of each path and program")
	flag.DurationVar(&o.time, "time", 2*time.Second, "time of a turn")
	flag.IntVar(&o.clients, "clients", 1, "clients that send at the same time")
	flag.StringVar(&o.only, "only", "", "a part of the names of the paths to play; default: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *base, o); err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
}

// run builds both programs, compares them and prints the table.
func run(ctx context.Context, w io.Writer, base string, o options) (err error) {
	if base == "" {
		return errors.New("no earlier commit: expected -base COMMIT")
	}
	folder, err := os.MkdirTemp("", "ostiary-beside-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	earlier := filepath.Join(folder, "source")
	if err := command(ctx, ".", "git", "worktree", "add", "--detach", earlier, base); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, command(context.WithoutCancel(ctx), ".", "git", "worktree", "remove", "--force", earlier))
	}()
	var programs [2]string
	for i, source := range []string{earlier, "."} {
		built := filepath.Join(folder, []string{"base", "tree"}[i])
		if err := command(ctx, source, "go", "build", "-o", built+"/", "./cmd/..."); err != nil {
			return err
		}
		programs[i] = filepath.Join(built, "ostiary")
	}
	name, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s compared with %s, %s, %s, load %.1f at the start, %d turns of %s, clients: %d\n\n", strings.TrimSpace(string(name)), base,
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), bench.Machine(), bench.LoadAverage(), o.turns, o.time, o.clients)
	rows, err := compare(ctx, folder, programs, o, func(line string) { fmt.Fprintln(os.Stderr, line) })
	return errors.Join(err, print(w, rows))
}

// command runs a program in a folder. The error has what it printed.
func command(ctx context.Context, folder, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// row is the figures of a path: of each turn, those of both programs.
type row struct {
	name  string
	turns [][2]figure
}

// compare plays the paths on both programs. The first turn of each is a warm-up, and the
// programs take turns in being the first. tell gets the name of each path.
func compare(ctx context.Context, folder string, programs [2]string, o options, tell func(string)) (rows []row, err error) {
	var all [2]*side
	for i, program := range programs {
		all[i] = &side{program: program, folder: filepath.Join(folder, fmt.Sprint("data-", i)), options: o}
		if err := os.MkdirAll(all[i].folder, 0o755); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, all[i].close()) }()
		if err := all[i].start(ctx); err != nil {
			return nil, err
		}
	}
	for _, p := range paths {
		if !strings.Contains(p.name, o.only) {
			continue
		}
		tell(p.name)
		r, err := p.row(ctx, all, o.turns)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", p.name, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// row plays the turns of a path.
func (p path) row(ctx context.Context, all [2]*side, turns int) (r row, err error) {
	r.name = p.name
	var plays [2]play
	for i, s := range all {
		var end func() error
		if plays[i], end, err = p.prepare(ctx, s); end != nil {
			defer func() { err = errors.Join(err, end()) }()
		}
		if err != nil {
			return r, err
		}
	}
	for turn := range turns + 1 {
		var both [2]figure
		for n := range both {
			i := (turn + n) % 2
			if both[i], err = plays[i](ctx); err != nil {
				return r, err
			}
		}
		if turn > 0 {
			r.turns = append(r.turns, both)
		}
	}
	return r, nil
}

// print prints a table of the medians of both programs, of the median of the ratios of the
// turns, and in brackets of its quartiles.
func print(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| path\t| base\t| tree\t| ratio\t| processor, base\t| tree\t| ratio\t|")
	fmt.Fprintln(t, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range rows {
		fmt.Fprintf(t, "| %s\t", r.name)
		for _, of := range []func(figure) time.Duration{func(f figure) time.Duration { return f.clock }, func(f figure) time.Duration { return f.processor }} {
			var sides [2][]float64
			var ratios []float64
			for _, both := range r.turns {
				for i := range both {
					sides[i] = append(sides[i], float64(of(both[i])))
				}
				if of(both[0]) > 0 && of(both[1]) > 0 {
					ratios = append(ratios, float64(of(both[1]))/float64(of(both[0])))
				}
			}
			if len(ratios) == 0 {
				fmt.Fprint(t, "| –\t| –\t| –\t")
				continue
			}
			fmt.Fprintf(t, "| %s\t| %s\t| %.2f (%.2f to %.2f)\t", micros(quantile(sides[0], .5)), micros(quantile(sides[1], .5)),
				quantile(ratios, .5), quantile(ratios, .25), quantile(ratios, .75))
		}
		fmt.Fprintln(t, "|")
	}
	return t.Flush()
}

// micros prints nanoseconds.
func micros(nanos float64) string { return fmt.Sprintf("%.1f µs", nanos/1000) }

// quantile returns the quantile q of values, of which there is at least one.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}
