package totp

import (
	"encoding/base32"
	"fmt"
	"strings"
	"testing"
	"time"
)

// rfc is the seed of the test vectors of RFC 6238, appendix B.
var rfc = Seed("12345678901234567890")

// TestVectors checks the vectors of RFC 6238, appendix B: of their eight digits,
// the last six.
func TestVectors(t *testing.T) {
	for at, want := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if got := rfc.At(Step(time.Unix(at, 0))); got != want {
			t.Errorf("%d: %s, want %s", at, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	now := time.Unix(1_111_111_111, 0)
	current := Step(now)
	for _, x := range []struct {
		name     string
		password string
		used     int64
		want     int64 // 0 for no match
	}{
		{"current", rfc.At(current), 0, current},
		{"previous", rfc.At(current - 1), 0, current - 1},
		{"too old", rfc.At(current - 2), 0, 0},
		{"next", rfc.At(current + 1), 0, 0},
		{"used", rfc.At(current), current, 0},
		{"previous after current", rfc.At(current - 1), current, 0},
		{"current after previous", rfc.At(current), current - 1, current},
		{"empty", "", 0, 0},
		{"shorter", rfc.At(current)[:5], 0, 0},
		{"longer", rfc.At(current) + "0", 0, 0},
	} {
		if step, ok := rfc.Match(x.password, now, x.used); ok != (x.want != 0) || step != x.want {
			t.Errorf("%s: step %d, %v, want %d", x.name, step, ok, x.want)
		}
	}
}

func TestParseSeed(t *testing.T) {
	text := base32.StdEncoding.EncodeToString([]byte("12345678901"))
	for _, form := range []string{text, strings.TrimRight(text, "=")} {
		if s, err := ParseSeed(form); err != nil || string(s) != "12345678901" {
			t.Errorf("%s: %v", form, err)
		}
	}
	for _, bad := range []string{"", "=", "0189", "not base32", "gezdgnbv"} {
		if _, err := ParseSeed(bad); err == nil || bad != "" && bad != "=" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if text := fmt.Sprintf("%v %#v %s", rfc, rfc, rfc); strings.Contains(text, "1234") || strings.Contains(text, "49") {
		t.Error(text)
	}
}

func FuzzParseSeed(f *testing.F) {
	f.Add("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSeed(text)
		if err != nil {
			return
		}
		again, err := ParseSeed(base32.StdEncoding.EncodeToString(s))
		if err != nil || string(again) != string(s) {
			t.Errorf("%q: %v", text, err)
		}
		if code := s.At(1); len(code) != digits {
			t.Errorf("%q: password %q", text, code)
		}
	})
}
