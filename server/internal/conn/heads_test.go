package conn

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestHeadsInParts checks that it does not matter in which parts a head arrives: heads
// refuses it at the first line with two readings, and passes on all before the end of it.
func TestHeadsInParts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*lineEnd)
	for _, c := range []struct {
		head string
		line int // where the line begins that is refused; -1: none is
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n b\nc\n", -1},
		{"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n b\nc\n", -1},
		{"GET /" + long + " HTTP/1.1\r\nX: " + long + "\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding-2: \r\n\r\n b\n", -1},
		{"GET / HTTP/1.0\r\nX: HTTP/1.0\r\nContent-Length: 2\r\n\r\n\n\n", -1},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\n b\nTransfer-Encoding: \r\n", -1},
		{"GET / HTTP/1.1\nHost: a\r\n\r\n", 0},
		{"GET / HTTP/1.1\r\nHost: a\n\r\n", 16},
		{"GET / HTTP/1.1\r\nHost: a\r\n\n", 25},
		{"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 16},
		{"GET / HTTP/1.1\r\nX: " + long + "\r\n\t" + long + "\r\n\r\n", 21 + len(long)},
		{"GET /" + long + " HTTP/1.0\r\nTRANSFER-encoding:" + long + "\r\n\r\n", 16 + len(long)},
		{"POST / HTTP/1.1\r\nTransfer-Encoding:x\r\nContent-length:" + long + "\r\n\r\n", 38},
		{"POST / HTTP/1.1\r\ncontent-Length:1\r\nTransfer-Encoding: x\r\n\r\n", 35},
	} {
		pass := len(c.head)
		if c.line >= 0 {
			pass = c.line + strings.IndexByte(c.head[c.line:], '\n')
		}
		for first := 0; first <= len(c.head); first++ {
			for second := first; second <= len(c.head); second++ {
				var h heads
				got, refused := 0, false
				for _, part := range []string{c.head[:first], c.head[first:second], c.head[second:]} {
					p := make([]byte, len(part)+2)
					n, err := h.read(p, copy(p, part), nil)
					got, refused = got+n, refused || err != nil
					if len(h.line) > 2*lineEnd {
						t.Fatalf("keeps %d bytes of a line, expected at most %d", len(h.line), 2*lineEnd)
					}
				}
				if got != pass || refused != (c.line >= 0) {
					t.Fatalf("%q in parts at %d and %d: %d bytes are passed on, refused %t; expected %d", c.head, first, second, got, refused, pass)
				}
			}
		}
	}
}

// TestHeadsOfConnection checks when the next head begins: with the next read after the
// response. It does not matter that net/http may read one byte before that. The body of
// a request that was read together with the one before is not checked.
func TestHeadsOfConnection(t *testing.T) {
	t.Parallel()
	const folded = "GET / HTTP/1.1\r\n x\r\n\r\n"
	end, _ := net.Pipe()
	c := New(end, nil, true)
	read := func(size int, text string) bool {
		p := make([]byte, max(size, len(text)))
		_, err := c.heads.read(p, copy(p, text), nil)
		return err == nil
	}
	whole := func() bool { return read(100, "GET / HTTP/1.1\r\n\r\n") }
	after := func(steps ...func()) {
		c.heads = heads{}
		if !whole() {
			t.Fatal("a head is refused")
		}
		for _, step := range steps {
			step()
		}
	}
	ended := func() { Idle(c, http.StateIdle) }
	for name, x := range map[string]struct {
		steps   []func()
		refused bool
	}{
		"a body":                          {[]func(){c.heads.begun}, false},
		"a body behind the handler":       {[]func(){c.heads.begun, func() { Idle(c, http.StateActive) }}, false},
		"the next head":                   {[]func(){c.heads.begun, ended}, true},
		"a head that begins early":        {[]func(){c.heads.begun, func() { read(1, "G") }, ended}, true},
		"a head that begins very early":   {[]func(){func() { read(1, "G") }, c.heads.begun, ended}, true},
		"a body of a request read before": {[]func(){c.heads.begun, ended, c.heads.begun}, false},
		"the head after such a body":      {[]func(){c.heads.begun, ended, c.heads.begun, ended}, true},
	} {
		if after(x.steps...); read(100, folded) == x.refused {
			t.Errorf("%s: refused %t", name, !x.refused)
		}
	}
}
