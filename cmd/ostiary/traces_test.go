package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestTracesOfNodes writes through a node that follows. One trace goes from the client through
// both processes to the append at the node that writes.
func TestTracesOfNodes(t *testing.T) {
	var mu sync.Mutex
	var all []*spans.Span
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in collector.ExportTraceServiceRequest
		data, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &in) != nil {
			http.Error(w, "no traces", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range in.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				all = append(all, scope.Spans...)
			}
		}
	}))
	t.Cleanup(receiver.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	c := startNodes(t, 2)
	var first, second *process
	c.eventually("one node writes and the other follows", func() bool {
		for i, p := range c.all {
			if p.ready().Node.Role == "holder" && c.all[1-i].ready().Node.Role == "follower" {
				second, first = p, c.all[1-i]
			}
		}
		return first != nil
	})
	r, err := http.NewRequest("POST", first.http+"/stores", strings.NewReader(`{"name":"traced"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("status %d", response.StatusCode)
	}
	// path returns the names of the spans from the client to the append.
	path := func() (names []string) {
		mu.Lock()
		defer mu.Unlock()
		parent := "\xb7\xad\x6b\x71\x69\x20\x33\x31"
		for {
			i := slices.IndexFunc(all, func(s *spans.Span) bool { return string(s.ParentSpanId) == parent && s.Name != "check" })
			if i < 0 {
				return names
			}
			names, parent = append(names, all[i].Name), string(all[i].SpanId)
		}
	}
	c.eventually("the collector has the whole trace", func() bool {
		return slices.Equal(path(), []string{"POST /stores", "forward", "POST /stores"})
	})
	if node := second.ready().Node.Node; !slices.ContainsFunc(all, func(s *spans.Span) bool { return s.Name == "forward" && s.Attributes[0].Value.GetStringValue() == node }) {
		t.Errorf("no part was forwarded to node %s: %v", node, all)
	}
}
