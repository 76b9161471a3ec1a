package sqllog

import "golang.org/x/sys/unix"

// boundUnacknowledged closes a connection whose data was not acknowledged for GoneTime.
// Without it, that takes a quarter of an hour. Where it cannot be set, nothing changes.
func boundUnacknowledged(socket uintptr) {
	_ = unix.SetsockoptInt(int(socket), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(GoneTime.Milliseconds()))
}
