package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/traces"
)

// The defaults of [Options].
const (
	// RequestTimeoutDefault is the default of Options.RequestTimeout.
	RequestTimeoutDefault = 3 * time.Second
	// HeaderTimeoutDefault is the default of Options.HeaderTimeout.
	HeaderTimeoutDefault = 10 * time.Second
	// IdleTimeoutDefault is the default of Options.IdleTimeout.
	IdleTimeoutDefault = 2 * time.Minute
	// TransferTimeDefault is the default of Options.TransferTime.
	TransferTimeDefault = 30 * time.Second
	// DrainTimeDefault is the default of Options.DrainTime.
	DrainTimeDefault = time.Second
	// StopTimeoutDefault is the default of Options.StopTimeout.
	StopTimeoutDefault = 10 * time.Second
	// HeaderBytesDefault is the default of Options.HeaderBytes.
	HeaderBytesDefault = 64 << 10
	// RequestsMaxDefault is the default of Options.RequestsMax.
	RequestsMaxDefault = 4096
	// StreamsMaxDefault is the default of Options.StreamsMax.
	StreamsMaxDefault = 20_000
	// StreamsPerConnectionDefault is the default of Options.StreamsPerConnection.
	StreamsPerConnectionDefault = 1000
	// ConnectionsMaxDefault is the default of Options.ConnectionsMax.
	ConnectionsMaxDefault = 16_384
	// BodyBytesTotalDefault is the default of Options.BodyBytesTotal.
	BodyBytesTotalDefault = 64 << 20
	// BodyBytesPerConnectionDefault is the default of
	// Options.BodyBytesPerConnection.
	BodyBytesPerConnectionDefault = 16 << 20
	// UnsentBytesTotalDefault is the default of Options.UnsentBytesTotal.
	UnsentBytesTotalDefault = 64 << 20
	// UnsentBytesPerConnectionDefault is the default of
	// Options.UnsentBytesPerConnection.
	UnsentBytesPerConnectionDefault = 8 << 20
)

// ErrExposed is returned by [New] for an address that other machines can reach
// if there are no keys and Options.Anonymous is false.
var ErrExposed = errors.New("reachable from other machines without authentication")

// ErrMetricsExposed is the [ErrExposed] of an address for metrics, for which keys
// do not count, if Options.MetricsExposed is false.
var ErrMetricsExposed = fmt.Errorf("metrics: %w", ErrExposed)

