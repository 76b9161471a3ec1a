package server_test

import (
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestMetrics checks the metrics that do not belong to requests: of the engine, the
// program, the process, and those that the options add. Two of one name are an error.
func TestMetrics(t *testing.T) {
	t.Parallel()
	engine, err := ostiary.Open(t.Context(), ostiary.Options{Driver: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	store, err := engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "one"})
	if err == nil {
		_, _, err = store.WriteSchema(t.Context(), ostiary.SchemaSource{Model: &schema.Model{Types: []schema.TypeDef{{Name: "user"}}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	own := prometheus.NewGauge(prometheus.GaugeOpts{Name: "own", Help: "It is 7."})
	own.Set(7)
	r := start(t, server.Options{Engine: engine, Collectors: []prometheus.Collector{own}})
	text := r.metric(t, "")
	for _, line := range []string{`ostiary_engine_bytes [1-9].*`, `ostiary_engine_stores_loaded 1`, `ostiary_build_info{version=".+"} 1`, `own 7`,
		`go_goroutines [1-9].*`, `process_open_fds [1-9].*`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(text) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if _, err := server.New(server.Options{Metrics: "127.0.0.1:0", Collectors: []prometheus.Collector{own, own}}); err == nil {
		t.Error("two metrics of one name are accepted")
	}
}
