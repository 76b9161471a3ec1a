package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/storage"
)

// controlTimeout bounds a command of the socket, which may wait for password hashes.
const controlTimeout = time.Minute

// control serves the socket of the data folder, with the commands of storeCommands, until
// the returned function is called.
func (s *prepared) control(stores map[string]http.HandlerFunc) (stop func()) {
	c := &commands{routes: http.NewServeMux(), trail: s.options.Audit}
	for name, run := range stores {
		c.routes.HandleFunc("POST /"+name, s.onHolder(run))
	}
	s.addMoveCommand(c)
	s.addBackupCommand(c)
	if s.member != nil {
		s.member.addNodeCommands(c)
	}
	return serveSocket(s.Data, s.log, c.routes)
}

// serveSocket serves the socket of a data folder until the returned function is called.
// A socket that cannot be made, for example because the path of the folder is too long
// for one, is a warning: the commands then need the server stopped.
func serveSocket(data string, log *slog.Logger, to http.Handler) (stop func()) {
	path := cli.ControlPath(data)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a server that was killed
		log.Warn("the control socket cannot be replaced", "path", path, "error", err)
		return func() {}
	}
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		log.Warn("the control socket cannot be made: \"ostiary keystone bootstrap\" needs the server stopped", "path", path, "error", err)
		return func() {}
	}
	srv := &http.Server{Handler: http.TimeoutHandler(to, controlTimeout, "the command took too long"), ReadTimeout: controlTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
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

// commands are the commands of the socket.
type commands struct {
	routes *http.ServeMux
	trail  *audit.Trail // nil without an audit log
}

// addCommand adds a command of the socket. run gets the body of the command, and its
// answer is sent. describe returns what a record of the audit log has about the body. If it
// is nil or returns "", the command changes nothing, and has no record.
func addCommand[O, A any](c *commands, name string, run func(context.Context, O) (A, error), describe func(O) string) {
	c.routes.HandleFunc("POST /"+name, answer(c.trail, name, run, describe))
}

// answer returns the handler of a command, as in addCommand.
func answer[O, A any](trail *audit.Trail, name string, run func(context.Context, O) (A, error), describe func(O) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var o O
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, cli.ControlBytesMax))
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil {
			http.Error(w, "the command and the server are of different versions: "+err.Error(), http.StatusBadRequest)
			return
		}
		what := ""
		if describe != nil {
			what = describe(o)
		}
		if err := trail.Ready(); err != nil && what != "" {
			http.Error(w, "the audit log cannot be written, and --audit-required is set: "+err.Error(), http.StatusConflict)
			return
		}
		ctx, begun := r.Context(), time.Now()
		if authz.AuthorOf(ctx) == nil {
			ctx = authz.WithAuthor(ctx, &authz.Author{Name: storage.CallerLocal})
		}
		answer, err := run(ctx, o)
		if what != "" {
			err = errors.Join(err, recordCommand(trail, begun, name, what, err))
		}
		if err != nil {
			http.Error(w, strings.TrimPrefix(err.Error(), "ostiary: "), http.StatusConflict)
			return
		}
		_ = json.NewEncoder(w).Encode(answer) // the client is gone otherwise
	}
}

// storeCommands returns the commands that change or read stores. The node that writes runs
// them, and has their records.
func (s *prepared) storeCommands() map[string]http.HandlerFunc {
	trail := s.options.Audit
	all := map[string]http.HandlerFunc{protocols.BootstrapCommand: answer(trail, protocols.BootstrapCommand, s.bootstrap,
		func(o identity.BootstrapOptions) string { return "user " + o.Username })}
	for name, command := range protocols.KeyringCommands() {
		run := func(ctx context.Context, body json.RawMessage) (any, error) {
			out, err := command.Run(ctx, s.keyring, body)
			if err != nil {
				s.log.Warn("Identity: a command on the keys of tokens failed", "command", name, "error", err)
			} else {
				s.log.Info("Identity: a command on the keys of tokens over the control socket", "command", name)
			}
			return out, err
		}
		describe := func(json.RawMessage) string { return "keys of tokens" }
		if !command.Audited {
			describe = nil
		}
		all[name] = answer(trail, name, run, describe)
	}
	return all
}

// recordCommand adds a record of a command that began at a time and ended with an error or nil.
// Who may use the socket is who may open the folder, so the caller is the local one.
func recordCommand(trail *audit.Trail, begun time.Time, name, what string, err error) error {
	r := audit.Record{Time: begun, Kind: audit.KindCommand, Operation: name, Caller: audit.Caller{ID: storage.CallerLocal}, Outcome: audit.Made, Why: what}
	if err != nil {
		r.Outcome, r.Why = audit.Failed, what+": "+err.Error()
	}
	return trail.Record(&r)
}

// bootstrap answers the command "ostiary keystone bootstrap".
func (s *prepared) bootstrap(ctx context.Context, o identity.BootstrapOptions) (made protocols.Bootstrapped, err error) {
	var store *ostiary.Store
	if err = s.setupKeys(ctx); err == nil {
		store, err = protocols.BootstrapIdentity(ctx, s.engine, o, s.flags.door.keystone.Identity)
	}
	if errors.Is(err, authz.ErrNoSecretKey) {
		err = fmt.Errorf("%w. %s", err, s.withoutKey())
	}
	if err != nil {
		s.log.Warn("Identity: bootstrap failed", "user", o.Username, "error", err)
		return made, err
	}
	s.log.Info("Identity: bootstrapped over the control socket", "user", o.Username, "store", store.ID())
	return protocols.Bootstrapped{Store: store.ID().String()}, nil
}

// withoutKey returns what to do to bootstrap a server that was started without the key of its
// secrets.
func (s *prepared) withoutKey() string {
	file := s.SecretKeyFile()
	if s.flags.nodes.on() {
		return fmt.Sprintf("The nodes were started without it. In a new cluster, the order is: put the same key into %s on each node, start the nodes, and bootstrap through one that runs. "+
			"A cluster that began without a key gets one if its stores go through a folder: see \"Keys of OpenStack Identity\" in docs/cluster.md", file)
	}
	return fmt.Sprintf("Start the server with the key of its data in %s. If there was none before, stop the server, and run the command again: it makes the key", file)
}
