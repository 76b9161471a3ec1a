package parts

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// stopping is a clock that may stop while the machine is suspended.
type stopping struct{ lease.BootClock }

func (stopping) MayStop() bool { return true }

// The beginnings of the warnings.
const (
	otherSystem = "nodes are tested on Linux only"
	clockStops  = "the clock that measures leases may stop"
	noModes     = "files have no modes"
)

func warned(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, "level=WARN msg=\""+w) {
			t.Errorf("no warning %q in:\n%s", w, text)
		}
	}
	if got := strings.Count(text, "level=WARN"); got != len(want) {
		t.Errorf("%d warnings, expected %d:\n%s", got, len(want), text)
	}
}

func TestWarnSystem(t *testing.T) {
	for _, c := range []struct {
		system string
		clock  lease.Clock
		want   []string
	}{
		{"linux", lease.BootClock{}, nil},
		{"linux", stopping{}, []string{clockStops}},
		{"darwin", stopping{}, []string{otherSystem, clockStops}},
		{"windows", stopping{}, []string{otherSystem, clockStops, noModes}},
	} {
		var out bytes.Buffer
		warnSystem(slog.New(slog.NewTextHandler(&out, nil)), c.system, c.clock)
		warned(t, out.String(), c.want...)
	}
}

// TestOpenWarns opens a node with a clock that may stop: it warns. A node with the clock of
// this machine does not.
func TestOpenWarns(t *testing.T) {
	if runtime.GOOS != systemTested {
		t.Skip("other systems have warnings of their own")
	}
	failed := errors.New("no log")
	for _, c := range []struct {
		clock lease.Clock
		want  []string
	}{{nil, nil}, {stopping{}, []string{clockStops}}} {
		var out bytes.Buffer
		o := Options{Log: func(context.Context) (sharedlog.Log, error) { return nil, failed }, Report: slog.New(slog.NewTextHandler(&out, nil))}
		o.Rules.Clock = c.clock
		if _, err := Open(t.Context(), o); !errors.Is(err, failed) {
			t.Errorf("a node without a log: %v", err)
		}
		warned(t, out.String(), c.want...)
	}
}
