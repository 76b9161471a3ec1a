package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/xacml"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/identity/keyring"
	"github.com/ostiary/ostiary/internal/tool/printable"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/pebble"
)

// off is the value of an address flag that disables the listener.
const off = "off"

// depthMax is the largest depth that a request may ask for, in protocols that
// have such a field. Permify's users ask for up to 1,000. Other requests use the
// engine's default depth.
const depthMax = 1000

// loadWaitDefault is the default of --load-wait.
const loadWaitDefault = time.Second

// serveFlags are the settings of the command serve.
type serveFlags struct {
	config              string
	http, grpc, metrics string
	doors, dedicated    []string
	metricsExposed      bool
	console             consoleFlags
	// opened, if set, gets the address of http once it is open, in place of the line with all addresses.
	opened func(http string) error

	auth, keysFile   string
	usersFile        string
	issuers          []string // URLs of the providers whose tokens are accepted
	audiences        []string // of each of them, separated by commas
	anonymous        bool
	tlsCert, tlsKey  string
	clientCA         string
	clientRequired   bool
	metricsTLS       bool
	pprof            bool
	cors             []string
	requestTimeout   time.Duration
	headerTimeout    time.Duration
	idleTimeout      time.Duration
	transferTime     time.Duration
	drainTime        time.Duration
	stopTimeout      time.Duration
	bodyBytes        int64
	headerBytes      int
	requests         int64
	streams          int64
	wire             wireFlags
	nodes            nodesFlags
	memory           int64
	disk             diskFlags
	bounds           authz.Bounds
	conditions       cel.Options
	window           time.Duration
	preload          []string
	record           int
	background       time.Duration
	logFormat, level string
	accessLog        bool
	audit            auditFlags
	decisions        decisionFlags
	traces           traceFlags
	door             DoorFlags
}

func (a *app) serveCommand() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{Use: "serve", Short: "Serve the data over HTTP and gRPC", Args: cobra.NoArgs,
		Long: "Serve the data over HTTP and gRPC until the command is interrupted. A missing data folder is created.\n" +
			"The command line has precedence over the environment (OSTIARY_HTTP sets --http), and the environment over --config FILE.\n" +
			"Preshared keys come from --auth-keys-file or OSTIARY_AUTH_KEYS (separated by commas), never from the command line.\n" +
			"On SIGHUP the server reads the TLS certificate, the authorities of client certificates, the keys and the policy file of Identity again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(applyConfig(cmd.Flags(), flags.config), cli.RefuseNegative(cmd.Flags()), a.CleanData()); err != nil {
				return err
			}
			return a.serve(cmd.Context(), &flags)
		}}
	flags.add(cmd)
	a.AddKeystoneKeys(cmd.Flags())
	cli.Rare(cmd.Flags(), keystoneTopic)
	return cmd
}

