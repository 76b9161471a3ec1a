package serve

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"
)

// traceSettings are the settings of traces, as the variables of OpenTelemetry have them. The
// libraries of OpenTelemetry read most of them again; what is here has been checked, because
// the libraries go on with a default where a value is wrong.
type traceSettings struct {
	endpoint   string // for the log
	grpc       bool   // OTLP over gRPC, otherwise over HTTP
	sampler    trace.Sampler
	propagates bool // headers of traces are read, and sent to other programs
	queue      int  // spans that wait for the exporter
}

// The protocols of OTLP, and their defaults.
const (
	otlpGRPC        = "grpc"
	otlpHTTP        = "http/protobuf"
	queueDefault    = trace.DefaultMaxQueueSize
	queueMax        = 1 << 20
	millisecondsMax = 1 << 30
)

// environment reads variables. An empty one counts as not set. It collects errors.
type environment struct {
	lookup func(string) (string, bool)
	errs   []error
}

// value returns the value of the first variable that is set, and its name.
func (e *environment) value(names ...string) (name, value string) {
	for _, name = range names {
		if value, _ = e.lookup(name); value != "" {
			return name, value
		}
	}
	return name, ""
}

// invalid adds the error of a variable. It shows the value.
func (e *environment) invalid(name, value, expected string) {
	e.errs = append(e.errs, fmt.Errorf("invalid %s %q: expected %s", name, value, expected))
}

// one checks that a variable has one of the values, and returns it, or the first one if it is
// not set.
func (e *environment) one(values []string, names ...string) string {
	name, value := e.value(names...)
	if value != "" && !slices.Contains(values, value) {
		e.invalid(name, value, strings.Join(values[:len(values)-1], ", ")+" or "+values[len(values)-1])
	}
	return cmp.Or(value, values[0])
}

// whole checks that a variable has a number from least to most, and returns it, or fallback if
// it is not set.
func (e *environment) whole(least, most, fallback int, names ...string) int {
	name, value := e.value(names...)
	if value == "" {
		return fallback
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		e.invalid(name, value, fmt.Sprintf("a whole number from %d to %d", least, most))
		return fallback
	}
	return n
}

// The names of the variables that more than one check needs.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envSampler        = "OTEL_TRACES_SAMPLER"
	envSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
	envQueue          = "OTEL_BSP_MAX_QUEUE_SIZE"
	envBatch          = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
)

// ofTraces returns the two variables of the exporter that set one thing: that of traces wins.
func ofTraces(what string) []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_" + what, "OTEL_EXPORTER_OTLP_" + what}
}

// readTraceSettings returns nil if nothing asks for traces: no exporter is named, and no
// endpoint.
func readTraceSettings(lookup func(string) (string, bool)) (*traceSettings, error) {
	e := &environment{lookup: lookup}
	off := e.one([]string{"false", "true"}, envDisabled) == "true"
	exporter := e.one([]string{"otlp", "none"}, envExporter)
	_, named := e.value(envExporter, envTracesEndpoint, envEndpoint)
	if off || exporter == "none" || named == "" || e.errs != nil {
		return nil, errors.Join(e.errs...)
	}
	s := &traceSettings{}
	s.grpc = e.one([]string{otlpHTTP, otlpGRPC}, ofTraces("PROTOCOL")...) == otlpGRPC
	s.endpoint = e.endpoint(s.grpc)
	e.headers()
	e.files()
	e.one([]string{"none", "gzip"}, ofTraces("COMPRESSION")...)
	e.one([]string{"false", "true"}, ofTraces("INSECURE")...)
	e.whole(1, millisecondsMax, 0, ofTraces("TIMEOUT")...)
	s.sampler = e.sampler()
	s.propagates = e.propagators()
	s.queue = e.whole(1, queueMax, queueDefault, envQueue)
	if batch := e.whole(1, queueMax, 0, envBatch); batch > s.queue {
		e.invalid(envBatch, strconv.Itoa(batch), fmt.Sprintf("at most %d, the value of %s", s.queue, envQueue))
	}
	e.whole(1, millisecondsMax, 0, "OTEL_BSP_SCHEDULE_DELAY")
	e.whole(1, millisecondsMax, 0, "OTEL_BSP_EXPORT_TIMEOUT")
	e.resource()
	return s, errors.Join(e.errs...)
}

