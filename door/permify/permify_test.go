package permify

import (
	"testing"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/doortest"
	"github.com/ostiary/ostiary/expr/cel"
)

// start returns an engine in memory and the door to it.
func start(t testing.TB, o Options) (*ostiary.Engine, *door.Door) {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	d, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return e, d
}

// TestScripts plays what a client sends and must get.
func TestScripts(t *testing.T) {
	doortest.Run(t, "testdata/*.http", func(t testing.TB) *door.Door {
		_, d := start(t, Options{})
		return d
	})
}
