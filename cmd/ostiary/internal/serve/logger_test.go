package serve

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// A value in the log begins no line, and has no character that a terminal does not show.
func TestLoggerEscapes(t *testing.T) {
	const hidden = "a\x1b[2J\nlevel=ERROR\u202eb\u009bc\u200bd\u3164\U000e0041"
	for _, format := range []string{"text", "json"} {
		var b strings.Builder
		log, err := (&serveFlags{logFormat: format, level: "info"}).logger(&b)
		if err != nil {
			t.Fatal(err)
		}
		log.With("who", hidden).Info("said "+hidden, "name", hidden)
		for _, r := range strings.TrimSuffix(b.String(), "\n") {
			if unicode.In(r, unicode.Cc, unicode.Cf) || r == '\u3164' {
				t.Errorf("%s: the log has %U: %+q", format, r, b.String())
			}
		}
		if format == "json" {
			var line struct{ Name, Who string }
			if err := json.Unmarshal([]byte(b.String()), &line); err != nil || line.Name != hidden || line.Who != hidden {
				t.Errorf("%v, %+q", err, line)
			}
		}
	}
}
