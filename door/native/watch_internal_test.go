package native

import (
	"context"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWatchPanics checks that a panic within a watch becomes a panic of the
// handler, which a server recovers. In another goroutine it would end the
// process.
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
	err := sendEvents(context.Background(), w, watch, func(n *int) event { return event{name: "n", data: func() any { return *n }} })
	t.Error("sendEvents returned", err)
}
