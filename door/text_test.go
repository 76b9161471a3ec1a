package door_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ostiary/ostiary/door"
)

// TestShortText checks texts at the bound and one byte above it.
func TestShortText(t *testing.T) {
	t.Parallel()
	if whole := strings.Repeat("x", 8<<10); door.ShortText(whole) != whole {
		t.Error("a text at the bound is cut")
	}
	got := door.ShortText("xx" + strings.Repeat("日", 8<<10))
	if len(got) > 1100 || !utf8.ValidString(got) || !strings.HasSuffix(got, "… (24578 bytes in all)") {
		t.Errorf("%d bytes: %q", len(got), got[len(got)-40:])
	}
}
