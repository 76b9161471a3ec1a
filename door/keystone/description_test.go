package keystone_test

import (
	"testing"

	"github.com/ostiary/ostiary/door/doortest"
)

// TestDescription compares what the door declares with a file: each route, and the
// responses to unknown paths and refused requests.
func TestDescription(t *testing.T) {
	t.Parallel()
	doortest.Description(t, newCloud(t).door, "testdata/description.txt")
}
