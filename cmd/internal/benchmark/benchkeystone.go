package benchmark

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// keystoneBench are the flags of the benchmark of the Identity API.
type keystoneBench struct {
	benchFlags
	options     bench.KeystoneOptions
	task        string // task file of Rally; "" plays the seven scenarios
	times       int    // iterations of each workload; 0 keeps those of the task
	concurrency []int  // iterations at the same time; none keeps those of the task
	results     string // file of Rally's results; "" writes none
}

func (a *app) benchKeystone() *cobra.Command {
	f := &keystoneBench{}
	f.noFloor = true
	cmd := &cobra.Command{Use: "keystone", Short: "Rally's seven scenarios of Keystone, and validations of tokens", Args: cobra.NoArgs,
		Long: "Play the seven scenarios of Rally that the study of multi-region Keystone deployments plays, with Rally's names of actions and its\n" +
			"three or more logins by password in each iteration, and then again with clients that are logged in. Measure validations of tokens,\n" +
			"also while ten clients log in. The figures of a real Keystone follow the results. Every record has the cost of a password hash.\n\n" +
			"--target http://HOST:PORT is a server of the Identity API under /v3, whose administrator admin has the password in OS_PASSWORD. It\n" +
			"must hash passwords with the same --rounds. What the scenarios create is deleted at the end.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runBenchKeystone(cmd.Context(), f) }}
	s := cmd.Flags()
	s.StringSliceVar(&f.targets, "target", []string{"serve"}, `what to measure, in turn: "serve" starts the program ostiary, http://HOST:PORT is a server of the Identity API`)
	f.addPeer(cmd)
	f.addOutput(cmd)
	s.StringVar(&f.task, "task", "", "task file of Rally in JSON; default: the seven scenarios with the times and the concurrency of Rally's samples")
	s.StringVar(&f.results, "rally-out", "", "write the results in the form of \"rally task report --json\" to this file; several targets get files with a number at their ends")
	s.IntVar(&f.times, "times", 0, "iterations of each workload; default: those of the task")
	s.IntSliceVar(&f.concurrency, "concurrency", nil, "iterations at the same time; several values play each workload with each; default: those of the task")
	s.IntVar(&f.options.Instances, "instances", 1, "how many times each workload runs at the same time: 1 is the study's low load")
	s.IntVar(&f.options.Size.Users, "users", 0, "measure lists and validations of a deployment with so many users, a tenth as many projects, and five grants for each user, instead of the scenarios")
	s.IntVar(&f.options.Rounds, "rounds", password.RoundsDefault, "rounds of bcrypt of the servers' passwords")
	s.DurationVar(&f.options.Load.Duration, "duration", 3*time.Second, "duration of each cell of validations")
	s.DurationVar(&f.options.Load.WarmUp, "warm-up", 300*time.Millisecond, "duration of the warm-up before each cell of validations, which is not measured")
	return cmd
}

func (a *app) runBenchKeystone(ctx context.Context, f *keystoneBench) error {
	if err := f.read(); err != nil {
		return fmt.Errorf("%w: %w", cli.ErrUsage, err)
	}
	f.driver = "pebble"
	if f.options.Password = os.Getenv("OS_PASSWORD"); f.options.Password == "" {
		f.options.Password = rand.Text() // of the server that this command starts
	}
	// Ten clients that log in wait for one another for seconds, on two processors.
	f.args = []string{"--request-timeout", "60s", "--keystone-password-hash-rounds", strconv.Itoa(f.options.Rounds)}
	f.prepare = func(ctx context.Context, dir string) error {
		err := a.bootstrap(ctx, dir, f.options.Password)
		if err == nil && f.options.Size.Users > 0 {
			err = a.loadDeployment(ctx, dir, f.options.Size)
		}
		return err
	}
	written := 0
	f.options.Results = func(s *bench.Side, results []bench.RallyResult) error {
		if f.results == "" {
			return nil
		}
		name := f.results
		if written++; len(f.targets) > 1 {
			name += strconv.Itoa(written)
		}
		return writeRally(name, s.Peer, results)
	}
	return a.measured(ctx, &f.benchFlags, func(ctx context.Context, emit func(bench.Record) error) error {
		err := a.onSides(ctx, &f.benchFlags, "", nil, 0, emit, func(r *bench.Runner) error { return r.Keystone(ctx, f.options) })
		if f.options.Size.Users > 0 {
			return err // no figures were published for that
		}
		return errors.Join(err, emitAll(emit, bench.KeystonePublished()))
	})
}

// loadDeployment adds a large deployment to a folder that has a small one.
func (a *app) loadDeployment(ctx context.Context, dir string, size bench.KeystoneSize) error {
	e, end, err := openFolder(ctx, dir)
	if err != nil {
		return err
	}
	load := func() error {
		store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
		if err != nil {
			return err
		}
		s, err := identity.Open(ctx, store, settings.Deployment{})
		if err != nil {
			return err
		}
		line := a.Progress()
		defer line.End()
		return size.Load(ctx, s, func(done int) { line.Show("loading the deployment", done, 6*size.Users) })
	}
	return errors.Join(load(), end())
}

// read reads the task file and applies the flags that change it.
func (f *keystoneBench) read() error {
	tasks := bench.RallySeven()
	if f.task != "" {
		text, err := os.ReadFile(f.task)
		if err != nil {
			return err
		}
		if tasks, err = bench.ParseRally(text); err != nil {
			return fmt.Errorf("%s: %w", f.task, err)
		}
	}
	all := tasks
	if len(f.concurrency) > 0 {
		all = nil
		for _, n := range f.concurrency {
			for _, w := range slices.Clone(tasks) {
				w.Concurrency = n
				all = append(all, w)
			}
		}
	}
	for i := range all {
		if f.times != 0 {
			all[i].Times = f.times
		}
	}
	f.options.Workloads = all
	return nil
}

// bootstrap makes a deployment in a folder, with the program ostiary.
func (a *app) bootstrap(ctx context.Context, dir, secret string) error {
	program, err := a.ostiary(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "keystone", "bootstrap", "--data", dir, "--bootstrap-region-id", "RegionOne")
	cmd.Env = append(os.Environ(), "OS_BOOTSTRAP_PASSWORD="+secret)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bootstrap: %w: %s", err, out)
	}
	return nil
}

func writeRally(name, peer string, results []bench.RallyResult) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(bench.WriteRally(file, peer, results), file.Close())
}
