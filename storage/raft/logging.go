package raft

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// pebbleLog passes on what Pebble reports.
type pebbleLog struct{ to *slog.Logger }

func (l pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.to.Error("node's log: " + fmt.Sprintf(format, args...))
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	l.to.Error("node's log: " + fmt.Sprintf(format, args...))
	panic(fmt.Sprintf(format, args...)) // as Pebble expects; the log is not usable
}

// newConsensusLog returns a logger of the consensus that writes warnings and errors to
// a slog.Logger.
func newConsensusLog(to *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Warn, Output: io.Discard})
	l.RegisterSink(consensusSink{to})
	return l
}

// consensusSink is the sink of newConsensusLog.
type consensusSink struct{ to *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s consensusSink) Accept(_ string, level hclog.Level, text string, args ...any) {
	switch {
	case level >= hclog.Error:
		s.to.Error("consensus: "+text, args...)
	case level >= hclog.Warn:
		s.to.Warn("consensus: "+text, args...)
	default:
		s.to.Debug("consensus: "+text, args...)
	}
}
