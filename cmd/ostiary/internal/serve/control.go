package serve

import (
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
	routes.HandleFunc("POST /"+protocols.BootstrapCommand, s.bootstrap)
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

// bootstrap answers the command "ostiary keystone bootstrap".
func (s *prepared) bootstrap(w http.ResponseWriter, r *http.Request) {
	var o identity.BootstrapOptions
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, cli.ControlBytesMax))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		http.Error(w, "the command and the server are of different versions: "+err.Error(), http.StatusBadRequest)
		return
	}
	store, err := protocols.BootstrapIdentity(r.Context(), s.engine, o, s.flags.door.keystone.Identity)
	if err != nil {
		s.log.Warn("Identity: bootstrap failed", "user", o.Username, "error", err)
		http.Error(w, strings.TrimPrefix(err.Error(), "ostiary: "), http.StatusConflict)
		return
	}
	s.log.Info("Identity: bootstrapped over the control socket", "user", o.Username, "store", store.ID())
	_ = json.NewEncoder(w).Encode(protocols.Bootstrapped{Store: store.ID().String()}) // the client is gone otherwise
}
