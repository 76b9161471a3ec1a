package value

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"testing/quick"
	"time"
)

// TestEqualAndKey shows that equal values have equal keys, and no others.
func TestEqualAndKey(t *testing.T) {
	t.Parallel()
	var all []Value
	for typ, texts := range map[Type][]string{
		String: {"a", "A", "1", "true", "2002-09-24", "a@b", ""}, AnyURI: {"a", "A", ""}, Boolean: {"true", "1", "0"},
		Integer: {"1", "01", "0", "-0", "-1", "9223372036854775808", "09223372036854775808", "-9223372036854775809", "18446744073709551617"},
		Double:  {"1", "1.0", "0", "-0", "NaN", "INF", "-INF", "4.9E-324"},
		Time:    {"10:00:00", "10:00:00Z", "12:00:00+02:00", "10:00:00.5", "10:00:00.50Z", "24:00:00", "00:00:00"},
		Date:    {"2002-09-24", "2002-09-24Z", "2002-09-24+13:00", "2002-09-23-11:00"},
		DateTime: {"2002-09-24T10:00:00", "2002-09-24T12:00:00+02:00", "2002-09-24T10:00:00.1", "2002-09-24T00:00:00",
			"2002-09-23T24:00:00"},
		HexBinary: {"0f", "0F", ""}, Base64Binary: {"Dw==", "aGk=", "a G k =", ""},
		DayTimeDuration: {"PT24H", "P1D", "PT0.5S", "-PT0.5S", "PT0S"}, YearMonthDuration: {"P1Y", "P12M", "P0M"},
		X500Name: {"CN=a", "cn=A", "CN=a,O=b", "CN=a+O=b", "O=b+CN=a", `CN=a\,O\=b`, ""}, RFC822Name: {"a@b", "a@B", "A@b"},
		IPAddress: {"10.0.0.1", "10.0.0.1:", "[::1]"}, DNSName: {"a", "A"},
	} {
		for _, text := range texts {
			v, err := Parse(typ, text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
	}
	for _, x := range []XPath{
		{Category: "a", Path: "b"}, {Category: "ab"}, {Category: "a", Path: "b", Namespaces: map[string]string{"p": "u"}},
		{Category: "a", Path: "b", Namespaces: map[string]string{"p": `uq=v`}}, {Category: "a", Path: "b", Namespaces: map[string]string{"p": `u"q"="v`}}, {Category: "a", Path: "b", Namespaces: map[string]string{"p": "u", "q": "v"}},
	} {
		all = append(all, NewXPath(x))
	}
	zone := time.FixedZone("", 2*60*60)
	equal := 0
	for i, a := range all {
		for j, b := range all {
			for _, in := range []*time.Location{time.UTC, zone, nil} {
				same := a.KeyIn(in) == b.KeyIn(in) && a.KeyIn(in) != (Key{})
				if EqualIn(a, b, in) != same {
					t.Errorf("%s %q and %s %q in %v: Equal %v, equal keys %v", a.Type(), a.Text(), b.Type(), b.Text(), in, !same, same)
				}
				if same && a.Type().HasEquality() && a.offset == b.offset && a.Canonical() != b.Canonical() {
					t.Errorf("%s: %q and %q are equal, but print as %q and %q", a.Type(), a.Text(), b.Text(), a.Canonical(), b.Canonical())
				}
			}
			if i != j && Equal(a, b) {
				equal++
			}
			if c, ok := Compare(a, b, nil); ok && (c == 0) != Equal(a, b) {
				t.Errorf("%s: %q and %q: compared %d, equal %v", a.Type(), a.Text(), b.Text(), c, Equal(a, b))
			}
		}
	}
	if equal < 30 {
		t.Errorf("only %d pairs of equal values", equal)
	}
	if (Value{}).Key() != (Key{}) || Equal(Value{}, Value{}) {
		t.Error("the zero Value equals something")
	}
}

// TestCalendar compares the calendar with package time.
func TestCalendar(t *testing.T) {
	t.Parallel()
	check := func(days int32) bool {
		at := time.Unix(int64(days)*secondsPerDay, 0).UTC()
		year, month, day := civil(int64(days))
		return year == at.Year() && month == int(at.Month()) && day == at.Day() && dayNumber(year, month, day) == int64(days)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
}

// TestInstants shows how a clock becomes a value.
func TestInstants(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 0, 30, 5, 250_000_000, time.FixedZone("", 90*60))
	for _, c := range []struct {
		v          Value
		text, want string
	}{
		{NewDateTime(at), "2026-03-01T00:30:05.25+01:30", "2026-02-28T23:00:05.25Z"},
		{NewTime(at), "00:30:05.25+01:30", "23:00:05.25Z"},
		{NewDate(at), "2026-03-01+01:30", "2026-03-01+01:30"},
		{NewDate(at.In(time.FixedZone("", 13*60*60))), "2026-03-01+13:00", "2026-02-28-11:00"},
		{NewDateTime(time.Date(1800, 1, 1, 0, 0, 0, 0, time.FixedZone("", 1172))), "1799-12-31T23:59:28+00:19", "1799-12-31T23:40:28Z"},
		{NewTime(time.Date(1969, 1, 1, 23, 59, 59, 0, time.UTC)), "23:59:59Z", "23:59:59Z"},
		{NewDate(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)), "-0002-01-01Z", "-0002-01-01Z"},
	} {
		if c.v.Text() != c.text || c.v.Canonical() != c.want {
			t.Errorf("%s: %q and %q, expected %q and %q", c.v.Type(), c.v.Text(), c.v.Canonical(), c.text, c.want)
		}
		again, err := Parse(c.v.Type(), c.want)
		if err != nil || !Equal(again, c.v) && c.v.Type() != Time {
			t.Errorf("%q: %v does not equal the value that it was printed from", c.want, err)
		}
	}
}

// TestZones shows what a time zone with summer time does to values without a
// zone.
func TestZones(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("no time zones: %v", err)
	}
	lisbon, err := time.LoadLocation("Europe/Lisbon")
	if err != nil {
		t.Fatal(err)
	}
	noon, err := Parse(Time, "12:00:00")
	if got := noon.InZone(lisbon).Canonical(); err != nil || got != "12:00:00Z" {
		t.Errorf("noon in Lisbon is %s, %v, expected the offset of 2000-01-01", got, err)
	}
	for _, c := range []struct {
		typ        Type
		text, want string
	}{
		{DateTime, "2026-07-01T12:00:00", "2026-07-01T10:00:00Z"},
		{DateTime, "2026-01-01T12:00:00", "2026-01-01T11:00:00Z"},
		{Date, "2026-07-01", "2026-07-01+02:00"},
		{Time, "12:00:00", "11:00:00Z"},
		{DateTime, "2026-07-01T12:00:00Z", "2026-07-01T12:00:00Z"},
		{Integer, "7", "7"},
	} {
		v, err := Parse(c.typ, c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.InZone(berlin); got.Canonical() != c.want || c.typ != Integer && !got.HasZone() {
			t.Errorf("%s in Berlin is %s, expected %s", c.text, got.Canonical(), c.want)
		}
		want, err := Parse(c.typ, c.want)
		if err != nil || !EqualIn(v, want, berlin) || v.KeyIn(berlin) != want.Key() {
			t.Errorf("%s in Berlin does not equal %s", c.text, c.want)
		}
	}
}

// TestBounds tests each bound at its value and one above.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bound     string
		typ       Type
		at, above string
	}{
		{"integer digits", Integer, "-000" + strings.Repeat("9", IntegerDigitsMax), "-000" + strings.Repeat("9", IntegerDigitsMax+1)},
		{"year digits", Date, strings.Repeat("9", yearDigitsMax) + "-12-31", "1" + strings.Repeat("0", yearDigitsMax) + "-01-01"},
		{"fraction digits", Time, "10:00:00." + strings.Repeat("1", fractionDigitsMax) + "000", "10:00:00." + strings.Repeat("1", fractionDigitsMax+1)},
		{"duration digits", DayTimeDuration, "PT" + strings.Repeat("9", durationDigitsMax) + "H", "PT1" + strings.Repeat("0", durationDigitsMax) + "H"},
		{"duration digits", YearMonthDuration, "P" + strings.Repeat("9", durationDigitsMax) + "Y", "P1" + strings.Repeat("0", durationDigitsMax) + "Y"},
		{"name parts", X500Name, strings.Repeat("CN=a,", namePartsMax-1) + "CN=a", strings.Repeat("CN=a+", namePartsMax) + "CN=a"},
	} {
		if _, err := Parse(c.typ, c.at); err != nil {
			t.Errorf("at the bound %s: %v", c.bound, err)
		}
		if _, err := Parse(c.typ, c.above); err == nil || !strings.Contains(err.Error(), "(bound "+c.bound+")") {
			t.Errorf("above the bound %s: %v", c.bound, err)
		}
	}
}

