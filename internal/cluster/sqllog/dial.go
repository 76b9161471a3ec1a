package sqllog

import (
	"context"
	"net"
	"syscall"
	"time"
)

// The bounds of a connection. A server that is gone without closing its connections is
// noticed after GoneTime, and so is a node by the server where it can be set.
const (
	dialTime = 5 * time.Second
	GoneTime = 10 * time.Second
)

// Dial connects to a server.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: GoneTime / 2, Interval: time.Second, Count: 5},
		Control: func(network, _ string, c syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			return c.Control(boundUnacknowledged)
		}}
	return d.DialContext(ctx, network, address)
}
