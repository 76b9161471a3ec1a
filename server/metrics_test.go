package server_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
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
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{{Name: "viewer", Rewrite: schema.Rewrite{Op: schema.OpDirect}, Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	store, err := engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "one"})
	if err == nil {
		_, _, err = store.WriteSchema(t.Context(), authz.SchemaSource{Model: model})
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
	// The store grows while it is loaded, without a budget for memory.
	before := engineBytes(t, text)
	rows := make([]rel.Tuple, 5000)
	for i := range rows {
		rows[i] = rel.Tuple{Object: rel.Object{Type: "doc", ID: strconv.Itoa(i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: strconv.Itoa(i)}}
	}
	if _, err := store.Write(t.Context(), authz.WriteRequest{Add: rows}); err != nil {
		t.Fatal(err)
	}
	if after := engineBytes(t, r.metric(t, "")); after < before+10*float64(len(rows)) {
		t.Errorf("engine_bytes is %.0f, and was %.0f before %d tuples were written", after, before, len(rows))
	}
	if _, err := server.New(server.Options{Metrics: "127.0.0.1:0", Collectors: []prometheus.Collector{own, own}}); err == nil {
		t.Error("two metrics of one name are accepted")
	}
}

// engineBytes returns the value of ostiary_engine_bytes in a text of metrics.
func engineBytes(t *testing.T, text string) float64 {
	t.Helper()
	_, rest, _ := strings.Cut(text, "\nostiary_engine_bytes ")
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
