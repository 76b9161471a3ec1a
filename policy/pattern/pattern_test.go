package pattern

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/policy/status"
)

// TestMatch lists patterns with texts that match and texts that do not.
func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"John.*", []string{"John Doe", "xJohn"}, []string{"Jane", "john"}},
		{"^a$", []string{"a"}, []string{"a\n", "ab", "\na", ""}},
		{"", []string{"", "a"}, nil},
		{"a||b", []string{""}, nil},
		{"()", []string{""}, nil},
		{"^.$", []string{"é", "𝄞", "\t"}, []string{"\n", "\r", ""}},
		{`^\d+$`, []string{"0", "٣", "१"}, []string{"a", ""}},
		{`^\w$`, []string{"a", "+", "é", "7", "^", "€"}, []string{"_", "-", " ", "\t", "\u0378"}},
		{`^\W$`, []string{"_", "-", " "}, []string{"a", "+"}},
		{`^\i\c*$`, []string{"a", "_b-1.2", ":x", "é"}, []string{"1a", "-", "a b"}},
		{`^\I\C$`, []string{"1 ", "- "}, []string{"a ", "1a"}},
		{`^\s\S$`, []string{" a", "\ta", "\ra"}, []string{"a ", "\u00A0a"}},
		{`^\p{Lu}\P{Lu}$`, []string{"Aa", "É1"}, []string{"aA", "AA"}},
		{`^\p{IsGreek}+$`, []string{"αβγ"}, []string{"abc"}},
		{`^\P{IsBasicLatin}$`, []string{"é"}, []string{"e"}},
		{`^\p{C}$`, []string{"\u0378", "\x00", "\uE000"}, []string{"a"}},
		{`^[a-z-[aeiou]]+$`, []string{"xyz"}, []string{"a", "xa", "-"}},
		{`^[^a-c-[x]]$`, []string{"d", "-"}, []string{"a", "x"}},
		{`^[a-z-[a-y-[c]]]+$`, []string{"cz"}, []string{"b"}},
		{`^[a-[a]]$`, nil, []string{"a", "b", ""}},
		{`^a|[b-[b]]`, []string{"a"}, []string{"b"}},
		{`^[a-cc-e\d]+$`, []string{"abcde1"}, []string{"f"}},
		{`^[-a]+$`, []string{"-a"}, []string{"b"}},
		{`^[a-]+$`, []string{"-a"}, []string{"b"}},
		{`^[a^]+$`, []string{"^a"}, []string{"b"}},
		{`^[\d\-\]]+$`, []string{"1-]"}, []string{"a"}},
		{`^[\D]$`, []string{"a"}, []string{"1"}},
		{`^[.]$`, []string{"."}, []string{"a"}},
		{`^[$]$`, []string{"$"}, []string{"a"}},
		{`\$\^\.\\\?\*\+\(\)\[\]\{\}\|\-`, []string{`$^.\?*+()[]{}|-`}, []string{""}},
		{`^a{2}b{1,}c{0,2}$`, []string{"aab", "aabbcc"}, []string{"ab", "aabccc", "aac"}},
		{`^a+?b*?c??$`, []string{"aab", "a", "abc"}, []string{"b"}},
		{`^(a|b)c$`, []string{"ac", "bc"}, []string{"c"}},
		{`^(?:a|b)c$`, []string{"ac"}, []string{"c"}},
		{`^(.)(.)\2\1$`, []string{"abba"}, []string{"abab"}},
		{`(.)\1`, []string{"hello"}, []string{"helo"}},
		{`^(a*)b\1$`, []string{"aabaa", "b"}, []string{"aaba"}},
		{`^(a)?b\1c$`, []string{"abac", "bc"}, []string{"abc"}},
		{`^(?:(a)|b)*\1$`, []string{"aba", "baa"}, []string{"ac"}},
		{`^(a)\10$`, []string{"aa0"}, []string{"a"}},
		{`^((a)(b)?)+\3c$`, []string{"abbc", "ababbc"}, []string{"abac"}},
		{`^(x{0,2}){0,}y\1$`, []string{"xxyxx", "y"}, nil},
		{`^(?:(a)x|a)y\1$`, []string{"ay", "axya"}, []string{"aya"}},
		{`^(?:(a)|(b))*c\1\2$`, []string{"abcab", "aca", "bcb", "c"}, []string{"abc", "ac"}},
		{"\n", []string{"a\nb"}, []string{`\n`}},
		{`^\n\t\r$`, []string{"\n\t\r"}, nil},
		{`^[\n-\r]$`, []string{"\v"}, []string{"\t"}},
		{`^a{0}$`, []string{""}, []string{"a"}},
		{`^10\.10\.([01]?\d\d?|2[0-4]\d|25[0-5])`, []string{"10.10.190"}, []string{"10.144.190"}},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		for _, text := range append(append([]string{}, c.yes...), c.no...) {
			want := false
			for _, yes := range c.yes {
				want = want || yes == text
			}
			if got, err := p.Match(text); err != nil || got != want {
				t.Errorf("%q on %q: %v, %v, expected %v", c.pattern, text, got, err, want)
			}
		}
	}
}

