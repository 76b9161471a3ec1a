package printable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/ostiary/ostiary/internal/tool/printable"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":     "",
		"anne": "anne",
		"Zoë Łódź 田中　太郎 مريم हिन्दी": "Zoë Łódź 田中　太郎 مريم हिन्दी",
		"🙂 ❤️ 🇨🇭 👍🏽":                 "🙂 ❤️ 🇨🇭 👍🏽",
		"a\x1b[31mb":                 `a\x1b[31mb`,
		"a\nb\tc\rd\x00":             `a\nb\tc\rd\x00`,
		"a\u0085b\u009bc":            `a\u0085b\u009bc`,
		"\u202eevil\u2066x\u2069":    `\u202eevil\u2066x\u2069`,
		"ad\u200bmin\ufeff\u061c":    `ad\u200bmin\ufeff\u061c`,
		"👨\u200d👩":                   `👨\u200d👩`,
		"admin\ufe0f":                `admin\ufe0f`,
		"a\u034fb\u3164":             `a\u034fb\u3164`,
		"a\u2028b\u2029":             `a\u2028b\u2029`,
		"a\U000e0041":                `a\U000e0041`,
		"a\xffb\xc3":                 `a\xffb\xc3`,
		`a\b "c"`:                    `a\b "c"`,
		"\ufffd":                     "\ufffd",
	} {
		if got := printable.Text(text); got != want {
			t.Errorf("%+q: got %s, want %s", text, got, want)
		}
	}
	if got := printable.Lines("a\tb\r\n\x1bc"); got != "a\tb\\r\n\\x1bc" {
		t.Errorf("got %q", got)
	}
}

// No control character, no character of format and none without a width is left.
func TestEveryRune(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		text := printable.Text("x" + string(r))
		if hidden := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector); hidden && strings.ContainsRune(text, r) {
			t.Errorf("%U stays", r)
		}
		if unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && text != "x"+string(r) {
			t.Errorf("%U is escaped: %s", r, text)
		}
	}
}

func TestJSON(t *testing.T) {
	value := map[string]string{"a\u202e\n": "\x1b\u009b\u200b\U000e0041\u2028 Zoë 🙂"}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	out := printable.JSON(text)
	if strings.ContainsAny(string(out), "\u202e\u009b\u200b\U000e0041") {
		t.Errorf("got %+q", out)
	}
	var back map[string]string
	if err := json.Unmarshal(out, &back); err != nil || fmt.Sprint(back) != fmt.Sprint(value) {
		t.Errorf("got %q, %v", back, err)
	}
	if clean := []byte(`{"a": "b"}` + "\n"); &printable.JSON(clean)[0] != &clean[0] {
		t.Error("JSON without escapes was copied")
	}
}

func TestArgs(t *testing.T) {
	args := printable.Args([]any{"a\nb", errors.New("e\x1b"), []string{"l\n"}, 7, 1.5, true, nil, unicode.MaxRune})
	if got, want := fmt.Sprintf("%s|%6v|%q|%03d|%.2f|%t|%v|%c\n", args...), "a\\nb|    e\\x1b|[\"l\\n\"]|007|1.50|true|<nil>|\U0010ffff\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriter(t *testing.T) {
	var b strings.Builder
	w := printable.Writer(&b, printable.LinesOf)
	if n, err := w.Write([]byte("a\x1b\n")); n != 3 || err != nil || b.String() != "a\\x1b\n" {
		t.Errorf("%d, %v, %q", n, err, b.String())
	}
}
