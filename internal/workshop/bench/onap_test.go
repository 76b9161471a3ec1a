package bench_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// TestONAP plays the report's mix against the doors and checks every answer.
func TestONAP(t *testing.T) {
	t.Parallel()
	var doors []*door.Door
	one := func(i int) func(e *ostiary.Engine) (*door.Door, error) {
		return func(e *ostiary.Engine) (d *door.Door, err error) {
			if doors == nil {
				if doors, err = onap.New(e, onap.Options{}); err != nil {
					return nil, err
				}
			}
			return doors[i], nil
		}
	}
	target := serve(t, one(0), one(1), one(2))
	runOn(t, target, 4, func(r *bench.Runner) error {
		return r.ONAP(t.Context(), bench.ONAPOptions{Users: []int{1, 3}, Windows: 2, Load: bench.Load{Requests: 200, Duration: -1}})
	})
}

// TestHealth reads the figures of this process, and checks what counts as growth.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("# TYPE go_goroutines gauge\ngo_goroutines_more 1\ngo_goroutines 17\n"))
	}))
	t.Cleanup(s.Close)
	h, err := bench.HealthOf(t.Context(), os.Getpid(), s.URL)
	if err != nil || h.Goroutines != 17 || h.Handles < 3 || h.Resident < 1<<20 {
		t.Errorf("%+v, %v", h, err)
	}
	base := bench.Health{Resident: 100 << 20, Handles: 50, Goroutines: 40}
	for _, c := range []struct {
		later bench.Health
		want  string
	}{
		{base, ""}, {bench.Health{Resident: 126 << 20, Handles: 66, Goroutines: 56}, ""}, {bench.Health{}, ""},
		{bench.Health{Resident: 126<<20 + 1}, "resident"}, {bench.Health{Handles: 67}, "handles"}, {bench.Health{Goroutines: 57}, "goroutines"},
	} {
		if got := base.Growth(c.later); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c.later, got)
		}
	}
}