func (f *serveFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.SortFlags = false
	s.StringVar(&f.config, "config", "", "YAML file with these settings; the names are those of the flags")
	cli.Topic(s, "Configuration file")
	s.StringVar(&f.http, "http", "127.0.0.1:8080", "HTTP address of all doors, or off")
	s.StringVar(&f.grpc, "grpc", "127.0.0.1:8081", "gRPC address of all doors, or off")
	s.StringVar(&f.metrics, "metrics", "127.0.0.1:2112", "address of Prometheus metrics (GET /metrics), or off")
	s.BoolVar(&f.metricsExposed, "metrics-exposed", false, "allow a --metrics address that other machines can reach")
	s.StringSliceVar(&f.doors, "doors", nil, "doors on --http and --grpc: "+strings.Join(doorNames[:], ", ")+"; default: all")
	s.StringSliceVar(&f.dedicated, "door", nil, "serve one door on a separate port: NAME=http://HOST:PORT or NAME=grpc://HOST:PORT; may be repeated")
	cli.Topic(s, "Ports and doors")
	s.BoolVar(&f.metricsTLS, "metrics-tls", false, "serve --metrics with the certificate of --tls-cert; with keys, a caller there needs a key of all doors or of the door metrics")
	s.BoolVar(&f.pprof, "pprof", false, "serve profiles of the process at /debug/pprof/ on --metrics; with keys, a caller needs one with the right admin on all stores")
	f.console.add(s)
	cli.Rare(s, "Ports and doors")
	s.StringVar(&f.auth, "auth", "", "none (loopback only), preshared (keys of files), or keys (those of ostiary key as well); default: keys if there are any, otherwise none")
	s.StringVar(&f.keysFile, "auth-keys-file", "", "file of preshared keys, one per line; a line may have a name before the key")
	s.StringArrayVar(&f.issuers, "auth-oidc-issuer", nil, "URL of an OpenID Connect provider whose tokens are accepted; keys with --match-issuer have what their callers may do; may be repeated")
	s.StringArrayVar(&f.audiences, "auth-oidc-audience", nil, "audience that tokens of the --auth-oidc-issuer of the same position must have, or several with commas")
	s.BoolVar(&f.anonymous, "auth-anonymous", false, "accept clients on other machines with --auth none")
	s.StringVar(&f.tlsCert, "tls-cert", "", "PEM file with the certificate and its chain; enables TLS 1.2 or later on all ports except --metrics (--metrics-tls)")
	s.StringVar(&f.tlsKey, "tls-key", "", "PEM file with the certificate's key")
	s.StringVar(&f.clientCA, "tls-client-ca", "", "PEM file of the authorities whose client certificates are accepted; keys with --match-certificate have what their callers may do")
	s.BoolVar(&f.clientRequired, "tls-client-required", false, "refuse connections without a client certificate of --tls-client-ca, for health as well")
	s.StringSliceVar(&f.cors, "cors", nil, "origins of web pages that may send requests (https://app.example), or *; default: none")
	cli.Topic(s, "Callers and TLS")
	s.StringVar(&f.usersFile, "auth-users-file", "", "file of users for HTTP Basic authentication, NAME PASSWORD on each line; only the ONAP doors accept them")
	cli.Rare(s, "Callers and TLS")
	s.DurationVar(&f.requestTimeout, "request-timeout", server.RequestTimeoutDefault, "maximum duration of a request, except streams; 0 means no limit")
	s.DurationVar(&f.drainTime, "drain-time", server.DrainTimeDefault, "how long a stopping server reports that it is not ready while it still accepts requests; 0 skips this phase")
	s.DurationVar(&f.stopTimeout, "stop-timeout", server.StopTimeoutDefault, "how long a stopping server waits for running requests")
	cli.Topic(s, "Durations")
	s.DurationVar(&f.headerTimeout, "header-timeout", server.HeaderTimeoutDefault, "maximum duration of reading a request's headers")
	s.DurationVar(&f.transferTime, "transfer-time", server.TransferTimeDefault, "maximum duration of reading a request body, of writing a response, and of each write of a stream")
	s.DurationVar(&f.idleTimeout, "idle-timeout", server.IdleTimeoutDefault, "maximum idle time of a connection between requests")
	cli.Rare(s, "Durations")
	cli.BytesVar(s, &f.bodyBytes, "body-bytes", 4<<20, "maximum size of a request body or gRPC message, for routes without their own limit")
	cli.BytesVar(s, &f.headerBytes, "header-bytes", server.HeaderBytesDefault, "maximum total size of a request's headers")
	s.Int64Var(&f.requests, "requests-max", server.RequestsMaxDefault, "maximum number of concurrent requests, except streams")
	s.Int64Var(&f.streams, "streams-max", server.StreamsMaxDefault, "maximum number of concurrent streams; with keys, health watches without a key have a separate limit, a tenth of this one")
	f.wire.add(cmd)
	cli.Rare(s, "Requests and connections")
	f.addBounds(s)
	cli.Rare(s, "Questions")
	cli.BytesVar(s, &f.memory, "memory-bytes", 0, "memory for the data and the compiled models of all loaded stores, for example 1GiB; when it is reached, idle stores are unloaded and then writes are refused, but loads are not; questions and connections need more memory; 0 means no limit")
	cli.CountVar(s, &f.record, "record-decisions", 0, 0, "number of recent decisions to keep for what-if, at most one hour and 64 MiB of them; 0 keeps none")
	s.StringSliceVar(&f.preload, "preload", []string{preloadRecent}, "stores to load before the server reports that it is ready: recent (those used last), none, or their ids or names; stores that are named stay in memory, recent ones are unloaded when they are idle")
	s.Lookup("preload").DefValue = preloadRecent // without the brackets of a list
	s.DurationVar(&f.window, "window", ostiary.WindowDefault, "how long past revisions can be queried; negative means forever")
	cli.Topic(s, "Stores and memory")
	s.IntVar(&f.bounds.Stores, "stores-max", 1_000_000, "maximum number of stores, those that doors make for themselves included")
	s.DurationVar(&f.bounds.LoadWait, "load-wait", loadWaitDefault, "how long a request waits while its store is loading; then it gets 503 with Retry-After; 0 means as long as --request-timeout")
	s.DurationVar(&f.background, "background", time.Minute, "interval at which expired tuples are removed, and stores without a request since the last time are unloaded; 0 means never")
	f.disk.add(s)
	cli.Rare(s, "Stores and memory")
	f.nodes.add(s)
	s.StringVar(&f.logFormat, "log-format", "text", "text or json")
	s.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	s.BoolVar(&f.accessLog, "access-log", false, "log each request")
	cli.Topic(s, "Logs")
	f.audit.add(s)
	f.decisions.add(s)
	f.traces.add(s)
	f.door.add(s)
}