// TestInvalid lists patterns of other languages and broken ones.
func TestInvalid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"(", ")", "a)", "(a", "[", "[]", "[^]", "[a", "[z-a]", "[a-\\d]", "[a[b]]", "[a-z-[b]", "[a-b-c]", "a**", "*", "+a", "?", "a{", "a{1", "a{2,1}", "a{,2}", "{",
		"}", "]", `\`, `\b`, `\A`, `\z`, `\Z`, `\x41`, `\u0041`, `\0`, `\1`, `(a\1)`, `(a)\2`, `\p`, `\p{`, `\p{X}`, `\p{IsNone}`, `\p{Latin}`, `\pL`, `\q`, `[\1]`, `\Q`,
		"(?i)a", "(?=a)", "(?<n>a)", "(?P<n>a)", "a++", "\xff", `\_`, `\p{LC}`, `\p{Letter}`, "a|*", "[a--b]", "[-[a]]",
	} {
		_, err := Compile(text)
		var e *status.Error
		if !errors.As(err, &e) || e.Code != status.ProcessingError {
			t.Errorf("%q: error %v, expected a processing-error", text, err)
		}
	}
}

// TestBounds tests each bound at its value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pattern, above string }{
		{"pattern bytes", strings.Repeat("a", BytesMax), strings.Repeat("a", BytesMax+1)},
		{"pattern nesting", strings.Repeat("(", NestingMax) + strings.Repeat(")", NestingMax), strings.Repeat("(", NestingMax+1) + strings.Repeat(")", NestingMax+1)},
		{"pattern repeat", "a{1000}", "a{1001}"},
		{"pattern repeat", "a{0,1000}", "a{0,99999999999999999999}"},
		{"pattern repeat", "(a{10}){100}", "(a{10}){101}"},
		{"pattern states", "(aaaaaa){999}aaaaaaaa", "(aaaaaa){999}aaaaaaaaa"},
		{"pattern ranges", strings.Repeat(`\w`, 100), strings.Repeat(`\w`, 400)},
	} {
		if _, err := Compile(c.pattern); err != nil {
			t.Errorf("at the bound %s: %v", c.name, err)
		}
		checkBound(t, c.name, func() error { _, err := Compile(c.above); return err })
	}
	p, err := Compile("a")
	if err != nil {
		t.Fatal(err)
	}
	most := StepsMax/p.states - 1
	if _, err := p.Match(strings.Repeat("b", most)); err != nil {
		t.Errorf("at the bound pattern steps: %v", err)
	}
	checkBound(t, "pattern steps", func() error { _, err := p.Match(strings.Repeat("b", most+1)); return err })
}

// TestBlowUp shows that patterns on which a backtracking matcher needs
// exponential time end.
func TestBlowUp(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", 5000) + "!"
	p, err := Compile("^(a+)+$")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := p.Match(text); ok || err != nil {
		t.Errorf("(a+)+: %v, %v, expected false", ok, err)
	}
	p, err = Compile(`^((a+)+)\1\2$`)
	if err != nil {
		t.Fatal(err)
	}
	checkBound(t, "pattern steps", func() error { _, err := p.Match(text[:40] + "!"); return err })
	p, err = Compile(`^(a)*\1b$`)
	if err != nil {
		t.Fatal(err)
	}
	checkBound(t, "pattern depth", func() error { _, err := p.Match(strings.Repeat("a", DepthMax)); return err })
}

func checkBound(t *testing.T, name string, f func() error) {
	t.Helper()
	var e *status.Error
	if err := f(); !errors.As(err, &e) || e.Bound != name || e.Code != status.ProcessingError {
		t.Errorf("error %v, expected one with the bound %q", err, name)
	}
}

// TestBothMatchers compares the linear matcher with the backtracking one on
// random patterns.
func TestBothMatchers(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	compared := 0
	for range 20_000 {
		text := randomText(r, `ab.|*+?()[]-^${}1,2\ds`, 10)
		p, err := Compile(text)
		if err != nil || p.linear == nil {
			continue
		}
		parsed := parser{rest: text, text: text}
		root, err := parsed.parse()
		if err != nil {
			t.Fatal(err)
		}
		slow := &Pattern{root: root, groups: parsed.groups}
		for range 5 {
			input := randomText(r, "ab1 -\n", 6)
			want, errSlow := slow.Match(input)
			got, errFast := p.Match(input)
			if errSlow != nil || errFast != nil || want != got {
				t.Fatalf("seed %d: %q on %q: linear %v (%v), backtracking %v (%v)", seed, text, input, got, errFast, want, errSlow)
			}
			compared++
		}
	}
	if compared < 1000 {
		t.Errorf("seed %d: compared only %d matches", seed, compared)
	}
}

func randomText(r *rand.Rand, characters string, most int) string {
	var b strings.Builder
	for range r.IntN(most) {
		b.WriteByte(characters[r.IntN(len(characters))])
	}
	return b.String()
}

// FuzzCompile shows that no pattern and no text makes the package panic, and
// that both end.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{"[a-z-[aeiou]]", `(.)\1`, `\p{IsGreek}`, "a{2,3}?", `^(x{0,2}){0,}y\1$`} {
		f.Add(s, "abba")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		if p.String() != pattern {
			t.Errorf("%q prints as %q", pattern, p)
		}
		_, _ = p.Match(text)
	})
}

func BenchmarkMatch(b *testing.B) {
	p, err := Compile(`^https://[a-z.]+/documents/\d+$`)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if ok, _ := p.Match("https://www.example.com/documents/12345"); !ok {
			b.Fatal("no match")
		}
	}
}
