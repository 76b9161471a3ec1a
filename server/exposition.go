package server

import (
	"maps"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/server/internal/conn"
)

// exposition returns a handler for GET /metrics. It returns an error if one of
// Options.Collectors conflicts with another metric.
func (s *Server) exposition() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ostiary_build_info", Help: "1, labeled with the version.",
		ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	for _, c := range append([]prometheus.Collector{collector{s.metrics, s}, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}, s.opts.Collectors...) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux, nil
}

// collector collects the metrics of a server.
type collector struct {
	*metrics
	server *Server
}

// Describe sends the descriptions of all metrics.
func (m collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.duration, m.requests, m.refusal, m.requestsInFlight, m.streamsInFlight,
		m.connectionsOpen, m.connectionsClosed, m.bodyBytes, m.unsentBytes, m.engineBytes, m.engineStores, m.serving, m.failedLogins, m.limitedTotal,
		m.decided, m.classDuration, m.writesWaiting, m.turnsWaiting, m.certificateExpires} {
		to <- d
	}
}

// Collect sends all metrics, except those of routes without a request.
func (m collector) Collect(to chan<- prometheus.Metric) {
	classes := map[string]*series{}
	for _, s := range m.all {
		m.collect(s, to)
		s.addTo(classes)
	}
	for class, s := range classes {
		buckets, total := s.counts()
		to <- prometheus.MustNewConstHistogram(m.classDuration, total, time.Duration(s.sum.Load()).Seconds(), buckets, class)
	}
	for name, counts := range m.decisions {
		for result := range counts {
			if n := counts[result].Load(); n > 0 {
				to <- prometheus.MustNewConstMetric(m.decided, prometheus.CounterValue, float64(n), name, decisionResults[result])
			}
		}
	}
	for reason := range m.refusals {
		if n := m.refusals[reason].Load(); n > 0 {
			to <- prometheus.MustNewConstMetric(m.refusal, prometheus.CounterValue, float64(n), reasonLabel(door.Reason(reason)))
		}
	}
	m.failuresMu.Lock()
	failures := maps.Clone(m.failures)
	m.failuresMu.Unlock()
	for f, n := range failures {
		to <- prometheus.MustNewConstMetric(m.failedLogins, prometheus.CounterValue, float64(n), f.name, f.Credential, f.Reason)
	}
	m.collectLimited(to)
	gauge := func(d *prometheus.Desc, v float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	s := m.server.shared
	gauge(m.requestsInFlight, float64(s.requests.InFlight.Load()+s.publicPlaces.Requests.InFlight.Load()))
	gauge(m.streamsInFlight, float64(s.streams.InFlight.Load()+s.publicPlaces.Streams.InFlight.Load()))
	m.collectConnections(to, gauge)
	serving := 1.0
	if !s.healthy() {
		serving = 0
	}
	gauge(m.serving, serving)
	if engine := m.server.opts.Engine; engine != nil {
		gauge(m.engineBytes, float64(engine.Bytes()))
		gauge(m.engineStores, float64(engine.Loaded()))
		gauge(m.writesWaiting, float64(engine.WritesWaiting()))
	}
	if s.turns != nil {
		gauge(m.turnsWaiting, float64(s.turns.Waiting()))
	}
	if c := m.server.opts.TLS; c != nil {
		gauge(m.certificateExpires, float64(c.current.Load().Leaf.NotAfter.Unix()))
	}
}

// collectConnections sends the metrics of connections.
func (m collector) collectConnections(to chan<- prometheus.Metric, gauge func(*prometheus.Desc, float64)) {
	c := m.server.connections
	own := m.server.metricsConnections
	gauge(m.connectionsOpen, float64(c.Open()+own.Open()))
	gauge(m.bodyBytes, float64(m.server.shared.bodies.Held()+m.server.shared.ownBodies.Held()))
	gauge(m.unsentBytes, float64(c.Unsent.Total.Load()))
	for why, n := range map[string]int64{"refused": c.Refused.Load(), "evicted": c.Evicted.Load() + own.Evicted.Load(), "unauthenticated": c.Unauthenticated.Load()} {
		to <- prometheus.MustNewConstMetric(m.connectionsClosed, prometheus.CounterValue, float64(n), why)
	}
}

// localPages returns next without the requests that a web page of another
// machine could send through a browser on this machine.
func (s *Server) localPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var reason door.Reason
		switch {
		case !localHost(r.Host):
			reason = door.ForeignName
		case s.shared.cors.foreignOrigin(r):
			reason = door.ForeignPage
		default:
			next.ServeHTTP(w, r)
			return
		}
		why := &door.Refusal{Reason: reason}
		s.metrics.refused(reason)
		http.Error(w, "metrics without --metrics-exposed are for this machine: "+why.Error(), why.Status())
	})
}

// forCallers returns next without the requests of callers that refuse refuses.
func (s *Server) forCallers(next http.Handler, refuse func(*http.Request) *door.Refusal) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := refuse(r); why != nil {
			s.refuseMetric(w, r, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseMetric answers a request to the port of metrics with a refusal, which it counts and
// records.
func (s *Server) refuseMetric(w http.ResponseWriter, r *http.Request, why *door.Refusal) {
	s.metrics.refused(why.Reason)
	if why.Reason == door.BadCredentials {
		s.shared.loginFailed(nameMetrics, s.shared.keys.refusedBy(r.Header["Authorization"]), r.RemoteAddr, "", why.Error())
	}
	_ = s.shared.trail.Refused(&audit.Record{Time: time.Now(), Kind: audit.KindRefusal, Door: nameMetrics, Method: r.Method, From: r.RemoteAddr,
		Outcome: audit.Refused, Status: strconv.Itoa(why.Status()), Why: why.Error()}) // the request has no effect
	if why.Status() == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
		conn.Of(r, s.shared.detached).DelayRefusal(r.Context(), s.shared.stopping)
	}
	http.Error(w, why.Error(), why.Status())
}

// refuseMetrics returns why a caller may not read metrics, or nil. While no request needs a
// caller, it refuses none; a key of the system store needs the scope of all doors, or [callers.MetricsDoor].
func (s *Server) refuseMetrics(r *http.Request) *door.Refusal {
	if !s.shared.keys.required() {
		return nil
	}
	key, why := s.shared.keys.identify(r.Context(), r.Header["Authorization"], false, conn.Of(r, nil))
	if why != 0 {
		return &door.Refusal{Reason: why}
	}
	return key.opens(r.Context(), callers.MetricsDoor)
}

// withHealth returns the handler of the port of metrics, which also serves health: it
// has connections of its own, so clients of the other ports cannot keep out a probe. It serves
// profiles if the options ask for them.
func (s *Server) withHealth(exposition http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", exposition)
	if s.opts.Profiles {
		made := s.forCallers(&profiles{server: s}, s.refuseProfiles)
		if !s.opts.metricsForCallers() {
			made = s.localPages(made)
		}
		mux.Handle("GET "+pathProfiles, made)
	}
	mux.HandleFunc("GET "+pathHealth, func(w http.ResponseWriter, _ *http.Request) { serveHealth(w, s.shared.healthy(), nil) })
	mux.HandleFunc("GET "+pathReady, func(w http.ResponseWriter, r *http.Request) {
		var details any
		if readiness := s.shared.readiness; readiness != nil && (!s.opts.MetricsTLS || s.refuseMetrics(r) == nil) {
			_, details = readiness()
		}
		serveHealth(w, s.shared.ready(), details)
	})
	return mux
}