// endpoint checks the endpoint, and returns it without a password.
func (e *environment) endpoint(grpc bool) string {
	name, value := e.value(envTracesEndpoint, envEndpoint)
	if value == "" {
		if grpc {
			return "http://localhost:4317"
		}
		return "http://localhost:4318"
	}
	at, err := url.Parse(value)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil {
		shown := strconv.Quote(value)
		if strings.Contains(value, "@") {
			shown = "(not shown: it may have a password)"
		}
		e.errs = append(e.errs, fmt.Errorf("invalid %s %s: expected a URL without a user, for example http://127.0.0.1:4318", name, shown))
		return ""
	}
	return at.Redacted()
}

// headers checks the headers of the exporter. Their values are secrets, which no error shows.
func (e *environment) headers() {
	name, value := e.value(ofTraces("HEADERS")...)
	if value == "" {
		return
	}
	for i, entry := range strings.Split(value, ",") {
		header, text, found := strings.Cut(entry, "=")
		header, err := url.PathUnescape(strings.TrimSpace(header))
		if err == nil {
			text, err = url.PathUnescape(strings.TrimSpace(text))
		}
		if err != nil || !found || !httpguts.ValidHeaderFieldName(header) || !httpguts.ValidHeaderFieldValue(text) {
			e.errs = append(e.errs, fmt.Errorf("invalid %s: entry %d (not shown: it may be a secret): expected NAME=VALUE, with a comma between two entries and %%XX for other characters", name, i+1))
		}
	}
}

// files checks that the files of certificates can be read.
func (e *environment) files() {
	name, file := e.value(ofTraces("CERTIFICATE")...)
	if file != "" {
		text, err := os.ReadFile(file)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(text) {
			err = errors.New("it has no certificate")
		}
		if err != nil {
			e.invalid(name, file, fmt.Sprintf("a PEM file with certificates of authorities: %v", err))
		}
	}
	name, file = e.value(ofTraces("CLIENT_CERTIFICATE")...)
	keyName, key := e.value(ofTraces("CLIENT_KEY")...)
	if file == "" && key == "" {
		return
	}
	if _, err := tls.LoadX509KeyPair(file, key); err != nil {
		e.errs = append(e.errs, fmt.Errorf("invalid %s %q with %s %q: expected PEM files of a certificate and its key: %w", name, file, keyName, key, err))
	}
}

// sampler returns the sampler of requests.
func (e *environment) sampler() trace.Sampler {
	kinds := []string{"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio", "always_on", "always_off", "traceidratio"}
	kind := e.one(kinds, envSampler)
	own, byParent := strings.CutPrefix(kind, "parentbased_")
	root := trace.AlwaysSample()
	switch own {
	case "always_off":
		root = trace.NeverSample()
	case "traceidratio":
		root = trace.TraceIDRatioBased(e.ratio())
	}
	if byParent {
		return trace.ParentBased(root)
	}
	return root
}

// ratio returns the part of the requests that is sampled.
func (e *environment) ratio() float64 {
	name, value := e.value(envSamplerArg)
	if value == "" {
		return 1
	}
	ratio, err := strconv.ParseFloat(value, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		e.invalid(name, value, "a number from 0 to 1")
	}
	return ratio
}

// propagators reports whether the headers of W3C are read and sent. Baggage is never passed on.
func (e *environment) propagators() (traceContext bool) {
	name, value := e.value("OTEL_PROPAGATORS")
	if value == "" {
		return true
	}
	for one := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(one) {
		case "tracecontext":
			traceContext = true
		case "baggage", "none":
		default:
			e.invalid(name, value, "tracecontext, baggage or none, with commas between them")
			return false
		}
	}
	return traceContext
}

// resource checks the attributes of the server.
func (e *environment) resource() {
	name, value := e.value("OTEL_RESOURCE_ATTRIBUTES")
	if value == "" {
		return
	}
	for entry := range strings.SplitSeq(value, ",") {
		key, text, found := strings.Cut(entry, "=")
		_, err := url.PathUnescape(text)
		if !found || strings.TrimSpace(key) == "" || err != nil {
			e.invalid(name, value, "NAME=VALUE, with a comma between two entries and %XX for other characters")
			return
		}
	}
}
