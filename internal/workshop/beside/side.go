//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// side is one of the two programs, with a server on a data folder.
type side struct {
	program, folder string
	options         options
	server          *process
	http            *bench.HTTP
	grpc            *bench.GRPC
	written         atomic.Int64 // tuples that the paths have begun to write
}

// process is a running server.
type process struct {
	command    *exec.Cmd
	http, grpc string // addresses
}

// serve starts a server on a data folder and waits until it is ready.
func (s *side) serve(ctx context.Context, data string) (*process, error) {
	var ports [3]string
	for i := range ports {
		at, err := servers.FreePort("127.0.0.1")
		if err != nil {
			return nil, err
		}
		ports[i] = at
	}
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := exec.Command(s.program, "serve", "--data", data, "--http", ports[0], "--grpc", ports[1], "--metrics", ports[2], "--drain-time", "0")
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{command: c, http: ports[0], grpc: ports[1]}
	if err := c.Start(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for {
		if _, _, err = send(ctx, http.MethodGet, "http://"+ports[2]+"/readyz", "", nil, nil); err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("the server is not ready: %w, see %s", err, log.Name()), p.kill())
		}
		time.Sleep(time.Millisecond)
	}
}

// kill ends the server at once.
func (p *process) kill() error {
	err := p.command.Process.Kill()
	_ = p.command.Wait() // its error is that of the kill
	return err
}

// start starts the server of the side, which has a deployment of the Identity API.
func (s *side) start(ctx context.Context) (err error) {
	data := filepath.Join(s.folder, "data")
	bootstrap := exec.CommandContext(ctx, s.program, "--data", data, "keystone", "bootstrap")
	bootstrap.Env = append(os.Environ(), "OS_BOOTSTRAP_PASSWORD="+password)
	if out, err := bootstrap.CombinedOutput(); err != nil {
		return fmt.Errorf("ostiary keystone bootstrap: %w\n%s", err, out)
	}
	if s.server, err = s.serve(ctx, data); err != nil {
		return err
	}
	if s.http, err = bench.NewHTTP("http://"+s.server.http, ""); err != nil {
		return err
	}
	if s.grpc, err = bench.NewGRPC(s.server.grpc, ""); err != nil {
		return err
	}
	if err := s.http.Setup(ctx, model, tuples, func(int) {}); err != nil {
		return err
	}
	s.grpc.Attach(s.http)
	return nil
}

// close ends the server.
func (s *side) close() (err error) {
	if s.grpc != nil {
		err = s.grpc.Close()
	}
	if s.http != nil {
		err = errors.Join(err, s.http.Close())
	}
	if s.server != nil {
		err = errors.Join(err, s.server.kill())
	}
	return err
}

// load returns a play that sends requests for the time of a turn, and reads the processor
// time of processes.
func (s *side) load(send bench.Send, processes ...int) play {
	used := func() (sum time.Duration) {
		for _, pid := range processes {
			sum += bench.Used(pid)
		}
		return sum
	}
	return func(ctx context.Context) (figure, error) {
		for { // on a busy machine, no request may end in a short turn
			before := used()
			got, err := bench.Load{Clients: s.options.clients, Duration: s.options.time}.Run(ctx, send)
			if err == nil {
				err = got.FirstFailure
			}
			if err != nil {
				return figure{}, err
			}
			if n := time.Duration(got.N); n > 0 {
				return figure{got.Elapsed * time.Duration(s.options.clients) / n, (used() - before) / n}, nil
			}
		}
	}
}

// send sends a request and returns the response, which must be a success.
func send(ctx context.Context, method, url, contentType string, body []byte, header http.Header) (http.Header, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	if header != nil {
		r.Header = header.Clone()
	}
	r.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: status %d %s", method, url, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return resp.Header, string(text), err
}
