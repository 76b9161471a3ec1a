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
	for text, want := range map[string]string{
		strings.Repeat("x", 8<<10+1):       strings.Repeat("x", 1<<10) + "… (8193 bytes in all)",
		"xx" + strings.Repeat("日", 8<<10):  "xx" + strings.Repeat("日", 340) + "… (24578 bytes in all)",
		strings.Repeat("\x80", 9000):       "… (9000 bytes in all)",
		"x" + strings.Repeat("\x80", 9000): "… (9001 bytes in all)",
	} {
		if got := door.ShortText(text); got != want {
			t.Errorf("%.20q: %d bytes: %.2000q", text, len(got), got)
		}
	}
	got := door.ShortText("xx" + strings.Repeat("日", 8<<10))
	if len(got) > 1100 || !utf8.ValidString(got) || !strings.HasSuffix(got, "… (24578 bytes in all)") {
		t.Errorf("%d bytes: %q", len(got), got[len(got)-40:])
	}
}
