package server

import (
	"log/slog"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/storage"
)

const (
	// headerReason is the header, in its canonical form, with the reason of the
	// writes of a request, and metadataReason is the same for gRPC. Clients may send
	// either with every request.
	headerReason   = "Ostiary-Reason"
	metadataReason = "ostiary-reason"
)

// origin returns the origin of the writes of a caller with a key, or nil for a
// server without keys. reasons are the values of the header or metadata for the
// reason. origin fails if there are several, or one that no entry can have.
func (k *hashedKey) origin(reasons []string) (o storage.Origin, why *door.Refusal) {
	if o.Caller = storage.CallerLocal; k != nil {
		o.Caller = k.author
	}
	switch len(reasons) {
	case 0:
		return o, nil
	case 1:
		o.Reason = reasons[0]
	}
	if len(reasons) > 1 || len(o.Reason) > storage.ReasonBytesMax || o.Invalid() != "" {
		return o, &door.Refusal{Reason: door.BadReason}
	}
	return o, nil
}

// logRevision adds the newest revision that the writes of a request led to, if
// there is one, to a line of the access log.
func logRevision(line []slog.Attr, a *authz.Author) []slog.Attr {
	if r := a.Revision(); r > 0 {
		line = append(line, slog.Uint64("revision", uint64(r)))
	}
	return line
}
