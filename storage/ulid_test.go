package storage

import (
	"errors"
	"testing"

	"github.com/ostiary/ostiary/rel"
)

func TestStoreIDText(t *testing.T) {
	for text, id := range map[string]StoreID{
		"00000000000000000000000000": {},
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ": {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
		// The example of a time in the specification: 1469918176385 ms.
		"01ARYZ6S410000000000000000": {0x01, 0x56, 0x3d, 0xf3, 0x64, 0x81},
		"00000000000000000000000001": {15: 1},
	} {
		if got := id.String(); got != text {
			t.Errorf("String() of %x = %s, want %s", id, got, text)
		}
		if got, err := ParseStoreID(text); err != nil || got != id {
			t.Errorf("ParseStoreID(%s) = %x, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01aryz6s410000000000000000", "01ARYZ6S41000000000000000I", "01ARYZ6S4100000000000000000"} {
		if _, err := ParseStoreID(text); !errors.Is(err, ErrNoStore) {
			t.Errorf("ParseStoreID(%q): error %v, want ErrNoStore", text, err)
		}
	}
}

func TestStoreIDsSortByTime(t *testing.T) {
	early, late := NewID(rel.Time(1469918176385e6)), NewID(rel.Time(1469918176386e6))
	if early.String() >= late.String() || early.String()[:10] != "01ARYZ6S41" {
		t.Errorf("ids %s and %s are not in the order of their times", early, late)
	}
	if NewID(1e6) == NewID(1e6) {
		t.Error("two ids for the same time are equal")
	}
}

func FuzzParseStoreID(f *testing.F) {
	f.Add("01ARYZ6S410000000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseStoreID(s); err == nil && id.String() != s {
			t.Fatalf("String() of ParseStoreID(%q) = %q", s, id)
		}
	})
}
