package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/link"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
)

// controlDoor is the door of a request that is a command of the control socket of the node
// that passes it on. No door has the name.
const controlDoor = "control"

// onHolder passes a command of the socket on to the node that writes, if this node is
// another one.
func (s *prepared) onHolder(own http.HandlerFunc) http.HandlerFunc {
	if s.member == nil {
		return own
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, cli.ControlBytesMax))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for attempt := 1; ; attempt++ {
			q := r.Clone(r.Context())
			q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			target, here, err := s.member.Target(r.Context())
			switch {
			case here:
				own(w, q)
				return
			case err == nil:
				id, after := s.member.Next()
				origin := storage.Origin{Caller: storage.CallerLocal, Request: id}
				err = target.HTTP(w, q, forward.Head{Door: controlDoor, Keys: []forward.KeyID{{}}, Origin: origin, After: after, Timeout: controlTimeout})
			}
			switch {
			case err == nil:
				return
			case !errors.Is(err, forward.ErrNotBegun) || attempt == passOnMax:
				http.Error(w, fmt.Sprintf("the node that writes did not answer the command: %v", err), http.StatusConflict)
				return
			}
			select {
			case <-time.After(lostTick):
			case <-r.Context().Done():
			}
		}
	}
}

// passOnMax is how often a command is passed on to a node that does not begin with it.
const passOnMax = 50

// forwardedCommands serves requests that other nodes pass on: those of doors and those of
// control sockets.
type forwardedCommands struct {
	*server.Server
	begin    func(context.Context) bool
	commands http.Handler
}

// withCommands returns what serves the requests that other nodes pass on, those of
// storeCommands among them.
func (s *prepared) withCommands(running *server.Server, stores map[string]http.HandlerFunc) link.Receiver {
	routes := http.NewServeMux()
	for name, run := range stores {
		routes.HandleFunc("POST /"+name, run)
	}
	return forwardedCommands{running, s.member.Begin, routes}
}

// ServeForwarded implements [link.Receiver].
func (f forwardedCommands) ServeForwarded(w http.ResponseWriter, r *http.Request, as forward.Head) error {
	if as.Door != controlDoor {
		return f.Server.ServeForwarded(w, r, as)
	}
	ctx, cancel := context.WithCancel(r.Context()) // a hand-over waits for its end
	defer cancel()
	if !f.begin(ctx) {
		return fmt.Errorf("%w: it is not the holder", forward.ErrNotBegun)
	}
	j := &journal.Journal{}
	j.SetOrigin(as.Origin)
	ctx = journal.With(ctx, j)
	f.commands.ServeHTTP(w, r.WithContext(ctx))
	return nil
}
