// Package logins logs failed logins. However many there are, the log grows
// slowly.
package logins

import (
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"
)

// Window is the time after a logged failure in which further failures from the
// same address through the same door are only counted.
const Window = time.Minute

// originsMax bounds the number of addresses that are counted apart, over all
// doors. Failures from further addresses are counted together.
const originsMax = 1000

// Log logs the first failed login of each address and door as a warning, counts
// the others for a [Window], and then logs their number. It may be used
// concurrently.
type Log struct {
	log  *slog.Logger
	mu   sync.Mutex
	open map[origin]*window
}

// origin is where a failed login comes from.
type origin struct {
	door   string
	remote string // an address without a port
}

// window is the time in which the failures of an origin are counted.
type window struct {
	end   *time.Timer
	times int // failures after the first
}

// New returns a Log that writes to log.
func New(log *slog.Logger) *Log { return &Log{log: log, open: map[origin]*window{}} }

// Failed logs or counts a failed login. door is the name of the door, remote the
// caller's address with its port, id that of the request, and why the reason,
// which must not contain a secret. door and id may be empty.
func (l *Log) Failed(door, remote, id, why string) {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	o := origin{door, remote}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[o] == nil && len(l.open) >= originsMax {
		o = origin{remote: "further addresses"}
	}
	if w := l.open[o]; w != nil {
		w.times++
		return
	}
	w := &window{}
	w.end = time.AfterFunc(Window, func() { l.close(o, w) })
	l.open[o] = w
	l.log.Warn("login failed", "door", o.door, "remote", o.remote, "why", why, "id", id)
}

// close ends the window of an origin, and logs how many failures it counted.
func (l *Log) close(o origin, w *window) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[o] != w {
		return // Close was faster
	}
	delete(l.open, o)
	if w.times > 0 {
		l.log.Warn("more logins failed", "door", o.door, "remote", o.remote, "times", w.times)
	}
}

// Close logs what was counted and not logged yet.
func (l *Log) Close() {
	l.mu.Lock()
	open := maps.Clone(l.open)
	l.mu.Unlock()
	for o, w := range open {
		w.end.Stop()
		l.close(o, w)
	}
}
