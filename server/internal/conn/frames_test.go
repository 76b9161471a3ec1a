package conn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sent is a connection that reads what a client has sent, in parts of a size.
type sent struct {
	net.Conn
	data []byte
	part int
}

func (s *sent) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.data[:min(s.part, len(s.data))])
	s.data = s.data[n:]
	return n, nil
}

// frames returns n frames with payloads of different lengths.
func frames(n int) []byte {
	var out []byte
	for i := range n {
		size := i % 3 * 500
		out = append(out, 0, byte(size>>8), byte(size), 4, 0, 0, 0, 0, 0)
		out = append(out, bytes.Repeat([]byte{9}, size)...)
	}
	return out
}

// newFramed returns a connection whose client has sent data.
func newFramed(all *Connections, address string, part int, data []byte) *framed {
	c := NewDetached(all)
	c.Trusted.Store(false)
	c.Address = netip.MustParseAddr(address)
	return &framed{Conn: &sent{data: data, part: part}, conn: c, ending: bytes.Clone(http2Refused)}
}

// TestFrames checks that a connection passes framesPerConnection frames at once, and
// framesPerSecond more each second; that another frame is replaced by one that ends the
// connection, however the frames were split; and what passes uncounted.
func TestFrames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		preface := []byte(http2Preface)
		at, above := slices.Concat(preface, frames(framesPerConnection)), slices.Concat(preface, frames(framesPerConnection+1))
		ended := slices.Concat(at, http2Refused)
		for _, part := range []int{1, 7, 4096, 1 << 20} {
			all := NewConnections(Bounds{Max: 10, PerAddress: 10})
			for _, c := range []struct {
				name       string
				sent, want []byte
			}{
				{"frames at the bound", at, at}, {"a frame above the bound", above, ended},
				{"HTTP/1", bytes.Repeat([]byte("GET / HTTP/1.1\r\n\r\n"), 5000), nil},
				{"a preface that is wrong at its end", slices.Concat(preface[:23], []byte("?"), frames(5000)), nil},
			} {
				if c.want == nil {
					c.want = c.sent
				}
				f := newFramed(all, "10.0.0."+string('1'+byte(len(c.name)%8)), part, bytes.Clone(c.sent))
				got, err := io.ReadAll(f)
				if err != nil || !bytes.Equal(got, c.want) {
					t.Errorf("%s in parts of %d bytes: %d bytes, expected %d: %v", c.name, part, len(got), len(c.want), err)
				}
			}
			f := newFramed(all, "10.0.1.1", part, bytes.Clone(above))
			f.ending = nil
			if got, err := io.ReadAll(f); !errors.Is(err, errFrames) || !bytes.Equal(got, at) {
				t.Errorf("gRPC in parts of %d bytes: %d bytes, %v", part, len(got), err)
			}
		}
		all := NewConnections(Bounds{Max: 10, PerAddress: 10})
		f := newFramed(all, "10.0.0.1", 1<<20, at)
		io.Copy(io.Discard, f)
		time.Sleep(time.Second / 2)
		f.Conn = &sent{data: frames(framesPerSecond/2 + 1), part: 1 << 20}
		if n, _ := io.Copy(io.Discard, f); n != int64(len(frames(framesPerSecond/2))+len(http2Refused)) {
			t.Error(n, "bytes after half a second")
		}
		f = newFramed(all, "10.0.0.3", 1000, slices.Concat(preface, frames(20_000)))
		f.conn.Trusted.Store(true)
		io.CopyN(io.Discard, f, 50_000)
		if f.over {
			t.Error("a connection with an accepted request: ended")
		}
		f.conn.Trusted.Store(false)
		if n, err := io.Copy(io.Discard, f); err != nil || !f.over || n > int64(len(above)+1000) {
			t.Errorf("a connection that is no longer trusted: ended after %d bytes: %v", n, err)
		}
		for name, free := range map[string]func(c *Conn){
			"a connection with an accepted request": func(c *Conn) { c.Trusted.Store(true) },
			"a connection with answered requests":   func(c *Conn) { c.answered.Store(1000) },
		} {
			f := newFramed(all, "10.0.0.2", 1<<20, slices.Concat(preface, frames(10_000)))
			free(f.conn)
			if n, err := io.Copy(io.Discard, f); err != nil || f.over {
				t.Errorf("%s: ended after %d bytes: %v", name, n, err)
			}
		}
		f = newFramed(all, "10.0.0.4", 1<<20, slices.Concat(preface, frames(10_000)))
		f.conn.answered.Store(1000)
		f.conn.crowded.Store(1001) // one of them was reset before its end
		if n, err := io.Copy(io.Discard, f); err != nil || !f.over {
			t.Errorf("a connection whose requests were refused: not ended after %d bytes: %v", n, err)
		}
	})
}

