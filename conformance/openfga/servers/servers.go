// Package servers builds and starts the two servers that are compared, as
// processes on loopback ports: OpenFGA, from its Go module, and ours. Its main
// type is [Server]. It installs nothing outside this module's ignored folder
// .work, and each process ends with the test that started it.
package servers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	ports "github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Server is a running server.
type Server struct {
	// Name is "openfga" or "ostiary".
	Name string
	// HTTP and GRPC are the addresses, as host:port.
	HTTP, GRPC string
	process    *exec.Cmd
}

// URL returns the address of a path.
func (s *Server) URL(path string) string { return "http://" + s.HTTP + path }

// readyWait bounds the time until a server answers.
const readyWait = 2 * time.Minute

// Original builds and starts OpenFGA, in memory. flags are added to its command
// line.
func Original(t testing.TB, flags ...string) *Server {
	t.Helper()
	s := &Server{Name: "openfga", HTTP: free(t), GRPC: free(t)}
	s.start(t, built(t, "openfga", ".", "github.com/openfga/openfga/cmd/openfga"), append([]string{
		"run", "--http-addr", s.HTTP, "--grpc-addr", s.GRPC, "--metrics-enabled=false",
		"--playground-enabled=false", "--log-level", "none",
	}, flags...))
	return s
}

// Ours builds and starts ostiary serve, in memory unless the flags
// select a data folder. OSTIARY_BIN names a program that is built already.
func Ours(t testing.TB, flags ...string) *Server {
	t.Helper()
	s := &Server{Name: "ostiary", HTTP: free(t), GRPC: free(t)}
	s.ours(t, append([]string{"--http", s.HTTP, "--grpc", s.GRPC}, flags...))
	return s
}

// Alone builds and starts ostiary serve with the OpenFGA door on separate ports,
// where it answers every path as OpenFGA does.
func Alone(t testing.TB, flags ...string) *Server {
	t.Helper()
	s := &Server{Name: "ostiary", HTTP: free(t), GRPC: free(t)}
	s.ours(t, append([]string{"--http", "off", "--grpc", "off", "--door", "openfga=http://" + s.HTTP, "--door", "openfga=grpc://" + s.GRPC}, flags...))
	return s
}

func (s *Server) ours(t testing.TB, flags []string) {
	t.Helper()
	args := []string{"serve", "--metrics", "off", "--drain-time", "0"}
	if !strings.Contains(strings.Join(flags, " "), "--data") {
		args = append(args, "--data", "memory")
	}
	s.start(t, Program(t), append(args, flags...))
}

// Program builds ostiary and returns the path of the program. OSTIARY_BIN names one
// that is built already.
func Program(t testing.TB) string {
	t.Helper()
	if file := os.Getenv("OSTIARY_BIN"); file != "" {
		return file
	}
	return built(t, "ostiary", "../..", "./cmd/ostiary")
}

// Floor builds ostiary-bench and starts its server that does nothing, as a lower bound.
func Floor(t testing.TB) *Server {
	t.Helper()
	s := &Server{Name: "floor", HTTP: free(t), GRPC: free(t)}
	s.start(t, built(t, "ostiary-bench", "../..", "./cmd/ostiary-bench"), []string{"floor", "--http", s.HTTP, "--grpc", s.GRPC})
	return s
}

// Work returns the ignored folder for programs and their packages.
func Work(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), ".work")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// built builds a program of the module in a sibling folder, which
// costs little where it is up to date.
func built(t testing.TB, name, module, pkg string) string {
	t.Helper()
	file := filepath.Join(Work(t), "bin", name)
	unlock := Lock(t, name)
	defer unlock()
	build := exec.Command("go", "build", "-o", file, pkg)
	build.Dir = filepath.Join(filepath.Dir(Work(t)), module)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return file
}

// Lock keeps other processes from preparing the same thing at the same time. The
// caller calls the returned function when it is done.
func Lock(t testing.TB, name string) func() {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(Work(t), name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() } // and with it the lock
}

// free returns a port that no process listens on.
func free(t testing.TB) string {
	t.Helper()
	at, err := ports.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (s *Server) start(t testing.TB, program string, args []string) {
	t.Helper()
	var said bytes.Buffer
	s.process = exec.Command(program, args...)
	s.process.Dir = t.TempDir()
	// The variables are the test's own. Those that set a flag would change what runs.
	s.process.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OSTIARY_") })
	s.process.Stdout, s.process.Stderr = &said, &said
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.process.Wait() }()
	t.Cleanup(func() { s.stop(t, ended, &said) })
	ctx, cancel := context.WithTimeout(t.Context(), readyWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !s.healthy() {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v\n%s", s.Name, err, said.Bytes())
		case <-ctx.Done():
			t.Fatalf("%s is not healthy after %v", s.Name, readyWait)
		case <-tick.C:
		}
	}
}

// stop ends the process as an operator does. It fails the test if the process
// panicked.
func (s *Server) stop(t testing.TB, ended chan error, said *bytes.Buffer) {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(readyWait / 4):
		_ = s.process.Process.Kill()
		<-ended
		t.Logf("%s did not stop on SIGTERM", s.Name)
	}
	if text := said.String(); strings.Contains(text, "panic:") || t.Failed() && s.Name == "ostiary" && text != "" {
		t.Errorf("%s said:\n%s", s.Name, text[max(0, len(text)-8000):])
	}
}

func (s *Server) healthy() bool {
	res, err := http.Get(s.URL("/healthz"))
	if err != nil {
		return false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return err == nil && res.StatusCode == http.StatusOK && bytes.Contains(body, []byte("SERVING"))
}

// Dial returns a connection to the gRPC port.
func (s *Server) Dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, grpc.ErrClientConnClosing) {
			t.Error(err)
		}
	})
	return conn
}

// PID returns the id of the process.
func (s *Server) PID() int { return s.process.Process.Pid }
