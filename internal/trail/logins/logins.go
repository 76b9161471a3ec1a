// Package logins logs and counts failed logins. However many there are, the log grows
// slowly. The package never decides who may log in.
package logins

import (
	"log/slog"
	"net"
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
	log     *slog.Logger
	counter Counter[origin]
}

// origin is where a failed login comes from.
type origin struct {
	door   string
	remote string // an address without a port
}

// New returns a Log that writes to log.
func New(log *slog.Logger) *Log {
	l := &Log{log: log}
	l.counter.Max, l.counter.Rest = originsMax, origin{remote: "further addresses"}
	l.counter.Counted = func(o origin, times int, _, _ time.Time) {
		log.Warn("more logins failed", "door", o.door, "remote", o.remote, "times", times)
	}
	return l
}

// Failed logs or counts a failed login. door is the name of the door, remote the
// caller's address with its port, id that of the request, and why the reason,
// which must not contain a secret. door and id may be empty.
func (l *Log) Failed(door, remote, id, why string) {
	if o, first := l.counter.First(origin{door, HostOf(remote)}); first {
		l.log.Warn("login failed", "door", o.door, "remote", o.remote, "why", why, "id", id)
	}
}

// HostOf returns an address without its port.
func HostOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// Close logs what was counted and not logged yet.
func (l *Log) Close() { l.counter.Close() }
