package conn

import (
	"encoding/binary"
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

// The states of TCP after the end that the client sends, as Linux numbers them.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// ended reports whether the client has closed or broken the connection, also if what it
// sent before was not read. It is false if that is not known.
func ended(c net.Conn) (found bool) {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	_ = control.Control(func(fd uintptr) {
		info, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
		state := binary.NativeEndian.AppendUint32(nil, uint32(info))[0] // the first byte
		found = err == nil && (state == tcpClose || state == tcpCloseWait)
	})
	return found
}