// Options are the settings of a [Server]. An address has the form "host:port";
// port 0 means any free port, and "" means that there is no such port. Of the
// durations, 0 means the default.
type Options struct {
	// HTTP is the address of the HTTP port that all of Doors share. A path
	// belongs to the door with the longest matching prefix of whole segments.
	HTTP string
	// GRPC is the address of the gRPC port that all of Doors share.
	GRPC string
	// Doors are the doors on HTTP and GRPC.
	Doors []*door.Door
	// Dedicated are doors on ports of their own.
	Dedicated []DedicatedDoor
	// Metrics is the address that serves GET /metrics. It must be a loopback
	// address unless MetricsExposed is set.
	Metrics string
	// MetricsExposed allows other machines to read the metrics.
	MetricsExposed bool
	// MetricsTLS gives the port of metrics the certificate of TLS, and ClientCA. While
	// requests need a caller, those for metrics and for details of the readiness do as well.
	// Other machines may send them if requests need a caller from the start on; otherwise
	// they need MetricsExposed.
	MetricsTLS bool
	// Profiles serves profiles of the process at /debug/pprof/ on Metrics, one at a time: profile,
	// heap, allocs, goroutine. While requests need a caller, it must have a preshared key, or
	// a key that administers all stores and may read metrics. On an address that other
	// machines can reach, it needs MetricsTLS, and keys from the start on.
	Profiles bool

	// Keys authenticate every request except those of public routes and methods.
	// Nil means no authentication; then every address must be a loopback address
	// unless Anonymous is set.
	Keys *Keys
	// Callers are the keys of the system store, which authenticate requests as Keys do.
	// Nil means that there are none. The program runs its Follow while the server runs.
	Callers *callers.Registry
	// CallersOptional makes the server accept requests without a caller as long as Callers
	// has had no key since the start. From the first key on, on whichever node it is made,
	// every request needs a caller. Keys and Tokens must be nil.
	CallersOptional bool
	// Tokens verifies tokens of OpenID Connect providers, which authenticate requests as
	// well. What their callers may do is in those keys of Callers that match the token.
	// It needs Callers. Nil means that no token is accepted.
	Tokens *oidc.Verifier
	// Anonymous allows other machines to call the server without keys.
	Anonymous bool
	// TLS is the certificate of all ports except Metrics. Nil means plain text.
	TLS *Certificate
	// ClientCA has the authorities of client certificates, on all ports with TLS. What a
	// caller with a certificate may do is in those keys of Callers that match it. It needs
	// TLS and Callers. Nil means that no client is asked for a certificate.
	ClientCA *ClientCA
	// CORS lists the origins of web pages that may call the server over HTTP, as
	// browsers send them ("https://app.example"). "*" allows every page. Empty
	// allows none.
	CORS []string

	// RequestTimeout bounds the context of each request that is not a stream. A door
	// can have a longer one, [door.Door].RequestTimeout.
	// Negative means no bound.
	RequestTimeout time.Duration
	// HeaderTimeout bounds the reading of a request's headers.
	HeaderTimeout time.Duration
	// IdleTimeout bounds how long a connection may be idle between requests.
	IdleTimeout time.Duration
	// TransferTime bounds the reading of a body, and the writing of a response
	// after RequestTimeout. In a stream it bounds each read and each write.
	TransferTime time.Duration
	// DrainTime is how long a stopping server still accepts connections while it
	// reports NOT_SERVING and asks clients to close theirs. It ends early when no
	// HTTP connection is open. Negative means none.
	DrainTime time.Duration
	// StopTimeout is how long a stopping server then waits for requests in
	// flight. Streams are ended after half of it.
	StopTimeout time.Duration

	// BodyBytes bounds a request body and a gRPC message, except on routes with
	// their own bound. 0 means door.BodyBytesMax.
	BodyBytes int64
	// HeaderBytes bounds the headers of a request. 0 means HeaderBytesDefault.
	HeaderBytes int
	// RequestsMax bounds the requests in flight on all ports, without streams. 0
	// means RequestsMaxDefault. With Keys, a tenth as many requests without a key are
	// allowed in addition, on public routes and gRPC methods.
	RequestsMax int64
	// StreamsMax bounds the streams in flight on all ports. 0 means
	// StreamsMaxDefault.
	StreamsMax int64
	// StreamsPerConnection bounds the calls and streams in flight on one HTTP/2
	// connection; on HTTP ports they are at most 250. 0 means
	// StreamsPerConnectionDefault.
	StreamsPerConnection int

	// ConnectionsMax bounds the open connections of all ports but that of Metrics,
	// which has its own. An eighth of it, but at most 1,024, stays for untrusted
	// connections, on which no request was accepted yet: a new one always gets a place,
	// for which another untrusted one is closed. The others can take the rest. Only idle
	// ones of them are closed for others; when all are busy, further requests are
	// refused. 0 means ConnectionsMaxDefault. [New] lowers the bound if the process may
	// not open enough files: a quarter of them, and at least 96, stay for storage.
	ConnectionsMax int
	// ConnectionsPerAddress bounds the connections from one remote address, or from
	// one IPv6 network of 64 bits, in the same way. 0, and more than ConnectionsMax, mean three quarters of
	// ConnectionsMax.
	ConnectionsPerAddress int
	// BodyBytesTotal bounds the bytes of request bodies and gRPC messages of more
	// than 16 KiB that are in flight, without those of HTTP streams. A body is
	// counted before it is read, with the length that the client announces. 0
	// means BodyBytesTotalDefault; the bound is at least BodyBytesPerConnection.
	// Doors that authenticate their callers themselves have a budget of their own: a
	// quarter of it in addition, for all their bodies.
	BodyBytesTotal int64
	// BodyBytesPerConnection bounds them on one connection. 0 means
	// BodyBytesPerConnectionDefault; the bound is at least twice BodyBytes.
	BodyBytesPerConnection int64
	// UnsentBytesTotal bounds the bytes of responses that wait because clients do
	// not read them: all gRPC responses, writes of more than 16 KiB over HTTP (4 KiB
	// in streams), and what streams declare with door.Hold. Beyond it, the connection that holds most is closed if it has sent nothing
	// for a second; otherwise the response is refused. 0 means
	// UnsentBytesTotalDefault.
	UnsentBytesTotal int64
	// UnsentBytesPerConnection bounds them on one connection. Further responses wait for TransferTime; then the connection is closed. 0 means
	// UnsentBytesPerConnectionDefault.
	UnsentBytesPerConnection int64

	// Engine adds its figures to the metrics, and long requests take its turns. It
	// may be nil.
	Engine *ostiary.Engine
	// Class returns the class of an operation of a door, for the durations by class in the
	// metrics; "" is none, as of streams that last. Operations have the names of the label
	// route. It returns few values. Nil means that there are no classes.
	Class func(door, operation string) string
	// Collectors are further metrics.
	Collectors []prometheus.Collector
	// Preload loads the stores that requests will need. Health on /readyz and over
	// gRPC reports NOT_SERVING until it returns; requests are accepted meanwhile. Its
	// context ends when the server stops. Nil loads nothing.
	Preload func(context.Context)
	// Probe returns the reason why the process can no longer work (a failed disk,
	// for example), or nil. When it returns an error, health reports NOT_SERVING
	// and [Server.Run] returns that error. It must not block and is called
	// concurrently. It may be nil.
	Probe func() error
	// Forwarder finds the node that writes, to which this server sends the requests that
	// write. Nil on a single node.
	Forwarder forward.Forwarder
	// Readiness reports whether the process can answer requests now, and details for
	// operators, which only the port of Metrics shows, as JSON. While it reports false,
	// GET /readyz reports NOT_SERVING, and requests are accepted nevertheless. It must not
	// block and is called concurrently. It may be nil.
	Readiness func() (ready bool, details any)
	// StaleReads counts the reads that this node of several has answered although it may
	// lack acknowledged writes. A response during which it has changed gets the header
	// Ostiary-Stale: true, over gRPC the trailer ostiary-stale: true. It is called
	// concurrently. Nil means that there are none.
	StaleReads func() uint64
	// Listen opens the port with a name (as in [Address].Name) on an address. A
	// program may return ports that it has opened before. Nil means [Listen].
	Listen func(name, address string) (net.Listener, error)
	// Log receives the server's log; nil means slog.Default().
	Log *slog.Logger
	// AccessLog logs each request at level info.
	AccessLog bool
	// Audit gets a record of each request that writes, of logins and of refusals. The
	// program closes it after the server. Nil keeps no audit log. AuditContent adds the
	// bodies of requests that write to the records, except those to doors that
	// authenticate their callers, which have passwords.
	Audit        *audit.Trail
	AuditContent bool
	// Tracer gets each request to a door. Nil traces none.
	Tracer traces.Tracer

	frameClock func() time.Time // see [conn.Bounds]; for tests
}