// TestFramesPerAddress checks that the connections of an address may send
// framesPerAddress frames together, besides the first of each; that its further
// connections then wait, each time longer, and some are closed; and that its floods
// are forgotten.
func TestFramesPerAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewConnections(Bounds{Max: 100, PerAddress: 100})
		all.Accepted = func(head []byte) bool { return strings.Contains(string(head), "good") }
		address := netip.MustParseAddr("10.0.0.1")
		flood := func(n int) (over bool) {
			f := newFramed(all, "10.0.0.1", 1<<20, slices.Concat([]byte(http2Preface), frames(n)))
			io.Copy(io.Discard, f)
			return f.over
		}
		for i := range framesPerAddress / 1000 {
			if flood(1000 + framesLot) {
				t.Fatal("connection", i, "was ended")
			}
		}
		if flood(framesLot) {
			t.Error("the first frames of a connection were counted for its address")
		}
		wait := floodWait
		for range 8 {
			if !flood(framesLot + 1) {
				t.Error("a frame above the bound of an address")
			}
			if d := all.Standings.floodWait(address); d != wait {
				t.Errorf("a new connection waits %v, expected %v", d, wait)
			}
			wait = min(2*wait, floodWaitMax)
		}
		if d := all.Standings.floodWait(netip.MustParseAddr("10.0.0.2")); d != 0 {
			t.Error("another address waits", d)
		}
		read := func(text string) (time.Duration, error) {
			begin, c := time.Now(), New(&sent{Conn: all.pipe(), data: []byte(text), part: 1 << 20}, all, true)
			c.Address = address
			got := make([]byte, 100)
			n, err := c.Read(got[:3])
			for err == nil && n < len(text) {
				var more int
				more, err = c.Read(got[n:])
				n += more
			}
			if err == nil && string(got[:n]) != text {
				t.Errorf("read %q, expected %q", got[:n], text)
			}
			return time.Since(begin), err
		}
		if d, err := read("GET bad"); d != floodWaitMax || err != nil {
			t.Error("without a key:", d, err)
		}
		if d, err := read("GET good"); d != 0 || err != nil {
			t.Error("with a key:", d, err)
		}
		waiting := func() int {
			all.Standings.mu.Lock()
			defer all.Standings.mu.Unlock()
			return all.Standings.all[address].waiting
		}
		for range floodWaiting {
			go read("GET bad")
		}
		synctest.Wait()
		if d, _ := read("GET bad"); d != 0 || all.Unauthenticated.Load() == 0 || waiting() != floodWaiting {
			t.Error("one above those that may wait:", d, waiting())
		}
		time.Sleep(floodsForgotten + time.Nanosecond)
		if d := all.Standings.floodWait(address); d != 0 || waiting() != 0 {
			t.Error("a minute after the last flood:", d)
		}
	})
}

// pipe returns a connection that can be closed.
func (c *Connections) pipe() net.Conn {
	end, _ := net.Pipe()
	return end
}

// TestStandingsMax checks that addresses above the bound are counted together, and that
// those without anything to remember make room.
func TestStandingsMax(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandings()
		address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
		at := func(i int) *standing { return s.of(address(i), time.Now()) }
		for i := range standingsMax {
			s.takeFrames(address(i), 1, time.Now())
		}
		if last := at(standingsMax - 1); last == s.others || len(s.all) != standingsMax {
			t.Error(len(s.all), "addresses")
		}
		if at(standingsMax) != s.others {
			t.Error("an address above the bound is counted apart")
		}
		s.Guess(address(1), "anne", true)
		time.Sleep(standingsSweep)
		if at(standingsMax) == s.others || len(s.all) != 2 || s.all[address(1)] == nil {
			t.Error(len(s.all), "addresses after the sweep, expected the new one and the one with a wrong password")
		}
	})
}

// TestGuess checks that an address may send guessesMax wrong passwords of a user at once
// and one more after each guessTime, that the right one is refused meanwhile, and that
// other users and addresses are not.
func TestGuess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStandings()
		own, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		check := func(what string, address netip.Addr, user string, wrong, wantRefused, wantFirst bool) {
			t.Helper()
			if refused, first := s.Guess(address, user, wrong); refused != wantRefused || first != wantFirst {
				t.Errorf("%s: refused %v, first %v, expected %v, %v", what, refused, first, wantRefused, wantFirst)
			}
		}
		for range 1000 {
			check("a right password", own, "anne", false, false, false)
		}
		for range GuessesMax {
			check("a wrong password", own, "anne", true, false, false)
		}
		check("one above the bound", own, "anne", true, true, true)
		check("the right one", own, "anne", false, true, false)
		check("another user", own, "bob", true, false, false)
		check("another address", other, "anne", true, false, false)
		time.Sleep(guessTime)
		check("the right one later", own, "anne", false, false, false)
		check("a wrong one later", own, "anne", true, false, false)
		check("another wrong one", own, "anne", true, true, false)
		time.Sleep(GuessesMax * guessTime)
		for range GuessesMax {
			check("a wrong one after a long time", own, "anne", true, false, false)
		}
		check("one above the bound again", own, "anne", true, true, true)
		for i := range guessedMax - 2 {
			check("many users", own, strings.Repeat("x", i+1), true, false, false)
		}
		for range GuessesMax {
			check("further users", own, time.Now().String(), true, false, false)
			time.Sleep(1)
		}
		check("a further user above the bound", own, "y", true, true, true)
	})
}
