//go:build unix

package serve

import (
	"log/slog"
	"syscall"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/wait"
)

// TestLateHangup sends SIGHUP while a server runs, and once more when it no longer reloads:
// that one must not end the process.
func TestLateHangup(t *testing.T) {
	reloads := make(chan struct{}, 10)
	reload := func() error {
		reloads <- struct{}{}
		return nil
	}
	hangup := func() {
		t.Helper()
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	stop := onHangup(slog.New(slog.DiscardHandler), reload)
	hangup()
	wait.Until(t, "the server reloads", func() bool { return len(reloads) == 1 })
	stop()
	hangup()
	later := onHangup(slog.New(slog.DiscardHandler), reload)
	defer later()
	hangup()
	wait.Until(t, "a later server reloads", func() bool { return len(reloads) > 1 })
}