// TestErrorTexts shows an error: what is wrong, the value, cut, and what is
// expected.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	_, err := Parse(Date, "2002-02-30")
	if want := `invalid date "2002-02-30": expected a valid one, for example 2002-10-10, 2002-10-10Z or 2002-10-10+01:00`; err == nil || err.Error() != want {
		t.Errorf("error %q, expected %q", err, want)
	}
	_, err = Parse(Integer, strings.Repeat("é", 100))
	if want := `invalid integer "` + strings.Repeat("é", 40) + `"...: expected digits, with an optional sign`; err == nil || err.Error() != want {
		t.Errorf("error %q, expected %q", err, want)
	}
	for _, typ := range []Type{0, XPathExpression, 200} {
		if _, err := Parse(typ, "a"); err == nil {
			t.Errorf("type %d: no error", typ)
		}
	}
	if _, err := Parse(AnyURI, "\xff"); err == nil {
		t.Error("an anyURI of invalid UTF-8: no error")
	}
}

// TestTypes shows the names of types.
func TestTypes(t *testing.T) {
	t.Parallel()
	if len(Types()) != 17 {
		t.Errorf("%d types, expected 17", len(Types()))
	}
	for _, typ := range Types() {
		byURI, okURI := ParseType(typ.URI())
		byName, okName := ParseShortType(typ.String())
		if !okURI || !okName || byURI != typ || byName != typ {
			t.Errorf("%s: found as %s and %s", typ.URI(), byURI, byName)
		}
	}
	if typ, ok := ParseType(oldDayTimeDuration); !ok || typ != DayTimeDuration {
		t.Errorf("%s is %s", oldDayTimeDuration, typ)
	}
	for _, name := range []string{"", "string", xs, xs + "String", "urn:oasis:names:tc:xacml:1.0:data-type:dnsName"} {
		if typ, ok := ParseType(name); ok {
			t.Errorf("%q is the type %s", name, typ)
		}
	}
	if typ, ok := ParseShortType("String"); ok || Type(0).String() != "" || Type(99).URI() != "" {
		t.Errorf("String is the type %s", typ)
	}
}

