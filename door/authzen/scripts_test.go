package authzen_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/doortest"
)

// TestScripts plays the scripts against the data of the certification scenario.
func TestScripts(t *testing.T) {
	t.Parallel()
	doortest.Run(t, "testdata/*.http", func(t testing.TB) *door.Door {
		w := open(t, readFile(t, "testdata/certification.txt"))
		info := w.store.Info()
		if err := w.engine.UpdateStore(context.Background(), info.ID, "fixture", map[string]string{authzen.Name: "fixture"}); err != nil {
			t.Fatal(err)
		}
		return w.door
	})
}

// TestStores checks which store a path without one uses.
func TestStores(t *testing.T) {
	t.Parallel()
	w := open(t, readFile(t, "testdata/certification.txt"))
	evaluate := func() int {
		rec := send(t, w, "/access/v1/evaluation", `{"subject":{"type":"user","id":"alice"},"action":{"name":"read"},"resource":{"type":"record","id":"record-1"}}`)
		return rec.Code
	}
	if got := evaluate(); got != http.StatusOK {
		t.Error(got)
	}
	second, err := w.engine.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if got := evaluate(); got != http.StatusBadRequest {
		t.Errorf("with two stores: %d", got)
	}
	if err := w.engine.UpdateStore(context.Background(), second.ID(), "second", map[string]string{authzen.Name: "default"}); err != nil {
		t.Fatal(err)
	}
	if got := evaluate(); got != http.StatusBadRequest {
		t.Errorf("the default store has no schema: %d", got)
	}
	if _, err := authzen.New(w.engine, authzen.Options{URL: "https://pdp.example.com/"}); err == nil {
		t.Error("a URL with a slash at the end is accepted")
	}
}
