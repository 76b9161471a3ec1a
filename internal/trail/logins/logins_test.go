package logins_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/internal/trail/logins"
)

// lines returns a log without times, and a function that returns and removes
// what was written to it.
func lines() (*slog.Logger, func() string) {
	b := &buffer{}
	h := slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return slog.New(h), b.take
}

// buffer has the text of a log, to which timers write too.
type buffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

// take returns and removes the text.
func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.text = nil }()
	return string(b.text)
}

func expect(t *testing.T, got string, want ...string) {
	t.Helper()
	text := ""
	for _, line := range want {
		text += "level=WARN msg=" + line + "\n"
	}
	if got != text {
		t.Errorf("logged\n%sexpected\n%s", got, text)
	}
}

func TestFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, written := lines()
		l := logins.New(log)
		l.Failed("keystone", "10.0.0.1:1111", "r1", "wrong password of user u1")
		expect(t, written(), `"login failed" door=keystone remote=10.0.0.1 why="wrong password of user u1" id=r1`)
		l.Failed("keystone", "10.0.0.1:2222", "r2", "wrong password of user u2")
		l.Failed("keystone", "10.0.0.1:3333", "r3", "wrong password of user u2")
		expect(t, written())
		l.Failed("onap", "10.0.0.1:1111", "r4", "no such user")
		l.Failed("keystone", "[::1]:1111", "r5", "no such user")
		expect(t, written(), `"login failed" door=onap remote=10.0.0.1 why="no such user" id=r4`,
			`"login failed" door=keystone remote=::1 why="no such user" id=r5`)
		time.Sleep(logins.Window + 1)
		synctest.Wait()
		expect(t, written(), `"more logins failed" door=keystone remote=10.0.0.1 times=2`)
		l.Failed("keystone", "10.0.0.1:1111", "r6", "no such user")
		expect(t, written(), `"login failed" door=keystone remote=10.0.0.1 why="no such user" id=r6`)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, written := lines()
		l := logins.New(log)
		for range 3 {
			l.Failed("", "10.0.0.1:1111", "", "no key")
		}
		written()
		l.Close()
		expect(t, written(), `"more logins failed" door="" remote=10.0.0.1 times=2`)
		time.Sleep(2 * logins.Window)
		expect(t, written())
	})
}

func TestManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, written := lines()
		l := logins.New(log)
		for i := range 1000 {
			l.Failed("keystone", fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), "", "no such user")
		}
		if n := strings.Count(written(), "\n"); n != 1000 {
			t.Errorf("%d lines for 1,000 addresses, expected as many", n)
		}
		for range 5 {
			l.Failed("keystone", "10.1.0.1:1", "r1", "no such user")
			l.Failed("onap", "10.1.0.2:1", "r1", "no such user")
		}
		expect(t, written(), `"login failed" door="" remote="further addresses" why="no such user" id=r1`)
		l.Failed("keystone", "10.0.0.1:1", "", "no such user")
		expect(t, written())
		time.Sleep(logins.Window + 1)
		synctest.Wait()
		if got := written(); !strings.Contains(got, `remote="further addresses" times=9`) || !strings.Contains(got, "remote=10.0.0.1 times=1") {
			t.Errorf("logged\n%s", got)
		}
	})
}
