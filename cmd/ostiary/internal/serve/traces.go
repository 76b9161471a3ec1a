package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/internal/trail/traces"
)

const (
	// tracesStopTime bounds how long a stopping server waits for the collector.
	tracesStopTime = 5 * time.Second
	// partsMax bounds the parts of one request: an import may make a million of them.
	partsMax = 256
	// strangersMax bounds the traced requests of unknown callers in one second.
	strangersMax = 10
	// traceStateMax bounds the header tracestate of a caller, in bytes. A longer one is left
	// out: each span would keep it.
	traceStateMax = 512
	// attributeMax bounds the value of an attribute, in bytes.
	attributeMax = 1024
	// failuresEvery bounds how often the log has a line about the collector.
	failuresEvery = time.Minute
)

// traceFlags are the settings of traces that are no variables of OpenTelemetry.
type traceFlags struct {
	content  bool
	settings *traceSettings // those of the variables; nil without traces
}

func (f *traceFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&f.content, "traces-content", false, "add content to traces (OTEL_TRACES_EXPORTER): callers, their addresses, paths, questions and messages of errors")
	cli.Rare(s, "Traces")
}

// read reads the variables, and makes the engine report its steps if one asks for traces.
func (f *traceFlags) read(lookup func(string) (string, bool), o *authz.RecordingOptions) (err error) {
	f.settings, err = readTraceSettings(lookup)
	switch {
	case err != nil:
		return fmt.Errorf("%w: traces: %w", cli.ErrUsage, err)
	case f.settings != nil:
		o.Step, o.Decided = traceStep, decidedIn(o.Decided, f.content)
	case f.content:
		return fmt.Errorf("%w: --traces-content needs traces: expected the variable %s, or %s", cli.ErrUsage, envEndpoint, envExporter)
	}
	return nil
}

// openTraces opens the exporter of traces and adds its tracer to the options of the server, if
// there are traces. The caller calls end after the server.
func (s *prepared) openTraces() (end func(), err error) {
	settings, content := s.flags.traces.settings, s.flags.traces.content
	if settings == nil {
		return func() {}, nil
	}
	node, _ := os.Hostname() // a span without a name of the node is valid
	if s.member != nil {
		node = s.member.Self.ID.String()
	}
	t, err := newTracer(settings, node, content, s.log)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	s.options.Tracer = t
	s.options.Collectors = append(s.options.Collectors, t.figures()...)
	s.log.Info("traces", "endpoint", settings.endpoint, "grpc", settings.grpc, "sampler", settings.sampler.Description(), "content", content)
	return t.Close, nil
}

// tracer implements [traces.Tracer] with the libraries of OpenTelemetry.
type tracer struct {
	*traceSettings
	content   bool
	provider  *sdktrace.TracerProvider
	exporter  *countingExporter
	tracer    trace.Tracer // it samples each span: Begin decides
	strangers limiter
}

func newTracer(settings *traceSettings, node string, content bool, log *slog.Logger) (*tracer, error) {
	ctx := context.Background()
	var exporter sdktrace.SpanExporter
	var err error
	if settings.grpc {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	own, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "ostiary"), attribute.String("service.version", cli.Version()["version"]),
		attribute.String("service.instance.id", node)), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	t := &tracer{traceSettings: settings, content: content, exporter: &countingExporter{SpanExporter: exporter, log: log, room: int64(settings.queue)}}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = attributeMax
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(own), sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(idsOf{}),
		sdktrace.WithRawSpanLimits(limits), sdktrace.WithSpanProcessor(&boundedProcessor{sdktrace.NewBatchSpanProcessor(t.exporter), t.exporter}))
	t.tracer = t.provider.Tracer("github.com/ostiary/ostiary")
	return t, nil
}

// Close sends what waits, within tracesStopTime.
func (t *tracer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), tracesStopTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		_ = t.exporter.SpanExporter.Shutdown(ctx) // it ends the request that waits
		t.exporter.log.Warn("traces: not all spans were sent before the end", "error", err)
	}
}

// Content implements [traces.Tracer].
func (t *tracer) Content() bool { return t.content }

// Begin implements [traces.Tracer]. A request that is not sampled costs a random number,
// unless its caller sends a traceparent.
func (t *tracer) Begin(r *traces.Request) traces.Span {
	ctx := context.Background()
	if r.Forwarded || r.Known && t.propagates {
		if r.Header.Get("traceparent") != "" {
			ctx = propagation.TraceContext{}.Extract(ctx, received{r.Header})
		}
	}
	parent := trace.SpanContextFromContext(ctx)
	id := parent.TraceID()
	if !id.IsValid() {
		id = newTraceID()
	}
	if r.Forwarded {
		if !parent.IsSampled() {
			return nil
		}
	} else if t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: id, Kind: trace.SpanKindServer}).Decision != sdktrace.RecordAndSample {
		return nil
	} else if !r.Known && !t.strangers.take() {
		return nil
	}
	return t.begin(context.WithValue(ctx, traceIDKey{}, id), r)
}

