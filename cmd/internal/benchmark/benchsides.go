package benchmark

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
	"github.com/ostiary/ostiary/storage/pebble"
)

// sides opens the servers that a benchmark compares, and closes them.
type sides struct {
	app   *app
	flags *benchFlags
	// model and tuples fill the store before the run, in OpenFGA's form. model is ""
	// if the workload writes its own data.
	model  string
	tuples bench.Tuples
	size   int

	list    []bench.Side
	closers []func() error
}

// onSides opens every target of the flags, calls run, and closes the targets.
func (a *app) onSides(ctx context.Context, f *benchFlags, model string, tuples bench.Tuples, size int, emit func(bench.Record) error, run func(*bench.Runner) error) (err error) {
	s := &sides{app: a, flags: f, model: model, tuples: tuples, size: size}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, target := range f.targets {
		if err := s.open(ctx, target); err != nil {
			return fmt.Errorf("--target %s: %w", target, err)
		}
	}
	line := a.Progress()
	defer line.End()
	return run(&bench.Runner{Sides: s.list, Emit: emit, Progress: line.Show})
}

func (s *sides) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

func (s *sides) open(ctx context.Context, target string) error {
	switch {
	case target == "serve" && s.flags.nodes > 1:
		_, err := s.cluster(ctx, s.flags.nodes, nil)
		return err
	case target == "serve":
		return s.serve(ctx)
	case target == "embedded":
		return s.embedded(ctx)
	case strings.HasPrefix(target, "grpc://"):
		t, err := bench.NewGRPC(strings.TrimPrefix(target, "grpc://"), s.flags.token)
		if err != nil {
			return err
		}
		return s.add(s.flags.peer, t)
	}
	t, err := bench.NewHTTP(target, s.flags.token)
	if err != nil {
		return fmt.Errorf("%w: %w", cli.ErrUsage, err)
	}
	return s.add(s.flags.peer, t)
}

func (s *sides) add(side bench.Side, t bench.Target) error {
	side.Target = t
	s.list, s.closers = append(s.list, side), append(s.closers, t.Close)
	return nil
}

func (s *sides) own() bench.Side {
	return bench.Side{Peer: "ostiary", Store: s.flags.driver}
}

// folder creates a temporary data folder. It returns "" for memory.
func (s *sides) folder() (string, error) {
	switch s.flags.driver {
	case cli.InMemory:
		return "", nil
	case "pebble":
		dir, err := os.MkdirTemp("", "ostiary-bench-")
		if err == nil {
			s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
		}
		return filepath.Join(dir, "data"), err
	}
	return "", fmt.Errorf("%w: invalid --driver %q: expected pebble or memory", cli.ErrUsage, s.flags.driver)
}

// openFolder opens an engine on a folder, or in memory if dir is "".
func openFolder(ctx context.Context, dir string) (e *ostiary.Engine, end func() error, err error) {
	options := ostiary.Options{Conditions: cli.Conditions(cel.Options{})}
	end = func() error { return nil }
	if dir != "" {
		driver, err := pebble.Open(dir, pebble.Options{})
		if err != nil {
			return nil, nil, err
		}
		options.Driver, end = driver, driver.Close
	}
	if e, err = ostiary.Open(ctx, options); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	last := end
	return e, func() error { return errors.Join(e.Close(), last()) }, nil
}

func (s *sides) embedded(ctx context.Context) error {
	dir, err := s.folder()
	if err != nil {
		return err
	}
	e, end, err := openFolder(ctx, dir)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, end)
	if err := s.add(s.own(), bench.NewEmbedded(e)); err != nil || s.flags.noFloor {
		return err
	}
	return s.add(bench.Side{Peer: "floor", Notes: "the embedded floor is the generator's own cost"}, bench.Nothing{})
}

