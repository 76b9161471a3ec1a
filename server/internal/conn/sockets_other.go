//go:build !linux

package conn

import "net"

// boundSocket does nothing: the system's own bound holds.
func boundSocket(net.Conn) {}

// ended is always false: it is not known.
func ended(net.Conn) bool { return false }
