package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
)

const (
	// timeout bounds one attempt to send lines.
	timeout = 10 * time.Second
	// batchMax bounds the lines of one request.
	batchMax = 500
	// pathDefault is the path of logs in OTLP/HTTP.
	pathDefault = "/v1/logs"
)

// otlpSender sends lines to a collector. It implements audit.Sender.
type otlpSender struct {
	exporter *otlploghttp.Exporter
	provider *sdk.LoggerProvider
	logger   log.Logger
	batch    []sdk.Record // what the logger has emitted
}

// openOTLP returns a sender to the collector at an address such as
// "http://collector:4318"; without a path it is /v1/logs. node is the name of this node.
// It does not connect.
func openOTLP(address, node string) (*otlpSender, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("invalid address %q of a collector: expected a URL, for example http://127.0.0.1:4318", address)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = pathDefault
	}
	s := &otlpSender{}
	// The log repeats what fails, so the exporter does not.
	s.exporter, err = otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(u.String()), otlploghttp.WithTimeout(timeout),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{}))
	if err != nil {
		return nil, err
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", "ostiary"), attribute.String("service.instance.id", node)}
	s.provider = sdk.NewLoggerProvider(sdk.WithProcessor(collecting{s}), sdk.WithResource(resource.NewSchemaless(attributes...)),
		sdk.WithAttributeValueLengthLimit(-1))
	s.logger = s.provider.Logger("ostiary.audit")
	return s, nil
}

// collecting keeps the records that a logger emits.
type collecting struct{ *otlpSender }

func (c collecting) OnEmit(_ context.Context, r *sdk.Record) error {
	c.batch = append(c.batch, r.Clone())
	return nil
}
func (c collecting) Enabled(context.Context, sdk.EnabledParameters) bool { return true }
func (c collecting) Shutdown(context.Context) error                      { return nil }
func (c collecting) ForceFlush(context.Context) error                    { return nil }

// head are the members of a line that become attributes.
type head struct {
	Time      time.Time `json:"time"`
	Kind      string    `json:"kind"`
	Door      string    `json:"door"`
	Operation string    `json:"operation"`
	Outcome   string    `json:"outcome"`
	Store     string    `json:"store"`
	Caller    struct {
		ID string `json:"id"`
	} `json:"caller"`
}

// Send sends lines. The body of a record is the line as it is, so that the chain can be
// verified from what the collector has kept.
func (s *otlpSender) Send(lines [][]byte) error {
	for len(lines) > 0 {
		n := min(len(lines), batchMax)
		if err := s.send(lines[:n]); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (s *otlpSender) send(lines [][]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.batch = s.batch[:0]
	for _, line := range lines {
		var h head
		if err := json.Unmarshal(line, &h); err != nil {
			return fmt.Errorf("a line of the audit log is no JSON: %w", err)
		}
		var r log.Record
		r.SetTimestamp(h.Time)
		r.SetObservedTimestamp(time.Now())
		r.SetSeverity(log.SeverityInfo)
		r.SetEventName("ostiary.audit." + h.Kind)
		r.SetBody(attribute.StringValue(string(line)))
		for name, value := range map[string]string{"door": h.Door, "operation": h.Operation, "outcome": h.Outcome, "store": h.Store, "caller": h.Caller.ID} {
			if value != "" {
				r.AddAttributes(attribute.String("ostiary."+name, value))
			}
		}
		s.logger.Emit(ctx, r)
	}
	return s.exporter.Export(ctx, s.batch)
}

// Close frees the resources.
func (s *otlpSender) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = s.provider.Shutdown(ctx) // it has nothing left
	return s.exporter.Shutdown(ctx)
}
