package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestPortForGRPC asks for the reason of a connection that was closed without a
// response. Servers of gRPC greet with a SETTINGS frame.
func TestPortForGRPC(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		greeting string
		err      error
		want     string
	}{
		"gRPC":               {"\x00\x00\x18\x04\x00\x00\x00\x00\x00", syscall.ECONNRESET, " is a port for gRPC: "},
		"gRPC, closed":       {"\x00\x00\x18\x04\x00\x00\x00\x00\x00", syscall.EPIPE, " is a port for gRPC: "},
		"gRPC, at once":      {"\x00\x00\x18\x04\x00\x00\x00\x00\x00", fmt.Errorf("readLoopPeekFailLocked: %w", error(nil)), " is a port for gRPC: "},
		"another protocol":   {"220 mail.example.com\r\n", syscall.ECONNRESET, "connection reset by peer"},
		"a shorter greeting": {"\x00\x00\x18\x04", syscall.ECONNRESET, "connection reset by peer"},
		"another error":      {"\x00\x00\x18\x04\x00\x00\x00\x00\x00", errors.New("no route"), "no route"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				conn.Write([]byte(c.greeting))
				conn.Close()
			}
		}()
		s := &Server{App: &App{}, URL: "http://" + l.Addr().String(), Flag: "--server"}
		if got := s.failed(c.err); !strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", name, got, c.want)
		}
		l.Close()
	}
}
