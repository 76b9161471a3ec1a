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

// TestTokenOnOneLine refuses a key that has more than its line, such as one of a file with
// the ends of lines of Windows. The error does not show it.
func TestTokenOnOneLine(t *testing.T) {
	t.Parallel()
	for token, bytes := range map[string]string{"ost_abc\r": "after 7 bytes", "key admin\nost_abc": "after 9 bytes", "ost_\x00": "after 4 bytes"} {
		for flag, names := range map[string]string{"--server": "OSTIARY_TOKEN or --token", "--from": "OSTIARY_FROM_TOKEN or --from-token"} {
			_, err := (&Server{App: &App{}, URL: "http://127.0.0.1:8080", Flag: flag, Token: token}).Client(nil)
			if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), names) || !strings.Contains(err.Error(), bytes) || strings.Contains(err.Error(), "ost_") {
				t.Errorf("%q of %s: %v, expected a mistake that names %s and the place", token, flag, err, names)
			}
		}
	}
	if _, err := (&Server{App: &App{}, URL: "http://127.0.0.1:8080", Flag: "--server", Token: "ost_abc"}).Client(nil); err != nil {
		t.Errorf("a key on one line: %v", err)
	}
}
