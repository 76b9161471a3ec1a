// Package addresses names clients by their network addresses, for bounds that each client
// has for itself. It opens no connection.
package addresses

import (
	"net"
	"net/netip"
)

// networkBits is the part of an IPv6 address that one client has, in bits.
const networkBits = 64

// Client returns the address under which a client is counted: its IPv4 address, or the
// network of 64 bits of its IPv6 address, because one client can use all addresses of that.
// It returns the zero address for one that is not of TCP.
func Client(address net.Addr) netip.Addr {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	a := tcp.AddrPort().Addr().Unmap()
	if network, err := a.WithZone("").Prefix(networkBits); a.Is6() && err == nil {
		return network.Addr()
	}
	return a
}