// serve prepares a server, opens the data folder and the doors, and runs the server
// until ctx ends.
func (a *app) serve(ctx context.Context, f *serveFlags) (err error) {
	s, err := a.prepare(f)
	if err != nil {
		return err
	}
	defer s.ports.close()
	options := ostiary.Options{Conditions: cli.Conditions(f.conditions), MemoryMax: f.memory, Window: f.window, Background: f.background,
		Record: authz.RecordingOptions{Decisions: f.record, Counted: countDecision},
		Bounds: f.engineBounds(), Guard: cli.GuardOwned, Reserved: f.reserved}
	s.disks = openDisks(a.Data, f.nodes.quorum.on(), f.disk.reserve(), s.log)
	options.Room = s.disks.room
	if s.disks != nil && s.member == nil {
		s.options.Readiness = s.disks.ready
	}
	log, err := s.openDecisions()
	if err != nil {
		return err
	}
	if log != nil {
		options.Record.Decided = log.Decided
		defer func() { err = errors.Join(err, log.Close()) }()
	}
	if err := f.traces.read(s.Lookup, &options.Record); err != nil {
		return err
	}
	notifications, err := s.openNotifications()
	if err != nil {
		return err
	}
	if notifications != nil {
		defer func() { err = errors.Join(err, notifications.Close()) }()
	}
	serve := func(e *ostiary.Engine, driver *pebble.Driver) error {
		s.engine, s.driver = e, driver
		if err := s.open(ctx); err != nil {
			return err
		}
		endTraces, err := s.openTraces()
		if err != nil {
			return err
		}
		defer endTraces()
		trail, err := s.openAudit()
		if err != nil {
			return err
		}
		if s.member != nil {
			s.member.trail.Store(trail)
		}
		err = s.run(ctx)
		if s.member != nil {
			s.member.endBackground() // it records changes of the node's role
		}
		return errors.Join(err, trail.Close())
	}
	if m := s.member; m != nil {
		m.disks = s.disks
		s.started = server.AnswerStarting(s.options, s.ports.starting(), m.starting)
		defer s.started()
		err = a.withMember(ctx, m, options, func(e *ostiary.Engine) error { return serve(e, m.local) })
	} else {
		open := func() error { return a.WithData(ctx, true, options, serve) }
		if f.disk.readOnly {
			options.Room, options.Background, s.options.Forwarder = nil, 0, readOnly{}
			open = func() error { return a.WithReadOnly(ctx, options, serve) }
		}
		err = open()
	}
	s.failures.Close()
	if err == nil {
		s.log.Info("stopped")
	}
	return err
}

