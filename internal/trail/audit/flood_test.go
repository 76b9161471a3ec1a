package audit_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/internal/trail/audit"
)

// TestFlood refuses 100,000 requests of 1,000 addresses without a key. The log has at most
// 2 lines for each of 100 addresses and for the others, and counts every request. What a
// caller with a key tries meanwhile has records of its own.
func TestFlood(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l, err := audit.OpenStream(&b, audit.Options{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		trail := audit.NewTrail(false, l)
		for i := range 100_000 {
			trail.Refused(&audit.Record{Time: time.Now(), Kind: audit.KindRefusal, Door: "openfga", Operation: fmt.Sprint("op", i), From: fmt.Sprintf("10.0.%d.%d:%d", i%1000/250, i%250, i), Outcome: audit.Refused, Why: "credentials are required"})
		}
		trail.Refused(&audit.Record{Time: time.Now(), Kind: audit.KindRefusal, Door: "openfga", Operation: "Write", Caller: audit.Caller{ID: "ci"}, From: "10.0.0.1:1", Outcome: audit.Refused, Why: "not in its scope"})
		if err := trail.Close(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(b.String(), `"kind":"refusal"`)
		if lines > 203 {
			t.Errorf("the flood has made %d lines", lines)
		}
		total := 0
		for line := range strings.Lines(b.String()) {
			if !strings.Contains(line, `"kind":"refusal"`) {
				continue
			}
			n := 1
			if _, rest, counted := strings.Cut(line, `"count":`); counted {
				fmt.Sscan(strings.Split(rest, ",")[0], &n)
			}
			total += n
		}
		if total != 100_001 {
			t.Errorf("the records count %d refusals, want 100,001", total)
		}
		if !strings.Contains(b.String(), `"operation":"Write"`) {
			t.Error("what a caller with a key has tried is not in the log")
		}
	})
}