// begin begins the span of a request.
func (t *tracer) begin(ctx context.Context, r *traces.Request) traces.Span {
	name := r.Route
	attributes := []attribute.KeyValue{attribute.String("ostiary.door", r.Door)}
	if r.Operation != "" {
		attributes = append(attributes, attribute.String("ostiary.operation", r.Operation))
	}
	if r.Method == "" {
		attributes = append(attributes, attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", r.Route))
	} else {
		method := methodOf(r.Method)
		attributes = append(attributes, attribute.String("http.request.method", method))
		if r.Route != "" {
			attributes = append(attributes, attribute.String("http.route", r.Route))
		}
		name = strings.TrimSpace(method + " " + r.Route)
	}
	if r.Forwarded {
		attributes = append(attributes, attribute.Bool("ostiary.forwarded", true))
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithTimestamp(r.Start), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	return &span{tracer: t, ctx: ctx, span: s, parts: new(atomic.Int32)}
}

// methodOf returns a method of HTTP as spans name it.
func methodOf(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "QUERY":
		return method
	}
	return "_OTHER"
}

// traceStep is authz.RecordingOptions.Step: it makes a part of the span of ctx, if there is one.
func traceStep(ctx context.Context, name string) (context.Context, func(error, ...any)) {
	ctx, part := traces.Start(ctx, name, traces.Internal)
	if part == nil {
		return ctx, nil
	}
	return ctx, func(err error, figures ...any) {
		for i := 0; i+1 < len(figures); i += 2 {
			part.Set("ostiary."+figures[i].(string), figures[i+1])
		}
		if err != nil {
			part.Fail(kindOf(err), err)
		}
		part.End()
	}
}

// decidedIn returns next, or with content a function that also adds a decision to the span of its
// question.
func decidedIn(next func(context.Context, *authz.Decided), content bool) func(context.Context, *authz.Decided) {
	if !content {
		return next
	}
	return func(ctx context.Context, d *authz.Decided) {
		if s := traces.Of(ctx); s != nil {
			q := d.Question
			s.Set("ostiary.store", d.Store.String())
			s.Set("ostiary.question", q.Object.String()+"#"+q.Relation+"@"+q.Subject.String())
		}
		if next != nil {
			next(ctx, d)
		}
	}
}

// kindOf returns the kind of an error of the engine, which has no content.
func kindOf(err error) string {
	if bound, ok := errors.AsType[*authz.BoundError](err); ok {
		return bound.Name
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "_OTHER"
}

// span implements [traces.Span].
type span struct {
	tracer *tracer
	ctx    context.Context // with the span of OpenTelemetry
	span   trace.Span
	kind   traces.Kind
	parts  *atomic.Int32 // of the request
}

// Start implements [traces.Span].
func (s *span) Start(name string, kind traces.Kind) traces.Span {
	if s.parts.Add(1) > partsMax {
		return nil
	}
	of := trace.SpanKindInternal
	if kind != traces.Internal {
		of = trace.SpanKindClient
	}
	ctx, part := s.tracer.tracer.Start(s.ctx, name, trace.WithSpanKind(of))
	return &span{tracer: s.tracer, ctx: ctx, span: part, kind: kind, parts: s.parts}
}

// Set implements [traces.Span].
func (s *span) Set(name string, value any) {
	switch v := value.(type) {
	case string:
		s.span.SetAttributes(attribute.String(name, v))
	case int:
		s.span.SetAttributes(attribute.Int(name, v))
	case bool:
		s.span.SetAttributes(attribute.Bool(name, v))
	}
}

// Fail implements [traces.Span].
func (s *span) Fail(kind string, err error) {
	message := ""
	if err != nil && s.tracer.content {
		message = strings.ToValidUTF8(err.Error(), "�")
		message = message[:min(len(message), attributeMax)]
	}
	s.span.SetAttributes(attribute.String("error.type", kind))
	s.span.SetStatus(codes.Error, message)
}

// Inject implements [traces.Span].
func (s *span) Inject(set func(name, value string)) {
	if s.kind == traces.Hop || s.tracer.propagates {
		propagation.TraceContext{}.Inject(s.ctx, sent(set))
	}
}

// IDs implements [traces.Span].
func (s *span) IDs() (trace, id string) {
	c := s.span.SpanContext()
	return c.TraceID().String(), c.SpanID().String()
}

// End implements [traces.Span].
func (s *span) End() {
	if left := s.parts.Load() - partsMax; left > 0 {
		s.span.SetAttributes(attribute.Int("ostiary.parts_left_out", int(left)))
	}
	s.span.End()
}

// received are the headers of a request, for the propagator.
type received struct {
	header interface{ Get(name string) string }
}

// Get implements [propagation.TextMapCarrier].
func (r received) Get(name string) string {
	value := r.header.Get(name)
	if name == "tracestate" && len(value) > traceStateMax {
		return ""
	}
	return value
}

// Set implements [propagation.TextMapCarrier].
func (received) Set(string, string) {}

// Keys implements [propagation.TextMapCarrier].
func (received) Keys() []string { return nil }

// sent are the headers of a request that is sent.
type sent func(name, value string)

// Get implements [propagation.TextMapCarrier].
func (sent) Get(string) string { return "" }

// Set implements [propagation.TextMapCarrier].
func (s sent) Set(name, value string) { s(name, value) }

// Keys implements [propagation.TextMapCarrier].
func (sent) Keys() []string { return nil }

// traceIDKey is the key of the id of a new trace in a context: the sampler has decided by it.
type traceIDKey struct{}

// idsOf makes the ids of spans. They are not secret.
type idsOf struct{}

// NewIDs implements [sdktrace.IDGenerator].
func (i idsOf) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := ctx.Value(traceIDKey{}).(trace.TraceID)
	if !ok {
		id = newTraceID()
	}
	return id, i.NewSpanID(ctx, id)
}

// NewSpanID implements [sdktrace.IDGenerator].
func (idsOf) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		fill8(id[:], rand.Uint64())
	}
	return id
}

