package door_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// TestAccepted checks the qualities of media types for malformed elements of Accept, and
// that they are read exactly. The tests of the doors have other headers.
func TestAccepted(t *testing.T) {
	t.Parallel()
	accepted := func(header string) door.MediaRanges {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", header)
		return door.Accepted(r, func(params map[string]string) bool { return params["v"] == "1" })
	}
	some := accepted("application/json; =x, text/csv, json;q=2, application/xml;q=0.25, a/b;v=1, a/c;v=2")
	for name, want := range map[string]float64{"application/json": 0, "text/csv": 1, "json": 0, "application/xml": 0.25, "a/b": 0, "a/c": 1} {
		if q := some.Quality(name); q != want {
			t.Errorf("%s has quality %v, want %v", name, q, want)
		}
	}
	for _, q := range []float64{0, 1, 0.001, 0.999} {
		if have := accepted(fmt.Sprint("a/b;q=", q)).Quality("a/b"); math.Abs(have-q) > 1e-12 {
			t.Errorf("quality %v, want %v", have, q)
		}
	}
}