// prepared is a server whose settings are valid and whose ports are open.
type prepared struct {
	*app
	flags    *serveFlags
	log      *slog.Logger
	failures *logins.Log // of logins
	options  server.Options
	ports    *ports
	reload   func() error // reads the keys, the certificates and the policy file again
	member   *member      // nil if the server is no node of a cluster
	started  func()       // ends the answers of the ports while the node starts; nil if it is none

	backups backupRecord
	disks   *disks // nil without a reserve

	// engine is that of the open folder, and driver its driver; nil in memory.
	engine *ostiary.Engine
	driver *pebble.Driver
	// keyring has the keys of Identity's tokens that are in the system store.
	keyring *keyring.Keyring
}

// prepare checks the settings, reads the files that they name, and opens the ports,
// which the caller closes. It does not need the data folder.
func (a *app) prepare(f *serveFlags) (*prepared, error) {
	log, err := f.logger(a.Err)
	if err != nil {
		return nil, err
	}
	s := &prepared{app: a, flags: f, log: log, failures: logins.New(log)}
	rules, err := s.prepareIdentity()
	if err != nil {
		return nil, err
	}
	report := func(door string) func(error) {
		return func(err error) { log.Error("internal error", "door", door, "error", err) }
	}
	f.door.keystone.Report, f.door.openfga.Report = report(keystone.Name), report(openfga.Name)
	f.door.onap.Report, f.door.native.Report = report("onap"), report(native.Name)
	if f.door.native.AuditLog = f.audit.folder; f.decisions.folder != toStdout {
		f.door.native.DecisionLog = f.decisions.folder
	}
	f.console.report = func(issuer string, err error) {
		log.Warn("users cannot sign in to the console at this provider: its configuration cannot be used", "issuer", issuer, "error", err)
	}
	var reload func() error
	if s.options, reload, err = a.serverOptions(f); err != nil {
		return nil, err
	}
	reload = s.auditReload(reload)
	s.reload = func() error { return errors.Join(reload(), rules.reload()) }
	s.options.Log, s.options.Class = log, classOf
	if a.Token != "" && s.options.Keys == nil {
		log.Warn("--token is the key that a client sends; it does not protect this server, whose keys come from --auth-keys-file or " + cli.EnvKeys)
	}
	if s.ports, err = a.openServerPorts(f, &s.options); err != nil {
		return nil, err
	}
	s.options.Listen = s.ports.take
	if s.member, err = f.nodes.prepareMember(log, s.failures); err != nil {
		s.ports.close()
		return nil, err
	}
	if m := s.member; m != nil {
		s.options.Forwarder, s.options.Readiness, s.options.StaleReads = m, m.ready, m.staleReads
		f.door.keystone.Identity.Leads = m.Leads
		s.options.Collectors = append(s.options.Collectors, newNodeFigures(m))
		other := s.reload
		s.reload = func() error { return errors.Join(other(), m.reload()) }
	}
	return s, nil
}

// open opens the doors on the engine, and finds the stores to load first.
func (s *prepared) open(ctx context.Context) error {
	s.openKeyring()
	s.flags.door.native.Nodes = s.nodes
	if err := s.flags.openDoors(&s.options, s.engine); err != nil {
		return err
	}
	if err := s.requireKeys(ctx); err != nil {
		return err
	}
	stores, err := s.storesToPreload(ctx, s.engine, s.flags.preload)
	if err != nil {
		return err
	}
	if err := protocols.CheckKeystoneDeployment(ctx, s.engine); err != nil {
		return err
	}
	doors := servedDoors(&s.options)
	if !slices.Equal(s.flags.preload, []string{preloadNone}) {
		s.options.Preload = func(ctx context.Context) {
			preload(ctx, s.engine, stores, s.flags.memory, s.log)
			prepareDoors(ctx, doors, s.log)
		}
	}
	if s.driver != nil {
		cli.WarnFolderMode(s.log, s.Data)
		s.warnKeystoneKeys(ctx)
		s.options.Probe = s.driver.Failed
		if s.member != nil {
			s.options.Probe = s.member.Failed
		}
		s.readBackup()
		s.options.Collectors = append(s.options.Collectors, newFolderFigures(s.driver), newBackupFigures(&s.backups))
		s.options.Collectors = append(s.options.Collectors, s.disks.collectors()...)
	}
	s.options.Collectors = append(s.options.Collectors, newKeyFigures(s.flags.door.native.Callers, s.flags.door.keystone.Identity.HashesWaiting))
	makeRoomForHashes(ctx, s.engine, doors, s.flags.door.keystone.Identity.HashThreads)
	return nil
}

