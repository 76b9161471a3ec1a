//go:build !linux

package server

import "net"

// boundSocket does nothing: the system's own bound holds.
func boundSocket(net.Conn) {}
