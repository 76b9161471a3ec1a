package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestNotify starts the server as systemd does, with a socket for its states and a watchdog:
// it is ready once it can be asked, then it beats, and after SIGTERM it reports that it stops.
func TestNotify(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	name := filepath.Join(folder, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	data := filepath.Join(folder, "data")
	cmd := exec.Command("ostiary", "serve", "--data", data, "--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "off")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+name, "WATCHDOG_USEC=60000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	next := func() string {
		t.Helper()
		text := make([]byte, 1024)
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(text)
		if err != nil {
			t.Fatalf("no state: %v", err)
		}
		return string(text[:n])
	}
	if got := next(); got != "READY=1" {
		t.Errorf("the first state is %q", got)
	}
	if out, err := exec.Command("ostiary", "health", "--data", data).CombinedOutput(); err != nil {
		t.Errorf("the server is not ready: %v, %s", err, out)
	}
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("the server reports %q, expected a beat", got)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for got := ""; got != "STOPPING=1"; {
		if got = next(); got != "WATCHDOG=1" && got != "STOPPING=1" {
			t.Fatalf("the server reports %q, expected that it stops", got)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ends with %v", err)
	}
}
