package server

import (
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
)

// bounds are the upper bounds of the histogram's buckets.
var bounds = [...]time.Duration{
	25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// outcome is how a request ended, whatever its protocol calls it.
type outcome uint8

const (
	outcomeOK outcome = iota
	outcomeClient
	outcomeServer
	outcomes
)

func (o outcome) String() string {
	return [...]string{"ok", "client_error", "server_error"}[o]
}

func outcomeOfStatus(status int) outcome {
	switch {
	case status < 400:
		return outcomeOK
	case status < 500:
		return outcomeClient
	}
	return outcomeServer
}

// outcomeOfCode knows gRPC's own codes, and the numbers of protocols that send
// theirs: of those, the thousands from 4000 on are the server's fault.
func outcomeOfCode(c codes.Code) outcome {
	switch c {
	case codes.OK:
		return outcomeOK
	case codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.DataLoss, codes.Unimplemented:
		return outcomeServer
	}
	if c >= 4000 && c < 5000 {
		return outcomeServer
	}
	return outcomeClient
}

// series are the counts of one route. Adding to it takes no lock and no memory.
type series struct {
	door, transport, route string
	buckets                [len(bounds) + 1]atomic.Uint64
	sum                    atomic.Int64 // nanoseconds
	outcomes               [outcomes]atomic.Uint64
}

func (s *series) add(took time.Duration, o outcome) {
	i := 0
	for i < len(bounds) && took > bounds[i] {
		i++
	}
	s.buckets[i].Add(1)
	s.sum.Add(int64(took))
	s.outcomes[o].Add(1)
}

// metrics are all series of a server. They are made before it starts.
type metrics struct {
	all      []*series
	refusals [door.ForeignName + 1]atomic.Uint64

	duration, requests, refusal, underWay, streams *prometheus.Desc
	engineBytes, engineStores, serving             *prometheus.Desc
	gate                                           *gate
	engine                                         *ostiary.Engine
}

func newMetrics() *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ostiary_"+name, help, labels, nil)
	}
	return &metrics{
		duration:     desc("request_duration_seconds", "How long requests took, from their headers to the end of the answer.", "door", "transport", "route"),
		requests:     desc("requests_total", "Requests by how they ended.", "door", "transport", "route", "outcome"),
		refusal:      desc("refusals_total", "Requests that the server refused before a door saw them.", "reason"),
		underWay:     desc("requests_in_flight", "Requests under way, streams aside."),
		streams:      desc("streams_in_flight", "Streams under way."),
		engineBytes:  desc("engine_bytes", "Estimate of the memory that loaded stores hold."),
		engineStores: desc("engine_stores_loaded", "Stores in memory."),
		serving:      desc("serving", "1 while health says SERVING."),
	}
}

func (m *metrics) series(door, transport, route string) *series {
	for _, s := range m.all {
		if s.door == door && s.transport == transport && s.route == route {
			return s // the same door on another port
		}
	}
	s := &series{door: door, transport: transport, route: route}
	m.all = append(m.all, s)
	return s
}

func (m *metrics) refused(why door.Reason) {
	if int(why) < len(m.refusals) {
		m.refusals[why].Add(1)
	}
}

// handler serves GET /metrics.
func (m *metrics) handler(g *gate, engine *ostiary.Engine, more []prometheus.Collector) (http.Handler, error) {
	m.gate, m.engine = g, engine
	registry := prometheus.NewRegistry()
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ostiary_build_info", Help: "1, with the version.",
		ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	for _, c := range append([]prometheus.Collector{m, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}, more...) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux, nil
}

// Describe names what Collect sends.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.duration, m.requests, m.refusal, m.underWay, m.streams, m.engineBytes, m.engineStores, m.serving} {
		to <- d
	}
}

// Collect reads the counts. Routes that nobody asked are left out.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, s := range m.all {
		m.collect(s, to)
	}
	for reason := range m.refusals {
		if n := m.refusals[reason].Load(); n > 0 {
			to <- prometheus.MustNewConstMetric(m.refusal, prometheus.CounterValue, float64(n), reasonLabel(door.Reason(reason)))
		}
	}
	gauge := func(d *prometheus.Desc, v float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	gauge(m.underWay, float64(m.gate.requests.Load()))
	gauge(m.streams, float64(m.gate.streams.Load()+m.gate.publicStreams.Load()))
	serving := 1.0
	if !m.gate.healthy() {
		serving = 0
	}
	gauge(m.serving, serving)
	if m.engine != nil {
		gauge(m.engineBytes, float64(m.engine.Bytes()))
		gauge(m.engineStores, float64(m.engine.Loaded()))
	}
}

func (m *metrics) collect(s *series, to chan<- prometheus.Metric) {
	buckets, total := map[float64]uint64{}, uint64(0)
	for i := range bounds {
		total += s.buckets[i].Load()
		buckets[bounds[i].Seconds()] = total
	}
	if total += s.buckets[len(bounds)].Load(); total == 0 {
		return
	}
	to <- prometheus.MustNewConstHistogram(m.duration, total, time.Duration(s.sum.Load()).Seconds(), buckets, s.door, s.transport, s.route)
	for o := range s.outcomes {
		if n := s.outcomes[o].Load(); n > 0 {
			to <- prometheus.MustNewConstMetric(m.requests, prometheus.CounterValue, float64(n), s.door, s.transport, s.route, outcome(o).String())
		}
	}
}

func reasonLabel(r door.Reason) string {
	return [...]string{"unknown", "no_credentials", "bad_credentials", "too_large", "too_many", "timed_out", "shutting_down", "failed", "bad_path", "foreign_page", "foreign_name"}[r]
}