func newTraceID() (id trace.TraceID) {
	for !id.IsValid() {
		fill8(id[:8], rand.Uint64())
		fill8(id[8:], rand.Uint64())
	}
	return id
}

func fill8(b []byte, n uint64) {
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
}

// limiter admits strangersMax requests in each second.
type limiter struct {
	mu     sync.Mutex
	second int64
	taken  int
}

// take reports whether one more request fits.
func (l *limiter) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now().Unix(); now != l.second {
		l.second, l.taken = now, 0
	}
	l.taken++
	return l.taken <= strangersMax
}

// boundedProcessor counts the spans that wait, and drops those for which there is no room. The
// processor of the library has the same room, and so drops none: it would not count them.
type boundedProcessor struct {
	sdktrace.SpanProcessor
	exporter *countingExporter
}

// OnEnd implements [sdktrace.SpanProcessor].
func (p *boundedProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	if p.exporter.waiting.Add(1) > p.exporter.room {
		p.exporter.waiting.Add(-1)
		p.exporter.dropped.Add(1)
		return
	}
	p.SpanProcessor.OnEnd(s)
}

// countingExporter counts the spans that the collector has taken and those that are lost, and
// logs failures now and then.
type countingExporter struct {
	sdktrace.SpanExporter
	log                        *slog.Logger
	room                       int64        // bounds waiting
	waiting                    atomic.Int64 // spans that ended and were not exported yet
	exported, dropped, failing atomic.Uint64
	logged                     time.Time // only ExportSpans uses it, which is never called twice at once
}

// ExportSpans implements [sdktrace.SpanExporter]. It returns no error, which the library would
// print.
func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	n := uint64(len(spans))
	e.waiting.Add(-int64(n))
	lost := n
	if err == nil {
		lost = 0
	} else if refused, ok := refusedBy(err); ok {
		lost = min(refused, n)
	}
	e.dropped.Add(lost)
	e.exported.Add(n - lost)
	switch {
	case lost > 0 && time.Since(e.logged) >= failuresEvery:
		e.logged = time.Now()
		e.log.Error("traces cannot be exported", "error", quote.Of(err.Error(), audit.TextMax), "dropped", e.dropped.Load())
	case lost == 0 && e.failing.Load() > 0:
		e.log.Info("traces can be exported again", "dropped", e.dropped.Load())
	}
	e.failing.Store(min(lost, 1))
	return nil
}

// refusedBy returns how many spans a collector has refused that has taken the others.
func refusedBy(err error) (n uint64, ok bool) {
	_, text, found := strings.Cut(err.Error(), "OTLP partial success: ")
	at := strings.LastIndexByte(text, '(')
	if !found || at < 0 {
		return 0, false
	}
	_, err = fmt.Sscanf(text[at:], "(%d spans rejected)", &n)
	return n, err == nil
}

// figures returns the metrics of traces.
func (t *tracer) figures() []prometheus.Collector {
	counter := func(name, help string, of *atomic.Uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ostiary_traces_" + name, Help: help}, func() float64 { return float64(of.Load()) })
	}
	return []prometheus.Collector{
		counter("exported_total", "Spans of traces that the collector has taken.", &t.exporter.exported),
		counter("dropped_total", "Spans of traces that were lost: the queue was full, or the collector did not take them.", &t.exporter.dropped),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ostiary_traces_failing", Help: "1 while traces cannot be exported, otherwise 0."},
			func() float64 { return float64(t.exporter.failing.Load()) }),
	}
}
