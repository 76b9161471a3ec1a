package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/internal/identity"
)

// controlTimeout bounds a command of the socket, which may wait for password hashes.
const controlTimeout = time.Minute

// control serves the socket of the data folder until the returned function is called.
// A socket that cannot be made, for example because the path of the folder is too long
// for one, is a warning: the commands then need the server stopped.
func (s *prepared) control() (stop func()) {
	path := cli.ControlPath(s.Data)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a server that was killed
		s.log.Warn("the control socket cannot be replaced", "path", path, "error", err)
		return func() {}
	}
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		s.log.Warn("the control socket cannot be made: \"ostiary keystone bootstrap\" needs the server stopped", "path", path, "error", err)
		return func() {}
	}
	routes := http.NewServeMux()
	addCommand(routes, protocols.BootstrapCommand, s.bootstrap)
	if s.member != nil {
		s.member.addNodeCommands(routes)
	}
	srv := &http.Server{Handler: http.TimeoutHandler(routes, controlTimeout, "the command took too long"), ReadTimeout: controlTimeout, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // it ends with Close, which removes the socket
	}()
	return func() {
		srv.Close()
		<-done
	}
}

// addCommand adds a command of the socket. run gets the body of the command, and its
// answer is sent.
func addCommand[O, A any](routes *http.ServeMux, name string, run func(context.Context, O) (A, error)) {
	routes.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
		var o O
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, cli.ControlBytesMax))
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil {
			http.Error(w, "the command and the server are of different versions: "+err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := run(r.Context(), o)
		if err != nil {
			http.Error(w, strings.TrimPrefix(err.Error(), "ostiary: "), http.StatusConflict)
			return
		}
		_ = json.NewEncoder(w).Encode(answer) // the client is gone otherwise
	})
}

// bootstrap answers the command "ostiary keystone bootstrap".
func (s *prepared) bootstrap(ctx context.Context, o identity.BootstrapOptions) (made protocols.Bootstrapped, err error) {
	store, err := protocols.BootstrapIdentity(ctx, s.engine, o, s.flags.door.keystone.Identity)
	if err != nil {
		s.log.Warn("Identity: bootstrap failed", "user", o.Username, "error", err)
		return made, err
	}
	s.log.Info("Identity: bootstrapped over the control socket", "user", o.Username, "store", store.ID())
	return protocols.Bootstrapped{Store: store.ID().String()}, nil
}