// DedicatedDoor is a door on ports of its own. There it serves every path, and
// unknown paths and refusals have the shape of its protocol.
type DedicatedDoor struct {
	// Door is the door to serve.
	Door *door.Door
	// HTTP is the address of its HTTP port, "" for none.
	HTTP string
	// GRPC is the address of its gRPC port, "" for none.
	GRPC string
}

// Address is where a server listens.
type Address struct {
	// Name is "http", "grpc", "metrics", or "permify http" for a dedicated door.
	Name string
	// Addr is the actual address, with the port number that was chosen.
	Addr net.Addr
}

// withDefaults returns o with all zero settings replaced by their defaults.
func withDefaults(o Options) Options {
	durations := []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.RequestTimeout, RequestTimeoutDefault}, {&o.HeaderTimeout, HeaderTimeoutDefault}, {&o.IdleTimeout, IdleTimeoutDefault},
		{&o.TransferTime, TransferTimeDefault}, {&o.DrainTime, DrainTimeDefault}, {&o.StopTimeout, StopTimeoutDefault},
	}
	for _, d := range durations {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if o.Listen == nil {
		o.Listen = func(_, address string) (net.Listener, error) { return Listen(address) }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	orDefault(&o.BodyBytes, door.BodyBytesMax)
	orDefault(&o.HeaderBytes, HeaderBytesDefault)
	orDefault(&o.RequestsMax, RequestsMaxDefault)
	orDefault(&o.StreamsMax, StreamsMaxDefault)
	orDefault(&o.StreamsPerConnection, StreamsPerConnectionDefault)
	o.boundConnections(raiseFiles())
	orDefault(&o.BodyBytesTotal, BodyBytesTotalDefault)
	orDefault(&o.BodyBytesPerConnection, BodyBytesPerConnectionDefault)
	orDefault(&o.UnsentBytesTotal, UnsentBytesTotalDefault)
	orDefault(&o.UnsentBytesPerConnection, UnsentBytesPerConnectionDefault)
	o.BodyBytesPerConnection = max(o.BodyBytesPerConnection, 2*o.BodyBytes)
	o.BodyBytesTotal = max(o.BodyBytesTotal, o.BodyBytesPerConnection)
	return o
}

// boundConnections sets the bounds on connections of a process that may open so many
// files, or 0 if that is not known.
func (o *Options) boundConnections(files int) {
	most := connectionsFor(files)
	if o.ConnectionsMax > most {
		o.Log.Warn("ConnectionsMax is lowered: the process may not open enough files", "files", files, "from", o.ConnectionsMax, "to", most)
	}
	orDefault(&o.ConnectionsMax, ConnectionsMaxDefault)
	o.ConnectionsMax = min(o.ConnectionsMax, most)
	if o.ConnectionsPerAddress <= 0 || o.ConnectionsPerAddress > o.ConnectionsMax {
		o.ConnectionsPerAddress = max(o.ConnectionsMax*3/4, 1)
	}
}

func orDefault[N int | int64](value *N, fallback N) {
	if *value <= 0 {
		*value = fallback
	}
}

// connectionsFor returns how many connections a process may have that may open
// so many files. The others are for storage, logs and the port of metrics. 0 files mean that the
// number is not known.
func connectionsFor(files int) int {
	if files <= 0 {
		return math.MaxInt
	}
	return max(files-filesReserved(files)-metricsConnections, 1)
}

func filesReserved(files int) int { return max(files/filesReservedShare, filesReservedMin) }

// FilesForStorage returns how many files the storage may keep open, so that a
// server with as many connections as it allows does not run out of files. 0
// means that the number is not known. It raises the number of files that the
// process may open to the system's bound.
func FilesForStorage() int { return filesForStorage(raiseFiles()) }

// filesForStorage is [FilesForStorage] for a process that may open so many files.
func filesForStorage(files int) int {
	if files <= 0 {
		return 0
	}
	return min(filesReserved(files)-filesOther, filesStorageMax)
}

const (
	// filesReservedShare: the number of files that the process may open, divided
	// by it, is kept for storage and logs.
	filesReservedShare = 4
	filesReservedMin   = 96
	// filesOther are for logs, listeners, write-ahead logs and compactions.
	filesOther      = 40
	filesStorageMax = 1000
)

// CheckExposure returns an error if a port would be open to other machines by
// omission: [ErrNoKeys] for an empty key list, otherwise [ErrExposed] or
// [ErrMetricsExposed]. [New] calls it; a program may call it earlier, before it opens
// anything.
func (o *Options) CheckExposure() error {
	if o.Keys != nil && o.Keys.Len() == 0 && o.Callers == nil {
		return ErrNoKeys
	}
	if o.Metrics != "" && !o.MetricsExposed && !o.metricsForCallers() && !loopbackAddress(o.Metrics) {
		return fmt.Errorf("%w: address %s", ErrMetricsExposed, o.Metrics)
	}
	if o.Profiles && o.Metrics != "" && !o.metricsForCallers() && !loopbackAddress(o.Metrics) {
		return fmt.Errorf("%w: address %s", errProfilesExposed, o.Metrics)
	}
	if o.authenticated() || o.Anonymous {
		return nil
	}
	for _, p := range o.ports() {
		if !loopbackAddress(p.address) && !p.authenticated() {
			return fmt.Errorf("%s on %s: %w", p.name, p.address, ErrExposed)
		}
	}
	return nil
}

// metricsForCallers reports whether the metrics are for authenticated callers only, from the
// start on.
func (o *Options) metricsForCallers() bool { return o.MetricsTLS && o.authenticated() }

// authenticated reports whether requests need a caller from the start on.
func (o *Options) authenticated() bool {
	return (o.Keys != nil || o.Callers != nil) && !o.CallersOptional
}

// port is one address to listen on, with the doors that it serves.
type port struct {
	name    string // as in Address.Name
	address string
	grpc    bool // gRPC, not HTTP
	doors   []*door.Door
	// dedicated is true for the HTTP port of a single door: it serves every path.
	dedicated bool
}

// authenticated reports whether every door of the port authenticates its callers
// itself.
func (p *port) authenticated() bool {
	return len(p.doors) > 0 && !slices.ContainsFunc(p.doors, func(d *door.Door) bool { return !d.OwnAuthentication })
}

// PlainAddresses returns the addresses of HTTP without TLS at which doors that
// authenticate their callers, with passwords for example, can be reached from other
// machines.
func (o *Options) PlainAddresses() (out []string) {
	for _, p := range o.ports() {
		own := slices.ContainsFunc(p.doors, func(d *door.Door) bool { return d.OwnAuthentication })
		if own && o.TLS == nil && !p.grpc && !loopbackAddress(p.address) {
			out = append(out, p.address)
		}
	}
	return out
}

// ports returns the ports that the options ask for, except the metrics port.
func (o *Options) ports() (out []port) {
	add := func(p port) {
		if p.address != "" {
			out = append(out, p)
		}
	}
	add(port{name: "http", address: o.HTTP, doors: o.Doors})
	add(port{name: "grpc", address: o.GRPC, doors: o.Doors, grpc: true})
	for _, d := range o.Dedicated {
		doors := []*door.Door{d.Door}
		add(port{name: d.Door.Name + " http", address: d.HTTP, doors: doors, dedicated: true})
		add(port{name: d.Door.Name + " grpc", address: d.GRPC, doors: doors, grpc: true})
	}
	return out
}

// metricsConnections bounds the connections of the port of metrics.
const metricsConnections = 16