// run serves until ctx ends.
func (s *prepared) run(ctx context.Context) error {
	running, err := server.New(s.options)
	if err != nil {
		return explainExposed(err)
	}
	stores := s.storeCommands()
	// Who waits until the server is ready can then send it a command.
	if s.driver != nil && !s.flags.disk.readOnly {
		defer s.control(stores)()
	}
	if s.started != nil {
		s.started()
	}
	if err := running.Start(); err != nil {
		return err
	}
	if s.member != nil {
		s.member.attach(s.withCommands(running, stores))
		s.member.warnExpiry()
	}
	defer runDoors(servedDoors(&s.options))()
	defer s.followKeys()()
	defer onHangup(s.log, s.reload)()
	defer s.governHeap()()
	defer s.disks.watch(s.driver)()
	tls := s.flags.tlsCert != ""
	if s.driver != nil && !s.flags.disk.readOnly {
		defer s.recordRecent(s.engine, s.log)()
		held, err := cli.WriteHolder(s.Data, addressesOf(running), tls)
		if err != nil {
			return errors.Join(err, running.Stop())
		}
		defer held.Close()
		defer cli.RemoveHolder(s.Data)
	}
	s.flags.door.warnMissingStores(ctx, s.log, s.engine, &s.options)
	if err := s.announce(running, tls); err != nil {
		return errors.Join(err, running.Stop())
	}
	logStart(s.log, s.Data, &s.options, running)
	defer s.underSystemd(ctx)()
	s.flags.door.warnHostLinks(s.log, &s.options)
	for _, at := range s.options.PlainAddresses() {
		s.log.Warn("passwords and tokens are sent without TLS: set --tls-cert and --tls-key, or let a proxy with TLS listen instead", "address", at)
	}
	// A second interrupt stops the process immediately.
	defer context.AfterFunc(ctx, func() {
		s.log.Info("stopping")
		if context.Cause(ctx) != context.Canceled { // by a signal, and not by a program that runs this command
			signal.Reset(os.Interrupt, syscall.SIGTERM)
		}
		if s.member != nil {
			s.member.handOver()
		}
	})()
	return running.Wait(ctx)
}

// logStart logs what the server serves: version, data folder, doors, addresses,
// authentication and TLS.
func logStart(log *slog.Logger, data string, o *server.Options, s *server.Server) {
	var doors []string
	for _, d := range servedDoors(o) {
		doors = append(doors, d.Name)
	}
	auth := cli.AuthPreshared
	switch {
	case o.CallersOptional:
		auth = "off"
	case o.Callers != nil:
		auth = cli.AuthKeys
	case o.Keys == nil:
		auth = "off"
	}
	attrs := []any{"version", cli.Version()["version"], "data", data, "doors", strings.Join(doors, ","), "auth", auth, "tls", o.TLS != nil}
	for _, at := range s.Addresses() {
		attrs = append(attrs, strings.ReplaceAll(at.Name, " ", "_"), at.Addr.String())
	}
	log.Info("serving", attrs...)
}

// warnOnlyUsers logs a warning if the server has users but no preshared keys, because doors
// that do not accept HTTP Basic authentication then refuse every caller.
func warnOnlyUsers(log *slog.Logger, o *server.Options) {
	if !o.Keys.OnlyUsers() {
		return
	}
	var closed []string
	for _, d := range servedDoors(o) {
		if !d.Basic && !d.OwnAuthentication {
			closed = append(closed, d.Name)
		}
	}
	if closed != nil {
		log.Warn("only users with passwords are set, but these doors accept only keys: add keys with --auth-keys-file", "doors", strings.Join(closed, ","))
	}
}

