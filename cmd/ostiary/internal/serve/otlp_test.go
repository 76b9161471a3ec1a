package serve

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/internal/trail/audit"
)

// receiver is the receiving end of OTLP/HTTP, which can be down.
type receiver struct {
	mu      sync.Mutex
	down    bool
	refused int
	records []*logs.LogRecord
	service string
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		c.refused++
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	data, err := io.ReadAll(body)
	var in collector.ExportLogsServiceRequest
	if err != nil || r.URL.Path != "/v1/logs" || proto.Unmarshal(data, &in) != nil {
		http.Error(w, "no export of logs", http.StatusBadRequest)
		return
	}
	for _, resource := range in.ResourceLogs {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				c.service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeLogs {
			c.records = append(c.records, scope.LogRecords...)
		}
	}
	out, _ := proto.Marshal(&collector.ExportLogsServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(out)
}

func (c *receiver) set(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// TestSend sends records to a collector that is down for a time. Nothing is lost, and the
// lines that arrive are the chain.
func TestSend(t *testing.T) {
	t.Parallel()
	c := &receiver{}
	s := httptest.NewServer(c)
	defer s.Close()
	key, err := audit.Key(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	sender, err := openOTLP(s.URL, "node1")
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 100)
	l, err := audit.OpenSender(sender, audit.Options{Key: key, Failed: func(err error) { failed <- err }})
	if err != nil {
		t.Fatal(err)
	}
	record := func(operation string) {
		r := audit.Record{Time: time.Now(), Kind: audit.KindWrite, Door: "openfga", Operation: operation, Caller: audit.Caller{ID: "ci"}, Outcome: audit.Made}
		if err := l.Append(&r); err != nil {
			t.Fatal(err)
		}
	}
	record("first")
	c.set(true)
	record("second")
	if err := <-failed; err == nil {
		t.Error("a collector that is down is no failure")
	}
	record("third")
	c.set(false)
	if err := <-failed; err != nil {
		t.Errorf("the collector is up, and the log fails: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var operations, kinds []string
	for _, r := range c.records {
		if !strings.HasSuffix(r.Body.GetStringValue(), `"}`) {
			t.Errorf("the body is %q", r.Body)
		}
		for _, a := range r.Attributes {
			if a.Key == "ostiary.operation" {
				operations = append(operations, a.Value.GetStringValue())
			}
		}
		kinds = append(kinds, r.EventName)
	}
	if got := strings.Join(operations, " "); got != "first second third" {
		t.Errorf("the operations are %q", got)
	}
	if c.service != "ostiary" || kinds[0] != "ostiary.audit.begin" || kinds[len(kinds)-1] != "ostiary.audit.end" {
		t.Errorf("service %q, events %q", c.service, kinds)
	}
}

func TestInvalidAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "collector:4318", "grpc://collector:4317", "http://"} {
		if _, err := openOTLP(address, ""); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}
