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
		{Date, "0001-01-01", YearMonthDuration, "P1M", "-0001-12-01", true},
		{Date, "2026-12-01", YearMonthDuration, "P900000000Y", "-899997975-12-01", true},
		{Date, "2026-12-01", YearMonthDuration, "P900000000Y", "900002026-12-01", false},
		{Date, "999999999-11-30", YearMonthDuration, "P1M", "999999999-12-30", false},
		{Date, "-999999999-02-01", YearMonthDuration, "P1M", "-999999999-01-01", true},
		{DateTime, "999999999-12-31T23:59:58Z", DayTimeDuration, "PT1S", "999999999-12-31T23:59:59Z", false},
		{DateTime, "-999999999-01-01T00:00:01Z", DayTimeDuration, "PT1S", "-999999999-01-01T00:00:00Z", true},
		{DateTime, "2026-01-01T23:30:00-03:30", DayTimeDuration, "PT1H", "2026-01-02T00:30:00-03:30", false},
		{Date, "2026-01-31+14:00", YearMonthDuration, "P1M", "2026-02-28+14:00", false},
		{Time, "23:30:00Z", DayTimeDuration, "PT1H", "00:30:00Z", false},
		{Time, "00:30:00Z", DayTimeDuration, "PT1H", "23:30:00Z", true},
	} {
		got, err := parse(c.typ, c.text).AddDuration(parse(c.by, c.duration), c.back)
		if want := parse(c.typ, c.want); err != nil || !Equal(got, want) || got.Canonical() != want.Canonical() || got.Text() != want.Text() {
			t.Errorf("%s by %s, back %v: %s, %v, want %s", c.text, c.duration, c.back, got.Canonical(), err, c.want)
		}
	}
	for _, c := range []struct {
		typ      Type
		text     string
		by       Type
		duration string
		back     bool
	}{
		{Date, "999999999-12-01", YearMonthDuration, "P1M", false}, {Date, "-999999999-01-31", YearMonthDuration, "P1M", true},
		{Date, "2026-01-01", YearMonthDuration, "P999999999999Y", false}, {Date, "2026-01-01", YearMonthDuration, "P999999999999Y", true},
		{DateTime, "999999999-12-31T23:59:59Z", DayTimeDuration, "PT1S", false}, {DateTime, "-999999999-01-01T00:00:00Z", DayTimeDuration, "PT1S", true},
	} {
		if got, err := parse(c.typ, c.text).AddDuration(parse(c.by, c.duration), c.back); err == nil {
			t.Errorf("%s by %s, back %v: %s, want an error", c.text, c.duration, c.back, got.Canonical())
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
		{Date, []string{"2026-01-02", "2026-01-02Z", "-0001-12-31", "12026-01-02+14:00"}, []string{"2026-01-02x", "2026-01-02+14:01", "02026-01-02", "0000-01-02", "026-01-02", "2026-1-02", "2026-01-2", "2026/01-02", "2026-01/02", "2026-00-02", "2026-13-02", "1234567890-01-02", ""}},
		{DateTime, []string{"2026-01-02T03:04:05", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05.123456789-14:00"}, []string{"2026-01-02T03:04:05x", "2026-01-02T03:04:05+1:00", "2026-01-02", "2026-01-02 03:04:05", "2026-01-02T", "x2026-01-02T03:04:05", "2026-01-02T25:00:00", "2026-01-02T03:04:05.1234567891"}},
		{DayTimeDuration, []string{"P1D", "PT1S", "PT0.5S", "-PT0.000000001S", "P1DT2H3M4.5S", "PT1H3S", "P0D", "P999999999999D"}, []string{"P", "-P", "PT", "P1DT", "P1H", "PT1D", "P1Y", "PT1M1H", "PT.5S", "PT1.S", "P-1D", "PT1", "P1000000000000D", "PT1.5M", "PT1.5", "1D"}},
		{YearMonthDuration, []string{"P1Y", "P1M", "-P1Y2M", "P0M", "P999999999999M"}, []string{"P", "-P", "P1D", "P1M1Y", "P1", "1Y", "PY", "P1YM", "P1000000000000Y", ""}},
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

// TestCanonicalDurations checks the canonical form of durations.
func TestCanonicalDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"PT0S": "PT0S", "P0D": "PT0S", "-PT0S": "PT0S", "PT0.5S": "PT0.5S", "-PT0.5S": "-PT0.5S", "PT60S": "PT1M", "PT3600S": "PT1H", "PT86400S": "P1D", "PT90061.25S": "P1DT1H1M1.25S", "-P1DT24H": "-P2D",
		"PT59M60S": "PT1H", "PT1H0.1S": "PT1H0.1S", "P1DT0.1S": "P1DT0.1S",
	} {
		if v, err := Parse(DayTimeDuration, text); err != nil || v.Canonical() != want {
			t.Errorf("%s: %s, %v, want %s", text, v.Canonical(), err, want)
		}
	}
	for text, want := range map[string]string{"P0Y": "P0M", "-P0M": "P0M", "P12M": "P1Y", "P13M": "P1Y1M", "-P1Y12M": "-P2Y", "P11M": "P11M"} {
		if v, err := Parse(YearMonthDuration, text); err != nil || v.Canonical() != want {
			t.Errorf("%s: %s, %v, want %s", text, v.Canonical(), err, want)
		}
	}
}

// TestZonesOfTypes checks which values get a zone, and which one.
func TestZonesOfTypes(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("Berlin", 3600)
	other, err := Parse(DateTime, "2026-07-01T00:00:00-05:00")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		typ                          Type
		text                         string
		has                          bool
		inUTC, inBerlin, inOther, at string
	}{
		{Time, "10:00:00", false, "10:00:00Z", "10:00:00+01:00", "10:00:00-05:00", "36000"},
		{Time, "00:30:00+01:00", true, "00:30:00+01:00", "00:30:00+01:00", "00:30:00+01:00", "84600"},
		{Date, "2026-01-02", false, "2026-01-02Z", "2026-01-02+01:00", "2026-01-02-05:00", "0"},
		{Date, "2026-01-02Z", true, "2026-01-02Z", "2026-01-02Z", "2026-01-02Z", "0"},
		{DateTime, "2026-01-02T10:00:00.5", false, "2026-01-02T10:00:00.5Z", "2026-01-02T10:00:00.5+01:00", "2026-01-02T10:00:00.5-05:00", "36000"},
		{Integer, "5", false, "5", "5", "5", "5"},
		{String, "text", false, "text", "text", "text", "0"},
		{DayTimeDuration, "PT1S", false, "PT1S", "PT1S", "PT1S", "1"},
	} {
		v, err := Parse(c.typ, c.text)
		if err != nil {
			t.Fatal(err)
		}
		for what, x := range map[string][2]string{"in UTC": {v.InZone(nil).Text(), c.inUTC}, "in time.UTC": {v.InZone(time.UTC).Text(), c.inUTC}, "in Berlin": {v.InZone(berlin).Text(), c.inBerlin}, "in that of another": {v.InZoneOf(other).Text(), c.inOther},
			"in that of one without": {v.InZoneOf(NewInteger(1)).Text(), c.text}} {
			if x[0] != x[1] {
				t.Errorf("%s %s: %s, want %s", c.text, what, x[0], x[1])
			}
		}
		if v.HasZone() != c.has {
			t.Errorf("%s: a zone %v, want %v", c.text, !c.has, c.has)
		}
		if seconds, _ := v.SecondOfDay(); (c.typ == Time || c.typ == DateTime) && fmt.Sprint(seconds) != c.at {
			t.Errorf("%s: second %d, want %s", c.text, seconds, c.at)
		}
	}
}