// TestAccessors shows what values of other types return.
func TestAccessors(t *testing.T) {
	t.Parallel()
	huge, _ := new(big.Int).SetString("9223372036854775808", 10)
	i := NewBigInteger(huge)
	if _, ok := i.Int64(); ok || i.BigInt().Cmp(huge) != 0 || i.Text() != huge.String() {
		t.Errorf("big integer: %v", i.Text())
	}
	if n, ok := NewBigInteger(big.NewInt(7)).Int64(); n != 7 || !ok {
		t.Errorf("integer 7: %d, %v", n, ok)
	}
	i.BigInt().SetInt64(1)
	if i.BigInt().Cmp(huge) != 0 {
		t.Error("a caller changed a value")
	}
	s := NewString("true")
	if _, ok := s.Int64(); ok || s.BigInt() != nil || s.Bool() || s.Double() != 0 || s.Bytes() != nil || s.HasZone() {
		t.Error("a string has a value of another type")
	}
	if _, ok := s.XPath(); ok {
		t.Error("a string is an xpathExpression")
	}
	x, ok := NewXPath(XPath{Category: "c", Path: "/a"}).XPath()
	if !ok || x.Category != "c" || x.Path != "/a" {
		t.Errorf("XPath: %v", x)
	}
	hex, err := Parse(HexBinary, "0fb7")
	if err != nil || string(hex.Bytes()) != "\x0f\xb7" {
		t.Errorf("bytes %x, %v", hex.Bytes(), err)
	}
	if _, err := s.AddDuration(NewDayTimeDuration(1, 0), false); err == nil {
		t.Error("a duration was added to a string")
	}
	if s.IsTailOf(s) || s.MatchesMail("true") {
		t.Error("a string is a name")
	}
	if !math.IsNaN(NewDouble(math.NaN()).Double()) || !NewBoolean(true).Bool() || NewAnyURI("u").Type() != AnyURI {
		t.Error("a constructor lost its value")
	}
}

