package server

import (
	"net"
	"syscall"
)

// left says whether the client of a connection has ended it, as far as this
// machine knows: nothing waits to be read but the end. It neither reads nor
// waits, so it may be asked while others use the connection.
func left(conn net.Conn) (gone bool) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			gone = n == 0
		case syscall.EAGAIN, syscall.EINTR:
		default:
			gone = true
		}
	})
	return gone && err == nil
}
