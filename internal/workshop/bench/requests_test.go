package bench_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// recordText returns what does not depend on times in a record.
func recordText(r bench.Record) string {
	text := fmt.Sprintf("%s %s, %s: %s %s %s over %q, size %d, %s; %d good", r.Kind, r.Workload, r.Cell, r.Peer, r.PeerVersion, r.Store, r.Door, r.Size, r.Load, r.N)
	for what, n := range r.Failures {
		text += fmt.Sprintf(", %d %s", n, what)
	}
	return strings.TrimSuffix(text+"; "+r.Notes, "; ")
}

// TestRequests compares the requests of each workload with a file, and its records
// without their times.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f := &front{}
			var out strings.Builder
			r := &bench.Runner{Progress: f.progress, Emit: func(r bench.Record) error {
				f.between()
				fmt.Fprintln(&out, recordText(r))
				if r.N > 0 && (r.Mean <= 0 || r.Min <= 0 || r.Median < r.Min || r.Max < r.Mean || (r.Throughput <= 0) != strings.Contains(r.Cell, "watcher") || r.GeneratorCPU < 0 || r.When.IsZero() || r.Machine == "" || r.Resident != 0) {
					t.Errorf("the record has wrong figures: %+v", r)
				}
				return nil
			}}
			if err := s.run(t, f, r); err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "testdata/requests-"+s.name+".txt", out.String()+"\n"+f.String())
		})
	}
}

// TestWrongAnswers spoils the answers of each cell of each workload. All of them
// must count as failures: those with an error by its status, the others as wrong.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		for what, spoil := range map[string]func(status int, body []byte) (int, []byte){
			"status 503 busy": func(int, []byte) (int, []byte) { return 503, []byte(`{"code":"busy"}`) },
			"status 300":      func(_ int, body []byte) (int, []byte) { return 300, []byte("{}") },
			"wrong answer":    func(status int, body []byte) (int, []byte) { return status, lie(body) },
		} {
			t.Run(s.name+", "+what, func(t *testing.T) {
				t.Parallel()
				f := &front{}
				f.spoil = func(cell string, n int, status int, body []byte) (int, []byte) {
					if strings.HasPrefix(cell, "loading ") || strings.Contains(cell, "watchers") {
						return status, body
					}
					return spoil(status, body)
				}
				good := map[string]int{}
				r := &bench.Runner{Progress: f.progress, Emit: func(r bench.Record) error {
					f.between()
					if slices.Contains(s.unchecked, r.Cell) && what == "wrong answer" || r.Notes != "" && r.N+r.Failed() == 0 || strings.Contains(r.Cell, "watcher") {
						return nil
					}
					good[r.Cell]++
					if r.Cell == "mixed 99:1" && what == "wrong answer" {
						r.N -= 2 // the writes, whose answers are empty
					}
					if r.N != 0 || r.Failures[what] == 0 || !strings.Contains(r.Notes, "first failure: "+what) {
						t.Errorf("%s: %d good, failures %v, %s", r.Cell, r.N, r.Failures, r.Notes)
					}
					return nil
				}}
				if err := s.run(t, f, r); err != nil || len(good) == 0 {
					t.Errorf("%d cells, error %v", len(good), err)
				}
			})
		}
	}
}

// lie returns a response with one wrong fact.
func lie(body []byte) []byte {
	// The answers of ONAP's doors have several facts, of which one is expected.
	onap := strings.NewReplacer(`"code":200`, `"code":500`, `"totalErrorCount":0`, `"totalErrorCount":1`, `"properties"`, `"p"`, `"Permit"`, `"Deny"`, `"metadata"`, `"m"`)
	if changed := onap.Replace(string(body)); changed != string(body) && !strings.Contains(changed, "CHECK_RESULT") {
		return []byte(changed)
	}
	for _, x := range [][2]string{{"CHECK_RESULT_ALLOWED", "CHECK_RESULT_DENIED"}, {"CHECK_RESULT_DENIED", "CHECK_RESULT_ALLOWED"},
		{`"can_view_operations"`, `"other"`}, {"true", "false"}, {"false", "true"}, {`"document:`, `"d:`}, {`"project:`, `"p:`}} {
		if bytes.Contains(body, []byte(x[0])) {
			return bytes.Replace(body, []byte(x[0]), []byte(x[1]), 1)
		}
	}
	return body
}
