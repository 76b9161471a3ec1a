package server

// EndStreams ends all streams, as a stop does after half of StopTimeout.
func (s *Server) EndStreams() { s.shared.endStreams() }
