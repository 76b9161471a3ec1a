package sharedlogtest

import (
	"sync"
	"testing"
)

// Together opens logs in new databases by several nodes at once, which make the tables.
func (open SQL) Together(t *testing.T, database func() string) {
	t.Helper()
	for range 3 {
		url := database()
		var nodes sync.WaitGroup
		for range 4 {
			nodes.Go(func() {
				l, err := open(t.Context(), url)
				if err != nil {
					t.Error(err)
					return
				}
				defer l.Close()
				if _, _, err := l.Nodes(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		nodes.Wait()
	}
}
