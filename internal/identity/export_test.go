package identity

// HashesComputed returns how many hashes of passwords the service has computed.
func (s *Service) HashesComputed() int { return s.pool.Computed() }
