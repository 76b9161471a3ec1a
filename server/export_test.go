package server

import "time"

// EndStreams ends all streams, as a stop does after half of StopTimeout.
func (s *Server) EndStreams() { s.shared.endStreams() }

// Connections returns how many connections are open.
func (s *Server) Connections() int { return s.connections.Open() + s.metricsConnections.Open() }

// FreezeFrames lets no time pass for the bounds of frames, so that they do not depend on how
// many frames a busy machine sends in a second.
func FreezeFrames(o *Options) {
	now := time.Now()
	o.frameClock = func() time.Time { return now }
}