// warnMissingStores logs a warning for each setting that names a store which does not
// exist. It is no error: the store can be created while the server runs.
func (f *DoorFlags) warnMissingStores(ctx context.Context, log *slog.Logger, e *ostiary.Engine, o *server.Options) {
	for _, named := range [...]struct{ flag, store, door, expected string }{
		{"--authzen-store", f.authzenStore, authzen.Name, "the id, or the alias for AuthZEN"},
		{"--xacml-relations", storeIDValue{&f.xacmlRelations}.String(), xacml.Name, "the id"},
	} {
		if named.store == "" || !slices.ContainsFunc(servedDoors(o), func(d *door.Door) bool { return d.Name == named.door }) {
			continue
		}
		if _, err := door.FindStore(ctx, e, named.door, named.store); errors.Is(err, authz.ErrNoStore) {
			log.Warn(named.flag+": no store has "+named.expected+"; requests fail until one has it", "store", named.store)
		}
	}
}

// warnHostLinks logs a warning if the links of doors follow the Host header of each
// request, on a server that has callers from elsewhere: one who can choose the header, or
// fill a cache between them, then chooses where others send their credentials.
func (f *DoorFlags) warnHostLinks(log *slog.Logger, o *server.Options) {
	if o.Keys == nil {
		return
	}
	for _, d := range servedDoors(o) {
		switch {
		case d.Name == authzen.Name && f.authzenURL == "":
			log.Warn("links in AuthZEN's metadata follow the Host header of each request: set --authzen-url")
		case d.Name == keystone.Name && f.keystone.URL == "":
			log.Warn("links in Identity's responses follow the Host header of each request: set --keystone-url")
		}
	}
}

// openServerPorts opens the ports of a server. If another server has the folder
// open, the error of a port in use names that server.
func (a *app) openServerPorts(f *serveFlags, o *server.Options) (*ports, error) {
	dedicated, err := parseDedicated(f.dedicated)
	if err != nil {
		return nil, err
	}
	open, err := openPorts(o, dedicated)
	if errors.Is(err, syscall.EADDRINUSE) && a.Data != cli.InMemory {
		if h := cli.ServerOf(a.Data); h != nil {
			return nil, fmt.Errorf("%w; a server (process %d) already serves the folder %s", err, h.PID, a.Data)
		}
	}
	return open, err
}

// openDoors sets the doors of o, which answer from e.
func (f *serveFlags) openDoors(o *server.Options, e *ostiary.Engine) error {
	all, err := AllDoors(e, &f.door)
	if err != nil {
		return err
	}
	o.Engine = e
	if o.Doors, err = pickDoors(all, f.doors); err != nil {
		return err
	}
	if o.Dedicated, err = dedicatedDoors(all, f.dedicated); err != nil {
		return err
	}
	return f.openConsole(o)
}

// serverOptions converts the flags to the server's options, without the doors.
// reload reads the certificate and the keys again.
func (a *app) serverOptions(f *serveFlags) (o server.Options, reload func() error, err error) {
	o = server.Options{HTTP: address(f.http), GRPC: address(f.grpc), Metrics: address(f.metrics), MetricsExposed: f.metricsExposed,
		Anonymous: f.anonymous, CORS: f.cors, RequestTimeout: none(f.requestTimeout), HeaderTimeout: f.headerTimeout,
		TransferTime: f.transferTime, IdleTimeout: f.idleTimeout, DrainTime: none(f.drainTime), StopTimeout: f.stopTimeout,
		BodyBytes: f.bodyBytes, HeaderBytes: f.headerBytes, RequestsMax: f.requests, StreamsMax: f.streams, AccessLog: f.accessLog}
	if err := errors.Join(f.checkAddresses(), f.checkDoors(), f.console.check(f.issuers), f.audit.check(a.Data), f.checkReadOnly(a.Data)); err != nil {
		return o, nil, err
	}
	f.wire.set(&o)
	var certificate, authorities, keys func() error
	if o.TLS, certificate, err = f.certificate(); err != nil {
		return o, nil, err
	}
	if o.ClientCA, authorities, err = f.clientAuthorities(); err != nil {
		return o, nil, err
	}
	o.MetricsTLS, o.Profiles = f.metricsTLS, f.pprof
	if o.Keys, keys, err = a.keys(f); err != nil {
		return o, nil, err
	}
	if o.Tokens, err = f.tokens(a.CaCert); err != nil {
		return o, nil, err
	}
	if err := f.checkExposure(o); err != nil && !(errors.Is(err, server.ErrExposed) && a.mayHaveKeys(f, &o)) {
		return o, nil, explainExposed(err)
	}
	return o, func() error {
		return errors.Join(certificate(), authorities(), keys())
	}, nil
}

