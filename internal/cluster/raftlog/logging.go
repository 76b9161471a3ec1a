package raftlog

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/go-hclog"
)

// pebbleLog passes on what Pebble reports.
type pebbleLog struct {
	to   *slog.Logger
	fail func(error) // gets why the database is not usable any more
}

func (l pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.to.Error("node's log: " + fmt.Sprintf(format, args...))
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	why := fmt.Errorf(format, args...)
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			why = err
		}
	}
	l.fail(fmt.Errorf("disk of the node's log: %w", why))
}

// listener returns a listener that makes the node fail when the database cannot write its
// tables. It would go on with entries until its memory for them is full, and then wait, while
// the node keeps the lead.
func (l pebbleLog) listener() *pebble.EventListener {
	return &pebble.EventListener{BackgroundError: func(err error) { l.Fatalf("%w", err) }}
}

// newConsensusLog returns a logger of the consensus that writes warnings and errors to
// a slog.Logger.
func newConsensusLog(to *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Warn, Output: io.Discard})
	l.RegisterSink(&consensusSink{to: to, last: map[string]time.Time{}})
	return l
}

// consensusSink is the sink of newConsensusLog. The consensus reports each attempt to
// reach a node that is down, many in a second: of lines with the same text and peer, one
// in every repeatInterval is passed on, and the others are for debugging.
type consensusSink struct {
	to   *slog.Logger
	mu   sync.Mutex
	last map[string]time.Time // by text and peer
}

const (
	repeatInterval = time.Minute
	linesMax       = 1000 // in last
)

// repeated reports whether a line was passed on a short time ago.
func (s *consensusSink) repeated(text string, args []any) bool {
	for i := 0; i+1 < len(args); i += 2 {
		if name := args[i]; name == "peer" || name == "target" {
			text += fmt.Sprint(args[i+1])
		}
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.last[text]; ok && now.Sub(at) < repeatInterval {
		return true
	}
	if len(s.last) >= linesMax {
		clear(s.last)
	}
	s.last[text] = now
	return false
}

// Accept implements hclog.SinkAdapter.
func (s *consensusSink) Accept(_ string, level hclog.Level, text string, args ...any) {
	switch {
	case level >= hclog.Warn && s.repeated(text, args):
		s.to.Debug("consensus: "+text, args...)
	case level >= hclog.Error:
		s.to.Error("consensus: "+text, args...)
	case level >= hclog.Warn:
		s.to.Warn("consensus: "+text, args...)
	default:
		s.to.Debug("consensus: "+text, args...)
	}
}
