package addresses

import (
	"net"
	"net/netip"
	"testing"
)

// TestClient checks which addresses count as one.
func TestClient(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"192.0.2.7:1": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::",
		"[fe80::1%eth0]:1": "fe80::", "[::1]:1": "::"} {
		if got := Client(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))).String(); got != want {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
	end, _ := net.Pipe()
	if got := Client(end.RemoteAddr()); got.IsValid() {
		t.Error(got)
	}
}
