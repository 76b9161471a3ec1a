package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

// bucketBounds are the upper bounds of the buckets of the duration histogram.
var bucketBounds = [...]time.Duration{
	25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// outcome is how a request ended, independent of its protocol.
type outcome uint8

const (
	outcomeOK outcome = iota
	outcomeClient
	outcomeServer
	outcomeCount
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

// outcomeOfCode returns the outcome of a gRPC call. Besides gRPC's codes it
// handles the codes of protocols with numbers of their own (Permify): 4000 to
// 4999 are errors of the server.
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

// series are the counters of one route. They may be used concurrently.
type series struct {
	door, transport, route string // the labels
	class                  string // of the route, see Options.Class

	buckets  [len(bucketBounds) + 1]atomic.Uint64 // not cumulative; the last is unbounded
	sum      atomic.Int64                         // nanoseconds
	outcomes [outcomeCount]atomic.Uint64
}

// observe counts one request. It takes no lock and allocates no memory.
func (s *series) observe(took time.Duration, o outcome) {
	i := 0
	for i < len(bucketBounds) && took > bucketBounds[i] {
		i++
	}
	s.buckets[i].Add(1)
	s.sum.Add(int64(took))
	s.outcomes[o].Add(1)
}

// metrics are the metrics of a server. All series are created before the server
// starts.
type metrics struct {
	all       []*series
	classOf   func(door, operation string) string // Options.Class
	decisions map[string]*decisionCounts          // by the name of the door
	refusals  [door.Limited + 1]atomic.Uint64     // by door.Reason

	failuresMu sync.Mutex
	failures   map[failedLogin]uint64
	limitedBy  map[limitedBy]uint64

	duration, requests, refusal, requestsInFlight, streamsInFlight *prometheus.Desc
	connectionsOpen, connectionsClosed, bodyBytes, unsentBytes     *prometheus.Desc
	engineBytes, engineStores, serving, failedLogins               *prometheus.Desc
	decided, classDuration, writesWaiting, turnsWaiting            *prometheus.Desc
	certificateExpires, limitedTotal                               *prometheus.Desc
}

func newMetrics() *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ostiary_"+name, help, labels, nil)
	}
	return &metrics{decisions: map[string]*decisionCounts{},
		duration:          desc("request_duration_seconds", "Time from the headers of a request to the end of its response.", "door", "transport", "route"),
		requests:          desc("requests_total", "Requests by outcome.", "door", "transport", "route", "outcome"),
		refusal:           desc("refusals_total", "Requests that the server refused before they reached a door.", "reason"),
		failedLogins:      desc("failed_logins_total", "Callers whose credential was not accepted.", "door", "credential", "reason"),
		limitedTotal:      desc("limited_total", "Requests that were refused because a limit of a key or of a store was used up.", "limit", "kind", "name"),
		requestsInFlight:  desc("requests_in_flight", "Requests in flight, without streams."),
		streamsInFlight:   desc("streams_in_flight", "Streams in flight."),
		connectionsOpen:   desc("connections_open", "Open connections of all ports."),
		connectionsClosed: desc("connections_closed_total", "Connections that a bound closed: new ones (refused), others in favor of new ones (evicted), and those with too many requests or frames of HTTP/2 without a key (unauthenticated).", "why"),
		bodyBytes:         desc("body_bytes_in_flight", "Charged bytes of request bodies in flight."),
		unsentBytes:       desc("unsent_bytes", "Response bytes that wait for slow clients."),
		engineBytes:       desc("engine_bytes", "Estimated memory of the loaded stores."),
		engineStores:      desc("engine_stores_loaded", "Stores in memory."),
		serving:           desc("serving", "1 while health reports SERVING, otherwise 0."),

		decided:            desc("decisions_total", "Decisions by result: allowed, denied, unknown (undecided, and of policies also not applicable), error (the question could not be asked).", "door", "result"),
		classDuration:      desc("class_duration_seconds", "Time from the headers of a request to the end of its response, without streams that last, by class: check, policy, list, write, login, validation, admin.", "class"),
		writesWaiting:      desc("writes_waiting", "Writes that wait for those before them in their store."),
		turnsWaiting:       desc("turns_waiting", "Long requests that wait for a processor."),
		certificateExpires: desc("tls_certificate_expires_seconds", "Time at which the certificate of the ports expires, in seconds since 1970."),
	}
}

// series returns the series with these labels, and creates it if there is none.
func (m *metrics) series(door, transport, route string) *series {
	for _, s := range m.all {
		if s.door == door && s.transport == transport && s.route == route {
			return s // a door on several ports has one series
		}
	}
	s := &series{door: door, transport: transport, route: route}
	if m.classOf != nil {
		s.class = m.classOf(door, route)
	}
	m.all = append(m.all, s)
	return s
}

// failedLogin is what failed logins are counted by. There are few: the doors, and fixed
// kinds and reasons.
type failedLogin struct {
	name string // of the door
	logins.Failure
}

// loginFailed counts a failed login.
func (m *metrics) loginFailed(doorName string, l logins.Failure) {
	m.failuresMu.Lock()
	defer m.failuresMu.Unlock()
	if m.failures == nil {
		m.failures = map[failedLogin]uint64{}
	}
	m.failures[failedLogin{doorName, l}]++
}

// refused counts a refusal.
func (m *metrics) refused(why door.Reason) {
	if int(why) < len(m.refusals) {
		m.refusals[why].Add(1)
	}
}

// counts returns the buckets of the durations by their bounds in seconds, each with those
// before it, and the number of requests.
func (s *series) counts() (buckets map[float64]uint64, total uint64) {
	buckets = map[float64]uint64{}
	for i := range bucketBounds {
		total += s.buckets[i].Load()
		buckets[bucketBounds[i].Seconds()] = total
	}
	return buckets, total + s.buckets[len(bucketBounds)].Load()
}

// addTo adds the durations of a route to those of its class.
func (s *series) addTo(classes map[string]*series) {
	if s.class == "" {
		return
	}
	all := classes[s.class]
	if all == nil {
		all = &series{}
		classes[s.class] = all
	}
	for i := range s.buckets {
		all.buckets[i].Add(s.buckets[i].Load())
	}
	all.sum.Add(s.sum.Load())
}

// collect sends the metrics of one route, unless it had no request.
func (m *metrics) collect(s *series, to chan<- prometheus.Metric) {
	buckets, total := s.counts()
	if total == 0 {
		return
	}
	to <- prometheus.MustNewConstHistogram(m.duration, total, time.Duration(s.sum.Load()).Seconds(), buckets, s.door, s.transport, s.route)
	for o := range s.outcomes {
		if n := s.outcomes[o].Load(); n > 0 {
			to <- prometheus.MustNewConstMetric(m.requests, prometheus.CounterValue, float64(n), s.door, s.transport, s.route, outcome(o).String())
		}
	}
}

// reasonLabel returns the label of a reason in the refusals metric.
func reasonLabel(r door.Reason) string {
	return [...]string{"unknown", "no_credentials", "bad_credentials", "too_large", "too_many", "timed_out", "shutting_down", "failed", "bad_path", "foreign_page", "foreign_name", "bad_reason", "broken_body", "no_holder", "lost", "bad_media", "bad_query", "forbidden", "unsure", "unaudited", "limited"}[r]
}
