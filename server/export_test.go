package server

// EndStreams ends all streams, as a stop does after half of StopTimeout.
func (s *Server) EndStreams() { s.shared.endStreams() }

// Connections returns how many connections are open.
func (s *Server) Connections() int { return s.connections.Open() + s.metricsConnections.Open() }