// TestHotComparisons shows that the comparisons of most decisions allocate
// nothing.
func TestHotComparisons(t *testing.T) {
	for _, typ := range []Type{String, AnyURI, Integer, Boolean, Date, Time, DateTime} {
		a, b := sample(t, typ), sample(t, typ)
		keys := map[Key]bool{a.Key(): true}
		allocations := testing.AllocsPerRun(100, func() {
			if !Equal(a, b) || !keys[b.Key()] {
				t.Error("not equal")
			}
			if _, ok := Compare(a, b, time.UTC); ok != typ.HasOrder() {
				t.Error("no order")
			}
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations", typ, allocations)
		}
	}
}

func sample(t testing.TB, typ Type) Value {
	t.Helper()
	text := map[Type]string{
		String: "anne@example.com", AnyURI: "https://example.com/document/1", Integer: "12345", Boolean: "true",
		Date: "2026-01-01", Time: "10:00:00", DateTime: "2026-01-01T10:00:00.5Z", X500Name: "CN=Anne,O=Example",
	}[typ]
	v, err := Parse(typ, strings.Clone(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// FuzzParse shows for each type that what a value prints is a value that equals
// it, and that the canonical form is its own canonical form.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		" true ", "-0042", "1.5e-3", "-INF", "24:00:00+14:00", "-0001-02-29-13:59", "2002-10-10T12:00:00.000000001Z", "a b\tc", "0fB7",
		"aGk=", "-P1DT2H3M4.5S", "P14M", `CN="a, b"+OU=\C3\84,O=#0a`, `"a\"b"@[x]`, "10.0.0.1/255.0.0.0:1-2", "[::1]:-80", "*.example.com:80-",
	} {
		for typ := String; typ <= DNSName; typ++ {
			f.Add(uint8(typ), text)
		}
	}
	f.Fuzz(func(t *testing.T, typ uint8, text string) {
		v, err := Parse(Type(typ), text)
		if err != nil {
			return
		}
		if v.Type() != Type(typ) {
			t.Fatalf("%q is a %s, expected a %s", text, v.Type(), Type(typ))
		}
		again, err := Parse(v.Type(), v.Text())
		if err != nil || again.Text() != v.Text() {
			t.Fatalf("%s %q: text %q, read again %q, %v", v.Type(), text, v.Text(), again.Text(), err)
		}
		canonical, err := Parse(v.Type(), v.Canonical())
		if err != nil || canonical.Canonical() != v.Canonical() {
			t.Fatalf("%s %q: canonical form %q, read again %q, %v", v.Type(), text, v.Canonical(), canonical.Canonical(), err)
		}
		same := Equal(v, canonical)
		switch v.Type() {
		case IPAddress, DNSName: // equal if their texts are
			same = true
		case Double:
			same = same || math.IsNaN(v.Double())
		case Time: // the canonical form forgets the day, which matters for the order
			same = sameClock(v, canonical)
		}
		if !same {
			t.Fatalf("%s %q does not equal its canonical form %q", v.Type(), text, v.Canonical())
		}
	})
}

func sameClock(a, b Value) bool {
	x, xNanos := a.SecondOfDay()
	y, yNanos := b.SecondOfDay()
	return x == y && xNanos == yNanos
}

func BenchmarkEqual(b *testing.B) {
	for _, typ := range []Type{String, AnyURI, Integer, Boolean, DateTime, X500Name} {
		b.Run(typ.String(), func(b *testing.B) {
			x, y := sample(b, typ), sample(b, typ)
			b.ReportAllocs()
			for b.Loop() {
				if !Equal(x, y) {
					b.Fatal("not equal")
				}
			}
		})
	}
}

func BenchmarkKey(b *testing.B) {
	for _, typ := range []Type{String, Integer, X500Name} {
		b.Run(typ.String(), func(b *testing.B) {
			x := sample(b, typ)
			keys := map[Key]int{x.Key(): 1}
			b.ReportAllocs()
			for b.Loop() {
				if keys[x.Key()] != 1 {
					b.Fatal("not found")
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, typ := range []Type{String, Integer, DateTime, X500Name} {
		b.Run(typ.String(), func(b *testing.B) {
			text := sample(b, typ).Text()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(typ, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestTimesStayInTheirDay shows that a time to which a duration is added equals
// the one that it prints.
func TestTimesStayInTheirDay(t *testing.T) {
	t.Parallel()
	v, err := Parse(Time, "23:30:00")
	if err != nil {
		t.Fatal(err)
	}
	moved, err := v.AddDuration(NewDayTimeDuration(3600, 0), false)
	if err != nil {
		t.Fatal(err)
	}
	printed, err := Parse(Time, moved.Text())
	if err != nil || !Equal(moved, printed) || moved.Text() != "00:30:00" {
		t.Errorf("%s, %v does not equal what it prints", moved.Text(), err)
	}
}

// TestRange shows that date arithmetic fails where years end.
func TestRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		d    Value
	}{
		{"999999999-12-31T23:59:59", NewDayTimeDuration(1, 0)},
		{"-999999999-01-01T00:00:00", NewDayTimeDuration(-1, 0)},
		{"2000-01-01T00:00:00", NewYearMonthDuration(math.MaxInt32 * 13)},
		{"2000-01-01T00:00:00", NewYearMonthDuration(-math.MaxInt32 * 13)},
	} {
		v, err := Parse(DateTime, c.text)
		if err != nil {
			t.Fatal(err)
		}
		if moved, err := v.AddDuration(c.d, false); !errors.Is(err, errRange) {
			t.Errorf("%s plus %s is %s, %v, expected an error", c.text, c.d.Text(), moved.Text(), err)
		}
		if _, err := v.AddDuration(c.d, true); c.d.Type() == DayTimeDuration && err != nil {
			t.Errorf("%s minus %s: %v", c.text, c.d.Text(), err)
		}
	}
}
