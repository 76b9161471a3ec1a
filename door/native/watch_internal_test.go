package native

import (
	"context"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWatchPanics: a panic below a watch is the handler's, which a server
// survives, and not a goroutine's, which ends the process.
func TestWatchPanics(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	defer func() {
		if p := recover(); p != "below" || !strings.Contains(w.Body.String(), "data: 1\n") {
			t.Errorf("%v, sent %q", p, w.Body)
		}
	}()
	watch := func(context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			yield(1, nil)
			panic("below")
		}
	}
	err := sendEvents(context.Background(), w, watch, func(n *int) event { return event{name: "n", data: *n} })
	t.Error("it returned", err)
}
