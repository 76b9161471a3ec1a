package server

import (
	"net"
	"sync"
	"sync/atomic"
)

// connections counts the open connections of all HTTP ports. gRPC ports need no
// count, because a graceful stop of grpc-go waits for its own connections.
type connections struct{ count atomic.Int64 }

// open returns how many connections are open now.
func (c *connections) open() int64 { return c.count.Load() }

// listener returns a listener that counts the connections accepted by l.
func (c *connections) listener(l net.Listener) net.Listener { return countingListener{l, c} }

type countingListener struct {
	net.Listener
	connections *connections
}

// Accept waits for the next connection and counts it until it is closed.
func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.connections.count.Add(1)
	return &countedConn{Conn: conn, connections: l.connections}, nil
}

// countedConn is a connection that leaves the count when it is closed.
type countedConn struct {
	net.Conn
	connections *connections
	closed      sync.Once
}

// Close closes the connection. It may be called several times.
func (c *countedConn) Close() error {
	c.closed.Do(func() { c.connections.count.Add(-1) })
	return c.Conn.Close()
}

// CloseWrite closes the sending side. net/http looks for this method: with it,
// a client can still read a response whose request body was not read to its end.
func (c *countedConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return c.Close()
}
