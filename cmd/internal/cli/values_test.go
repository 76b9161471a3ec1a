package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage/pebble"
)

func TestBytesValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1": 1, "4194304": 4 << 20, "4MiB": 4 << 20, "1GiB": 1 << 30, "2 TiB": 2 << 40, "1GB": 1e9, "3kB": 3000, "7B": 7,
		"8388607TiB": 8388607 << 40, "": -1, "x": -1, "1.5GiB": -1, "-1": -1, "1gib": -1, "GiB": -1, "8388608TiB": -1, "9223372036854775808": -1} {
		got := int64(-1)
		if err := (bytesValue[int64]{&got}).Set(text); (err != nil) != (want < 0) || got != want {
			t.Errorf("%q: got %d, %v, expected %d", text, got, err, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 1: "1", 1000: "1000", 1024: "1KiB", 4 << 20: "4MiB", 5 << 40: "5TiB", 1<<30 + 1<<20: "1025MiB"} {
		if got := (bytesValue[int64]{&n}).String(); got != want {
			t.Errorf("%d: got %s, expected %s", n, got, want)
		}
	}
}

func TestParseExpires(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{"1h": now.Add(time.Hour), "90m": now.Add(90 * time.Minute), "7d": now.AddDate(0, 0, 7),
		"2030-01-01T00:00:00Z": time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), "36500d": now.AddDate(0, 0, 36500)} {
		if got, err := ParseExpires(text, now); err != nil || got != rel.TimeOf(want) {
			t.Errorf("%q: got %v, %v, expected %v", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-1h", "0s", "0d", "36501d", "d", ""} {
		if got, err := ParseExpires(text, now); err == nil {
			t.Errorf("%q: got %v, expected an error", text, got)
		}
	}
}

// An error of a full disk names the disk and what to do. Other errors stay as they
// are.
func TestExplainFullDisk(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("write 000012.sst: %w", syscall.ENOSPC)
	for _, err := range []error{full, fmt.Errorf("%w: %w", pebble.ErrFailed, full)} {
		got := explainFullDisk("d", err)
		if !strings.HasPrefix(got.Error(), "the disk of the data folder d is full") || strings.Contains(got.Error(), "again") || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, err := range []error{nil, syscall.EIO} {
		if got := explainFullDisk("d", err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
