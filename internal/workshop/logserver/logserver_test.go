package logserver_test

import (
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/logserver"
)

func TestLog(t *testing.T) {
	t.Parallel()
	sharedlogtest.Run(t, func(t *testing.T) sharedlogtest.Opener {
		s, err := logserver.Serve("127.0.0.1:0", memorylog.New())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return func() (sharedlog.Log, error) { return logserver.Open(t.Context(), s.Address()) }
	})
}
