//go:build unix

package conn

import (
	"net"
	"syscall"
)

// readable reports whether the system has received bytes, or the end, of a
// connection that were not read yet. It is false if that is not known.
func readable(c net.Conn) (found bool) {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	_ = control.Control(func(fd uintptr) { // Go's sockets do not block
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		found = err == nil
	})
	return found
}
