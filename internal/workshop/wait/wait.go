// Package wait lets tests wait for what another goroutine, engine or process does. It
// never waits for a fixed time.
package wait

import (
	"testing"
	"time"
)

// limit is how long [Until] waits. Only what never happens runs into it.
const limit = 2 * time.Minute

// Until waits until a condition holds, and ends the test if it does not within two
// minutes. what names the condition in the error.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not seen after %s", what, limit)
		}
	}
}
