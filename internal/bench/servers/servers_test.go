package servers

import (
	"net"
	"strconv"
	"testing"
)

// TestFreePort chooses ports on two hosts: each is another one, below those that
// connections take, and a server can listen on it.
func TestFreePort(t *testing.T) {
	t.Parallel()
	taken := map[int]bool{}
	for i := range 50 {
		at, err := FreePort([]string{"127.0.0.1", "127.0.0.2"}[i%2])
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		_, text, _ := net.SplitHostPort(at)
		port, err := strconv.Atoi(text)
		if err != nil || port < portFirst || port >= portFirst+portsAll || taken[port] {
			t.Errorf("%s: error %v, chosen before: %t", at, err, taken[port])
		}
		taken[port] = true
	}
}
