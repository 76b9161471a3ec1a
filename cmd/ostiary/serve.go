package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/pebble"
)

// off is the address of a port that is not there.
const off = "off"

// depthMost is how deep a question may ask to go, in protocols where it says so
// (Permify's users ask for up to 1,000). Others stay at the engine's default.
const depthMost = 1000

// serveFlags are the settings of ostiary serve.
type serveFlags struct {
	config              string
	http, grpc, metrics string
	doors, alone        []string
	metricsExposed      bool

	auth, keysFile   string
	anonymous        bool
	tlsCert, tlsKey  string
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
	memory           int64
	window           time.Duration
	record           int
	background       time.Duration
	logFormat, level string
	accessLog        bool
	door             doorFlags
}

func (a *app) serveCommand() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{Use: "serve", Short: "Serve the data over HTTP and gRPC", Args: cobra.NoArgs,
		Long: "Serve the data over HTTP and gRPC until it is interrupted. The folder is made if it is not there.\n" +
			"Settings come from the command line, the environment (--http is OSTIARY_HTTP) and --config FILE, in this order.\n" +
			"Preshared keys come from --auth-keys-file or OSTIARY_AUTH_KEYS (separated by commas), never from the command line.\n" +
			"SIGHUP reads the TLS certificate and the keys again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := applyConfig(cmd.Flags(), flags.config); err != nil {
				return err
			}
			return a.serve(cmd.Context(), &flags)
		}}
	flags.add(cmd)
	return cmd
}

func (f *serveFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.SortFlags = false
	s.StringVar(&f.config, "config", "", "a YAML file of these settings, by the flags' names")
	s.StringVar(&f.http, "http", "127.0.0.1:8080", "address of all doors over HTTP, or off")
	s.StringVar(&f.grpc, "grpc", "127.0.0.1:8081", "address of all doors over gRPC, or off")
	s.StringVar(&f.metrics, "metrics", "127.0.0.1:2112", "address of Prometheus metrics (GET /metrics), or off")
	s.BoolVar(&f.metricsExposed, "metrics-exposed", false, "let --metrics be an address that other machines reach")
	s.StringSliceVar(&f.doors, "doors", nil, "the doors on --http and --grpc; all by default")
	s.StringSliceVar(&f.alone, "door", nil, "a door on a port of its own: NAME=http://ADDRESS or NAME=grpc://ADDRESS; may be repeated")
	s.StringVar(&f.auth, "auth", "", "none (loopback only) or preshared; preshared by default where keys are set")
	s.StringVar(&f.keysFile, "auth-keys-file", "", "file of preshared keys, each on a line, with a name before it if you like")
	s.BoolVar(&f.anonymous, "auth-anonymous", false, "let other machines in with --auth none")
	s.StringVar(&f.tlsCert, "tls-cert", "", "certificate with its chain, a PEM file: TLS 1.2 or later on all ports but --metrics")
	s.StringVar(&f.tlsKey, "tls-key", "", "the certificate's key, a PEM file")
	s.StringSliceVar(&f.cors, "cors", nil, "origins of web pages that may ask (https://app.example), or *; none by default")
	s.DurationVar(&f.requestTimeout, "request-timeout", server.RequestTimeoutDefault, "how long a request may take, streams aside; 0 is no bound")
	s.DurationVar(&f.headerTimeout, "header-timeout", server.HeaderTimeoutDefault, "how long a request's headers may take")
	s.DurationVar(&f.transferTime, "transfer-time", server.TransferTimeDefault, "how long a request's body may take, and an answer, and each write of a stream")
	s.DurationVar(&f.idleTimeout, "idle-timeout", server.IdleTimeoutDefault, "how long a connection may be silent between requests")
	s.DurationVar(&f.drainTime, "drain-time", server.DrainTimeDefault, "how long a stopping server asks its clients to go elsewhere; 0 is not at all")
	s.DurationVar(&f.stopTimeout, "stop-timeout", server.StopTimeoutDefault, "how long a stopping server waits for requests under way")
	s.Int64Var(&f.bodyBytes, "body-bytes", 4<<20, "largest request body and gRPC message, where a route has no bound of its own")
	s.IntVar(&f.headerBytes, "header-bytes", server.HeaderBytesDefault, "largest sum of a request's headers")
	s.Int64Var(&f.requests, "requests-max", server.RequestsMaxDefault, "most requests under way, streams aside")
	s.Int64Var(&f.streams, "streams-max", server.StreamsMaxDefault, "most streams under way; with keys, a tenth as many besides for health's public watch")
	s.Int64Var(&f.memory, "memory-bytes", 0, "budget of all loaded stores: a write beyond it is refused; 0 is none")
	s.IntVar(&f.record, "record-decisions", 0, "how many of the newest decisions are remembered, at most an hour and 64 MiB of them, for what-if; 0 is none")
	s.DurationVar(&f.window, "window", ostiary.WindowDefault, "how long the past stays answerable; negative is for ever")
	s.DurationVar(&f.background, "background", time.Minute, "how often expired tuples are removed and idle stores dropped; 0 is never")
	s.StringVar(&f.logFormat, "log-format", "text", "text or json")
	s.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	s.BoolVar(&f.accessLog, "access-log", false, "log each request")
	f.door.add(s)
}

