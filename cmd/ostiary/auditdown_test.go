package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// auditCollector is a collector of OpenTelemetry that can be down. It keeps the lines of an
// audit log.
type auditCollector struct {
	down atomic.Bool

	mu    sync.Mutex
	lines map[int]string // by the number of the record, because a line can arrive twice
}

func (c *auditCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in collector.ExportLogsServiceRequest
	data, err := io.ReadAll(r.Body)
	if err != nil || proto.Unmarshal(data, &in) != nil || c.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range in.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, l := range scope.LogRecords {
				var record struct{ Number int }
				if err := json.Unmarshal([]byte(l.Body.GetStringValue()), &record); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				c.lines[record.Number] = l.Body.GetStringValue()
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// writes returns the records of writes in the order of their numbers, which have no gap.
func (c *auditCollector) writes(t *testing.T) (out []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := 1; n <= len(c.lines); n++ {
		switch line, ok := c.lines[n]; {
		case !ok:
			t.Errorf("the collector has %d records and lacks number %d", len(c.lines), n)
		case strings.Contains(line, `"kind":"write"`):
			out = append(out, line)
		}
	}
	return out
}

// TestAuditCollectorDown writes while the collector of the audit log is down. If the log is
// required, the first write has its effect and no acknowledgment, later ones are refused
// over HTTP and gRPC before they have an effect, and reads go on. Otherwise writes go on.
// The collector has every record once it is up again.
func TestAuditCollectorDown(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{true, false} {
		t.Run(fmt.Sprintf("required=%t", required), func(t *testing.T) {
			t.Parallel()
			receiver := &auditCollector{lines: map[int]string{}}
			listener := httptest.NewServer(receiver)
			t.Cleanup(listener.Close)
			c := startNodes(t, 1, "--grpc", "127.0.0.1:0", "--audit-otlp", listener.URL, fmt.Sprintf("--audit-required=%t", required))
			p := c.all[0]
			create := func(name string) error { return p.post("/stores", map[string]string{"name": name}, nil) }
			conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			createRPC := func(name string) error {
				_, err := openfgav1.NewOpenFGAServiceClient(conn).CreateStore(t.Context(), &openfgav1.CreateStoreRequest{Name: name})
				return err
			}
			failing := func() bool { return strings.Contains(get(t, p.metrics+"/metrics"), "\nostiary_audit_failing 1\n") }

			if err := create("before"); err != nil {
				t.Fatal(err)
			}
			receiver.down.Store(true)
			err = create("uncertain")
			stores := []string{"before", "uncertain"}
			if required {
				if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "may have had an effect") {
					t.Errorf("the first write without a record: %v", err)
				}
				if err := create("refused"); err == nil || !strings.Contains(err.Error(), "the audit log cannot be written") || strings.Contains(err.Error(), "effect") {
					t.Errorf("a later write: %v", err)
				}
				if err := createRPC("refused"); status.Code(err) != codes.Unavailable {
					t.Errorf("a later write over gRPC: %v", err)
				}
			} else {
				for _, err := range []error{err, create("http"), createRPC("rpc")} {
					if err != nil {
						t.Errorf("a write, although no record is required: %v", err)
					}
				}
				stores = append(stores, "http", "rpc")
			}
			c.eventually("the metrics have the failure", failing)
			var list struct{ Stores []struct{ Name string } }
			if err := json.Unmarshal([]byte(get(t, p.http+"/stores")), &list); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range list.Stores {
				names = append(names, s.Name)
			}
			slices.Sort(names) // those of one millisecond are listed in any order
			slices.Sort(stores)
			if !slices.Equal(names, stores) {
				t.Errorf("there are the stores %v, expected %v", names, stores)
			}

			receiver.down.Store(false)
			c.eventually("the log is written again", func() bool { return !failing() })
			if err := create("after"); err != nil {
				t.Errorf("a write after the collector is up: %v", err)
			}
			stores = append(stores, "after")
			c.eventually("the collector has all records", func() bool { return len(receiver.writes(t)) >= len(stores) })
			made := 0
			for _, line := range receiver.writes(t) {
				if strings.Contains(line, `"outcome":"made"`) {
					made++
				}
			}
			if made != len(stores) {
				t.Errorf("%d records of writes with an effect, expected %d", made, len(stores))
			}
		})
	}
}

// get returns the body of a page.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, response.Status, err)
	}
	return string(body)
}
