package server

import (
	"net"
	"syscall"
)

const (
	// tcpNotSentLowWater is TCP_NOTSENT_LOWAT of Linux, which package syscall lacks.
	tcpNotSentLowWater = 25
	// socketUnsent is how many bytes that the client's window does not allow yet the
	// system keeps for a connection. Without it, the system keeps up to 4 MiB for
	// each client that does not read. It does not bound bytes that are on their way,
	// and so does not slow a client that reads.
	socketUnsent = 128 << 10
)

// boundSocket bounds what the system keeps for a client that does not read. It
// ignores errors: then the system's own bound holds.
func boundSocket(c net.Conn) {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if control, err := raw.SyscallConn(); err == nil {
		_ = control.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowWater, socketUnsent)
		})
	}
}
