package server

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/storage"
)

// callerText names the caller of a request to door d in the access log, as the log of
// the store does: the user of a door that authenticates its callers, the name or the
// fingerprint of the key, or "local" without keys. It is "anonymous" if the request
// was refused without any of them: then the log of the store has no entry of it.
func callerText(d *door.Door, key *hashedKey, a *authz.Author) string {
	caller := a.Name
	switch {
	case caller != "" && !(d.OwnAuthentication && caller == storage.CallerLocal):
		return caller
	case key != nil: // the request was refused before it had an author
		return key.author
	}
	return callers.CallerAnonymous
}

// logRevision adds the newest revision that the writes of a request led to, if
// there is one, to a line of the access log.
func logRevision(line []slog.Attr, a *authz.Author) []slog.Attr {
	if r := a.Revision(); r > 0 {
		line = append(line, slog.Uint64("revision", uint64(r)))
	}
	return line
}

// millis is a duration in a line of the log, in milliseconds.
func millis(took time.Duration) slog.Attr {
	return slog.Float64("duration_ms", float64(took.Microseconds())/1000)
}

// logPanic logs a panic with its stack. It logs the panic's value only if it is
// an error of the Go runtime; other values get only their type logged, because
// they may hold content of the request.
func logPanic(log *slog.Logger, p any, door, route, id string) {
	what := fmt.Sprintf("%T", p)
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	log.Error("panic", "door", door, "route", route, "id", id, "what", what, "stack", string(debug.Stack()))
}