// checkExposure is CheckExposure of the options before the keys of the system store are
// known.
func (f *serveFlags) checkExposure(o server.Options) error {
	if f.auth == cli.AuthKeys || o.Tokens != nil || o.ClientCA != nil {
		o.Callers = callers.New(nil, callers.Options{})
	}
	return o.CheckExposure()
}

// mayHaveKeys reports whether the system store decides whether requests need a caller, see
// [prepared.requireKeys], and may have keys: that of a folder which exists, or of a cluster.
func (a *app) mayHaveKeys(f *serveFlags, o *server.Options) bool {
	if f.auth != "" || o.Keys != nil || a.Data == cli.InMemory {
		return false
	}
	_, err := os.Stat(a.Data)
	return err == nil || f.nodes.on()
}

// none converts the flags' 0 to the options' -1. Both mean that there is no such
// limit.
func none(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func (f *serveFlags) certificate() (*server.Certificate, func() error, error) {
	if f.tlsCert == "" && f.tlsKey == "" {
		return nil, func() error { return nil }, nil
	}
	if f.tlsCert == "" || f.tlsKey == "" {
		return nil, nil, fmt.Errorf("%w: --tls-cert and --tls-key must be set together", cli.ErrUsage)
	}
	if err := cli.CheckKeysMode(f.tlsKey); err != nil {
		return nil, nil, fmt.Errorf("--tls-key: %w", err)
	}
	c, err := server.NewCertificate(f.tlsCert, f.tlsKey)
	if err != nil {
		return nil, nil, err
	}
	return c, func() error {
		if err := cli.CheckKeysMode(f.tlsKey); err != nil {
			return fmt.Errorf("--tls-key: %w", err)
		}
		return c.Reload()
	}, nil
}

// clientAuthorities returns the authorities of client certificates, or nil without any.
func (f *serveFlags) clientAuthorities() (*server.ClientCA, func() error, error) {
	switch {
	case f.clientCA == "" && f.clientRequired:
		return nil, nil, fmt.Errorf("%w: --tls-client-required needs --tls-client-ca, the authorities of the certificates", cli.ErrUsage)
	case f.tlsCert == "" && (f.clientCA != "" || f.metricsTLS):
		return nil, nil, fmt.Errorf("%w: --tls-client-ca and --metrics-tls need --tls-cert and --tls-key: clients show certificates over TLS only", cli.ErrUsage)
	case f.metricsTLS && f.metrics == off:
		return nil, nil, fmt.Errorf("%w: --metrics-tls is set, and --metrics is off", cli.ErrUsage)
	case f.pprof && f.metrics == off:
		return nil, nil, fmt.Errorf("%w: --pprof is set, and --metrics is off", cli.ErrUsage)
	case f.clientCA == "":
		return nil, func() error { return nil }, nil
	}
	a, err := server.NewClientCA(f.clientCA, f.clientRequired)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: --tls-client-ca: %w", cli.ErrUsage, err)
	}
	return a, a.Reload, nil
}

// onHangup calls reload at each SIGHUP until the caller calls stop. From then on SIGHUP does
// nothing: one that comes late does not end the process while it closes its folder.
func onHangup(log *slog.Logger, reload func() error) (stop func()) {
	hangups, end, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-hangups:
				if err := reload(); err != nil {
					log.Error("reload failed; the old keys, certificates or policy stay in use", "error", err)
					continue
				}
				log.Info("reloaded keys, certificates and policy")
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}

func (f *serveFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, fmt.Errorf("%w: invalid --log-level %q: expected debug, info, warn or error", cli.ErrUsage, f.level)
	}
	o := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(printable.Writer(w, printable.LinesOf), o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(printable.Writer(w, printable.JSON), o)), nil
	}
	return nil, fmt.Errorf("%w: invalid --log-format %q: expected text or json", cli.ErrUsage, f.logFormat)
}
