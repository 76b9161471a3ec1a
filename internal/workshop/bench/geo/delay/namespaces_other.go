//go:build !linux

package delay

// OpenNamespaces returns [ErrUnavailable]: network namespaces are a part of Linux.
func OpenNamespaces(int, Way) (Hosts, error) { return nil, ErrUnavailable }
