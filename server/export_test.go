package server

// End ends all streams now, as a stop does after half of its time.
func (s *Server) End() { s.gate.endStream() }