// serve opens the data, then the doors, and serves until ctx ends.
func (a *app) serve(ctx context.Context, f *serveFlags) error {
	log, err := f.logger(a.err)
	if err != nil {
		return err
	}
	f.door.openfga.Report = func(err error) { log.Error("internal error", "door", "openfga", "error", err) }
	options := ostiary.Options{MemoryMax: f.memory, Window: f.window, Background: f.background,
		Record: ostiary.RecordingOptions{Decisions: f.record},
		Bounds: ostiary.Bounds{DepthMax: depthMost}}
	return a.withData(ctx, true, options, func(e *ostiary.Engine, driver *pebble.Driver) error {
		o, reload, err := a.serverOptions(f, e)
		if err != nil {
			return err
		}
		o.Log = log
		if driver != nil {
			o.Probe = driver.Failed
			o.Collectors = append(o.Collectors, newFolderFigures(driver))
		}
		s, err := server.New(o)
		if err != nil {
			return explainExposed(err)
		}
		if err := s.Start(); err != nil {
			return err
		}
		defer onHangup(log, reload)()
		defer a.governHeap()()
		if driver != nil {
			defer removeHolder(a.data)
		}
		if err := a.sayServing(s, driver != nil); err != nil {
			return errors.Join(err, s.Stop())
		}
		// A second interrupt ends the process at once.
		defer context.AfterFunc(ctx, func() {
			log.Info("stopping")
			signal.Reset(os.Interrupt, syscall.SIGTERM)
		})()
		return s.Wait(ctx)
	})
}

// serverOptions turns flags into the server's options. reload reads again what
// SIGHUP is about.
func (a *app) serverOptions(f *serveFlags, e *ostiary.Engine) (o server.Options, reload func() error, err error) {
	all, err := allDoors(e, &f.door)
	if err != nil {
		return o, nil, err
	}
	o = server.Options{HTTP: address(f.http), GRPC: address(f.grpc), Metrics: address(f.metrics), MetricsExposed: f.metricsExposed,
		Anonymous: f.anonymous, CORS: f.cors, RequestTimeout: none(f.requestTimeout), HeaderTimeout: f.headerTimeout,
		TransferTime: f.transferTime, IdleTimeout: f.idleTimeout, DrainTime: none(f.drainTime), StopTimeout: f.stopTimeout,
		BodyBytes: f.bodyBytes, HeaderBytes: f.headerBytes, RequestsMax: f.requests, StreamsMax: f.streams, Engine: e, AccessLog: f.accessLog}
	if o.Doors, err = pickDoors(all, f.doors); err != nil {
		return o, nil, err
	}
	if o.Dedicated, err = dedicatedDoors(all, f.alone); err != nil {
		return o, nil, err
	}
	var certificate, keys func() error
	if o.TLS, certificate, err = f.certificate(); err != nil {
		return o, nil, err
	}
	if o.Keys, keys, err = a.keys(f); err != nil {
		return o, nil, err
	}
	return o, func() error {
		if err := certificate(); err != nil {
			return err
		}
		return keys()
	}, nil
}

func address(s string) string {
	if s == off {
		return ""
	}
	return s
}

// none turns the flags' 0 into the options' "never".
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
		return nil, nil, fmt.Errorf("%w: --tls-cert and --tls-key go together", errUsage)
	}
	c, err := server.NewCertificate(f.tlsCert, f.tlsKey)
	if err != nil {
		return nil, nil, err
	}
	return c, c.Reload, nil
}

// onHangup calls reload at each SIGHUP until the returned function is called.
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
					log.Error("not reloaded; what was there stays", "why", err)
					continue
				}
				log.Info("reloaded keys and certificate")
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(end)
		<-done
	}
}

// sayServing tells where the server listens: people and programs on the
// standard output, and whoever finds the folder locked in the folder.
func (a *app) sayServing(s *server.Server, folder bool) error {
	where := map[string]string{}
	var lines []string
	for _, at := range s.Addresses() {
		where[at.Name] = at.Addr.String()
		lines = append(lines, at.Name+" "+at.Addr.String())
	}
	if folder {
		if err := writeHolder(a.data, where); err != nil {
			return err
		}
	}
	return a.print(where, func(w io.Writer) { fmt.Fprintf(w, "serving %s\n", strings.Join(lines, ", ")) })
}

func (f *serveFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, fmt.Errorf("%w: --log-level: %w", errUsage, err)
	}
	o := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("%w: --log-format %q is neither text nor json", errUsage, f.logFormat)
}
