package openfga_test

import (
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage"
)

// engine opens an engine in memory for a test.
func engine(t testing.TB) *ostiary.Engine {
	t.Helper()
	return engineOn(t, nil)
}

// engineOn opens an engine with a driver; nil is memory.
func engineOn(t testing.TB, driver storage.Driver) *ostiary.Engine {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver, Conditions: openfga.Conditions{Inner: cel.New(cel.Options{CostMax: 100})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func open(t testing.TB, o openfga.Options) *door.Door {
	t.Helper()
	d, err := openfga.New(engine(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestScripts runs the scripts of requests and expected responses.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"testdata/same_*.http", "testdata/ours_*.http"} {
		doortest.Run(t, glob, func(t testing.TB) *door.Door { return open(t, openfga.Options{}) })
	}
}

// TestFailingScripts plays the scripts while operations of the storage fail.
func TestFailingScripts(t *testing.T) {
	t.Parallel()
	for _, reopen := range []bool{false, true} {
		doortest.Failing{Glob: "testdata/[so][au]*.http", Reopen: reopen, Codes: []string{"4000"}, Optional: []failing.Operation{failing.CloseState}, Open: func(t testing.TB, driver *failing.Driver) *door.Door {
			d, err := openfga.New(engineOn(t, driver), openfga.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}}.Run(t)
	}
}

// TestScriptsSmall runs scripts against a door with small limits.
func TestScriptsSmall(t *testing.T) {
	t.Parallel()
	doortest.Run(t, "testdata/small_*.http", func(t testing.TB) *door.Door {
		return open(t, openfga.Options{
			WriteTuples: 2, BatchChecks: 2, ListResults: 2, Depth: 2, ChangesPage: 2, AssertionBytes: 100,
			ConditionContextBytes: 8, Model: language.Bounds{Types: 4, ModelBytes: 600},
		})
	})
}

// TestScriptsInline runs scripts against a door with the condition "$expression".
func TestScriptsInline(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"testdata/inline_*.http", "testdata/inline_ours/*.http"} {
		doortest.Run(t, glob, func(t testing.TB) *door.Door {
			return open(t, openfga.Options{InlineExpressions: true})
		})
	}
}

// TestDescription compares what the door declares with testdata/description.txt.
func TestDescription(t *testing.T) {
	t.Parallel()
	doortest.Description(t, open(t, openfga.Options{}), "testdata/description.txt")
}
