package keystone_test

import (
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
)

// TestDescription compares what the door declares with a file: each route, and the
// responses to unknown paths and refused requests.
func TestDescription(t *testing.T) {
	t.Parallel()
	d := newCloud(t).door
	doortest.Description(t, d, "testdata/description.txt")
	if d.Prepare == nil || d.Background == nil || keystone.FlushInterval != 10*time.Second {
		t.Errorf("prepare %t, background %t, flushes every %s", d.Prepare != nil, d.Background != nil, keystone.FlushInterval)
	}
}
