package pattern

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy/status"
)

// TestMatch plays testdata/patterns.txt. A line has a pattern with its states, or
// the error of compiling it. Indented lines have texts, whether the pattern
// matches them, and the steps and the depth with which the backtracking matcher
// finds it out.
func TestMatch(t *testing.T) {
	t.Parallel()
	const file = "testdata/patterns.txt"
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var p *Pattern
	for line := range strings.Lines(string(script)) {
		quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(line, "\t"))
		if err != nil {
			out.WriteString(line)
			continue
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "\t") {
			fmt.Fprintf(&out, "\t%s: %s\n", quoted, matchBothWays(t, p, text))
		} else {
			p = nil
			fmt.Fprintf(&out, "%s: %s\n", quoted, compiled(t, text, &p))
		}
	}
	golden.Equal(t, file, out.String())
}

// compiled sets p to the compiled pattern and returns its states, or returns the
// error.
func compiled(t *testing.T, text string, p **Pattern) string {
	t.Helper()
	var err error
	*p, err = Compile(text)
	if err == nil {
		return fmt.Sprintf("%d states", (*p).states)
	}
	var e *status.Error
	if *p != nil || !errors.As(err, &e) || e.Code != status.ProcessingError {
		t.Errorf("%q: pattern %v, error %v, expected no pattern and a processing-error", text, *p, err)
	}
	return strconv.QuoteToASCII(err.Error())
}

// matchBothWays matches a text with the linear matcher, if the pattern has no back
// reference, and with the backtracking one. It checks that the latter fails with
// fewer steps and with less depth than it needs.
func matchBothWays(t *testing.T, p *Pattern, text string) string {
	t.Helper()
	got, err := p.Match(text)
	if err != nil {
		t.Fatalf("%q on %q: %v", p, text, err)
	}
	parsed := parser{rest: p.text, text: p.text}
	root, err := parsed.parse()
	if err != nil {
		t.Fatal(err)
	}
	b := newBacktracker(text, parsed.groups)
	if slow, err := b.find(root); err != nil || slow != got {
		t.Errorf("%q on %q: linear %v, backtracking %v, %v", p, text, got, slow, err)
	}
	steps := b.steps
	for most := range steps {
		b := newBacktracker(text, parsed.groups)
		b.steps = StepsMax - most
		checkBound(t, "pattern steps", func() (bool, error) { return b.find(root) })
	}
	b = newBacktracker(text, parsed.groups)
	b.steps = StepsMax - steps
	if slow, err := b.find(root); err != nil || slow != got {
		t.Errorf("%q on %q with %d steps: %v, %v", p, text, steps, slow, err)
	}
	depth := 0
	for ; ; depth++ {
		b := newBacktracker(text, parsed.groups)
		b.depth = DepthMax - depth
		slow, err := b.find(root)
		if err == nil && slow == got {
			break
		}
		checkBound(t, "pattern depth", func() (bool, error) { return slow, err })
	}
	return fmt.Sprintf("%v, %d steps, depth %d", got, steps, depth)
}

// TestBounds tests each bound at its value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pattern, above string }{
		{"pattern bytes", strings.Repeat("a", 4096), strings.Repeat("a", 4097)},
		{"pattern nesting", strings.Repeat("(", 100) + strings.Repeat(")", 100), strings.Repeat("(", 101) + strings.Repeat(")", 101)},
		{"pattern nesting", strings.Repeat("[a-", 99) + "[b]" + strings.Repeat("]", 99), strings.Repeat("[a-", 100) + "[b]" + strings.Repeat("]", 100)},
		{"pattern repeat", "a{1000}", "a{1001}"},
		{"pattern repeat", "a{0,1000}", "a{0,1001}"},
		{"pattern repeat", "a{1000,}", "a{99999999999999999999,}"},
		{"pattern repeat", "(a{10}){100}", "(a{10}){101}"},
		{"pattern states", "(aaaaaa){999}aaaaaaaa", "(aaaaaa){999}aaaaaaaaa"},
		{"pattern states", "(aaaaaa){999}a?aaaaaa", "(aaaaaa){999}a?aaaaaaa"},
		{"pattern states", `(aaaaaa){999}aaaa()\1`, `(aaaaaa){999}aaaaa()\1`},
		{"pattern ranges", strings.Repeat("\\w", 162) + strings.Repeat("a", 131_072-162*len(words())), strings.Repeat("\\w", 162) + strings.Repeat("a", 131_073-162*len(words()))},
	} {
		if _, err := Compile(c.pattern); err != nil {
			t.Errorf("at the bound %s: %v", c.name, err)
		}
		checkBound(t, c.name, func() (bool, error) { _, err := Compile(c.above); return false, err })
	}
	p, err := Compile("aa") // of 4 states, so that the bound can be met exactly
	if err != nil {
		t.Fatal(err)
	}
	most := 16_777_216/p.states - 1
	if _, err := p.Match(strings.Repeat("b", most)); err != nil {
		t.Errorf("at the bound pattern steps: %v", err)
	}
	checkBound(t, "pattern steps", func() (bool, error) { return p.Match(strings.Repeat("a", most+1)) })
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
	checkBound(t, "pattern steps", func() (bool, error) { return p.Match(text[:40] + "!") })
	p, err = Compile(`^(a)*\1b$`)
	if err != nil {
		t.Fatal(err)
	}
	checkBound(t, "pattern depth", func() (bool, error) { return p.Match(strings.Repeat("a", 50_000)) })
}

// checkBound checks that f returns false and an error with a bound.
func checkBound(t *testing.T, name string, f func() (bool, error)) {
	t.Helper()
	var e *status.Error
	if matched, err := f(); matched || !errors.As(err, &e) || e.Bound != name || e.Code != status.ProcessingError {
		t.Errorf("%v, error %v, expected false and an error with the bound %q", matched, err, name)
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
