package value

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDaysOfMonths checks the last day of each month and the one after it.
func TestDaysOfMonths(t *testing.T) {
	t.Parallel()
	for _, year := range []int{1900, 2000, 2023, 2024, 2100} {
		for month := time.January; month <= time.December; month++ {
			last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
			for day, ok := range map[int]bool{0: false, 1: true, last: true, last + 1: false} {
				text := fmt.Sprintf("%04d-%02d-%02d", year, month, day)
				if _, err := Parse(Date, text); ok != (err == nil) {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
}

// TestSums adds durations to times, and compares the results with those of package
// time.
func TestSums(t *testing.T) {
	t.Parallel()
	parse := func(typ Type, text string) Value {
		t.Helper()
		v, err := Parse(typ, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		typ            Type
		text           string
		by             Type
		duration, want string
		back           bool
	}{
		{DateTime, "2026-01-02T03:04:05.9Z", DayTimeDuration, "PT0.2S", "2026-01-02T03:04:06.1Z", false},
		{DateTime, "2026-01-02T03:04:05.1Z", DayTimeDuration, "PT0.2S", "2026-01-02T03:04:04.9Z", true},
		{DateTime, "2026-12-31T23:59:59.999999999Z", DayTimeDuration, "PT0.000000001S", "2027-01-01T00:00:00Z", false},
		{DateTime, "2026-12-31T23:59:59Z", DayTimeDuration, "P1DT1S", "2027-01-02T00:00:00Z", false},
		{DateTime, "2026-01-31T00:00:00Z", YearMonthDuration, "P1M", "2026-02-28T00:00:00Z", false},
		{DateTime, "2024-01-31T00:00:00Z", YearMonthDuration, "P1M", "2024-02-29T00:00:00Z", false},
		{DateTime, "2026-11-30T00:00:00Z", YearMonthDuration, "P3M", "2027-02-28T00:00:00Z", false},
		{DateTime, "2026-01-15T00:00:00Z", YearMonthDuration, "P1M", "2025-12-15T00:00:00Z", true},
		{DateTime, "2026-12-15T00:00:00Z", YearMonthDuration, "P1Y1M", "2028-01-15T00:00:00Z", false},
		{Date, "2026-03-31", YearMonthDuration, "P1M", "2026-04-30", false},
		{Date, "2026-12-01", YearMonthDuration, "P12M", "2027-12-01", false},
		{Date, "2026-12-01", YearMonthDuration, "P12M", "2025-12-01", true},
		{Time, "23:30:00Z", DayTimeDuration, "PT1H", "00:30:00Z", false},
		{Time, "00:30:00Z", DayTimeDuration, "PT1H", "23:30:00Z", true},
	} {
		got, err := parse(c.typ, c.text).AddDuration(parse(c.by, c.duration), c.back)
		if want := parse(c.typ, c.want); err != nil || !Equal(got, want) || got.Canonical() != want.Canonical() {
			t.Errorf("%s by %s, back %v: %s, %v, want %s", c.text, c.duration, c.back, got.Canonical(), err, c.want)
		}
	}
	for _, c := range [][2]Value{
		{parse(Date, "2026-01-01"), parse(DayTimeDuration, "P1D")}, {parse(Time, "10:00:00"), parse(YearMonthDuration, "P1M")},
		{parse(DateTime, "2026-01-01T00:00:00Z"), NewInteger(1)}, {NewInteger(1), parse(YearMonthDuration, "P1M")}, {NewInteger(1), parse(DayTimeDuration, "P1D")},
	} {
		if got, err := c[0].AddDuration(c[1], false); err == nil {
			t.Errorf("%s and %s: %s", c[0].Canonical(), c[1].Canonical(), got.Canonical())
		}
	}
}

// TestTexts checks texts at the edges of their forms.
func TestTexts(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	long := strings.Join([]string{label, label, label, label[:61]}, ".")
	for _, c := range []struct {
		typ  Type
		good []string
		bad  []string
	}{
		{DNSName, []string{"a", "a.b", "*.a.b", "a_b", "a-b.c", "a.", "A9.z", label, long, long + ".", "a:80", "a:80-90", "*", "*."},
			[]string{"", ".", "a..b", "-a", "a-", "a.-b", "*.-b", "a.*", "a b", "é", label + "a", long + "a", "*..a", "*.a..b", "a:", "a:x", "*.a!"}},
		{X500Name, []string{"cn=a", "z=1", "a-z.9=x", "1.2.3=x", "CN=A, O=B", "9a=1"}, []string{"=a", "-a=1", ".a=1", "a b=1", "a{=1", "`=1", "a_=1", "a/=1", "a:=1", "cn"}},
		{RFC822Name, []string{"a@b", "a.b@c.d", `"a b"@c`, `"a\"b"@c`, "a@[1.2.3.4]"}, []string{"", "@", "a@", "@b", "a", "a b@c", ".a@b", "a.@b", "a@b..c", `"a"b"@c`, `"a\"@c`, `a@"b"`, "a@[]", "a@[a b]", "(a)@b"}},
		{Time, []string{"00:00:00", "23:59:59Z", "24:00:00", "10:00:00+14:00", "10:00:00-14:00", "10:00:00.5"},
			[]string{"24:00:01", "23:60:00", "23:59:60", "1:00:00", "10:00", "10:00:00+1:00", "10:00:00 01:00", "10:00:00+14:01", "10:00:00+0100", "10:00:00+01:0", "10:00:00+01-00", "10:00:00+0a:00", "10:00:00.", "aa:00:00", "10:a0:00"}},
		{Integer, []string{"0", "-0", "+5", "-5", "123456789012345678901234567890"}, []string{"", "-", "+", "--1", "1.0", "1e3", " ", "0x1"}},
	} {
		for _, text := range c.good {
			if v, err := Parse(c.typ, text); err != nil || v.Text() != text {
				t.Errorf("%s %q: %q, %v", c.typ, text, v.Text(), err)
			}
		}
		for _, text := range c.bad {
			if v, err := Parse(c.typ, text); err == nil {
				t.Errorf("%s %q: %q", c.typ, text, v.Canonical())
			}
		}
	}
	if v := NewXPath(XPath{Path: "/a/b", Category: "c"}); v.Text() != "/a/b" || v.Type() != XPathExpression {
		t.Errorf("%q", v.Text())
	}
	if _, err := Parse(Type(200), "a"); err == nil || !strings.Contains(err.Error(), "unknown type") {
		t.Error(err)
	}
	if _, err := Parse(XPathExpression, "a"); err == nil || strings.Contains(err.Error(), "unknown type") {
		t.Error(err)
	}
}

// TestMail checks which addresses fit a pattern.
func TestMail(t *testing.T) {
	t.Parallel()
	v, err := Parse(RFC822Name, "Anne.B@East.Sun.com")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]bool{
		"Anne.B@East.Sun.com": true, "Anne.B@EAST.SUN.COM": true, "anne.b@East.Sun.com": false, "@east.sun.com": false, "Anne.B@": false, "Bob@east.sun.com": false,
		"east.sun.com": true, "EAST.sun.com": true, "sun.com": false, ".sun.com": true, ".SUN.com": true, ".east.sun.com": true, ".com": true, ".": false, "": false, ".un.com": false, ".west.sun.com": false,
	} {
		if got := v.MatchesMail(pattern); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
	if NewString("a@b").MatchesMail("b") {
		t.Error("a string matches")
	}
}
