package serve

import (
	"testing"
	"time"
)

// TestAppendTime requires that a write knows its outcome before its request ends.
func TestAppendTime(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{10 * time.Millisecond, time.Second, 3 * time.Second, time.Minute} {
		f := serveFlags{requestTimeout: timeout}
		have := f.engineBounds().AppendTime
		if longest := have + have/4; longest >= timeout || longest < timeout/2 {
			t.Errorf("with --request-timeout %s, a write takes up to %s, want less, and at least half of it", timeout, longest)
		}
	}
	// Without a limit, the engine's default counts.
	if have := (&serveFlags{}).engineBounds().AppendTime; have != 0 {
		t.Errorf("without --request-timeout, AppendTime is %s, want the default", have)
	}
}