// serve starts the program ostiary as a server, and the floor unless --no-floor is set. The
// library fills a folder before the start; a store in memory is filled over HTTP.
func (s *sides) serve(ctx context.Context) error {
	dir, err := s.folder()
	if err != nil {
		return err
	}
	filled := dir != "" && s.model != ""
	if filled {
		e, end, err := openFolder(ctx, dir)
		if err != nil {
			return err
		}
		if err := s.fill(ctx, "the folder", e, end); err != nil {
			return err
		}
	}
	if s.flags.prepare != nil {
		if err := s.flags.prepare(ctx, dir); err != nil {
			return err
		}
	}
	if dir == "" {
		dir = cli.InMemory
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	side := s.own()
	base := "http://" + ports[0]
	args := append([]string{"serve", "--data", dir, "--http", ports[0], "--grpc", ports[1], "--metrics", ports[2], "--log-level", "error"}, s.flags.args...)
	process, err := s.ostiary(ctx, (*exec.Cmd).Start, base+"/readyz", args...)
	if err != nil {
		return err
	}
	side.PID = process.Process.Pid
	side.Metrics = "http://" + ports[2] + "/metrics"
	t, err := bench.NewHTTP(base, "")
	if err != nil {
		return err
	}
	rpc, err := bench.NewGRPC(ports[1], "")
	if err != nil {
		return err
	}
	if filled {
		if err := t.Attach(ctx); err != nil {
			return err
		}
		rpc.Attach(t)
	}
	err = s.add(side, t)
	if s.model != "" {
		err = errors.Join(err, s.add(side, rpc))
	}
	if err != nil || s.flags.noFloor {
		return err
	}
	return s.floor(ctx, t)
}

// fill fills the store of an engine, which what names, and closes the engine with end.
func (s *sides) fill(ctx context.Context, what string, e *ostiary.Engine, end func() error) error {
	line := s.app.Progress()
	defer line.End()
	_, err := bench.Fill(ctx, e, s.model, s.tuples, func(n int) { line.Show("filling "+what, n, s.size) })
	return errors.Join(err, end())
}

func (s *sides) floor(ctx context.Context, like *bench.HTTP) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	base := "http://" + ports[0]
	self, err := os.Executable()
	if err != nil {
		return err
	}
	process, err := s.start(ctx, exec.Command(self, "floor", "--http", ports[0]), (*exec.Cmd).Start, base)
	if err != nil {
		return err
	}
	t, err := bench.NewFloorTarget(base, like)
	if err != nil {
		return err
	}
	return s.add(bench.Side{Peer: "floor", PID: process.Process.Pid}, t)
}

// startMax is how long a server may take until it is ready.
const startMax = 10 * time.Minute

// running is a program that a benchmark has started.
type running struct {
	*exec.Cmd
	gone chan struct{} // closed when it has ended
	err  error         // why; valid when gone is closed
}

// kill ends the program at once.
func (p *running) kill() {
	_ = p.Process.Kill()
	<-p.gone
}

// ostiary runs the program ostiary with args, like start.
func (s *sides) ostiary(ctx context.Context, begin func(*exec.Cmd) error, url string, args ...string) (*running, error) {
	program, err := s.app.ostiary(ctx)
	if err != nil {
		return nil, err
	}
	return s.start(ctx, exec.Command(program, args...), begin, url)
}

// start runs a command, which begin starts, until close is called. It returns once the
// program answers at url with another status than 503.
func (s *sides) start(ctx context.Context, command *exec.Cmd, begin func(*exec.Cmd) error, url string) (*running, error) {
	p := &running{Cmd: command, gone: make(chan struct{})}
	p.Stderr = s.app.Err
	if err := begin(p.Cmd); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.Wait()
		close(p.gone)
	}()
	s.closers = append(s.closers, func() error {
		p.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.gone:
		case <-time.After(startMax):
			p.kill()
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable {
				return p, nil
			}
		}
		select {
		case <-p.gone:
			return nil, fmt.Errorf("the server stopped before it answered: %w", p.err)
		case <-ctx.Done():
			return nil, fmt.Errorf("no response from %s: %w", url, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freePorts returns n loopback addresses whose ports are free.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		at, err := servers.FreePort("127.0.0.1")
		if err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	return out, nil
}
