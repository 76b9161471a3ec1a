package value

import (
	"math"
	"strings"
	"testing"
)

// TestForms lists texts with their canonical form; "" means that the text is
// not a value of the type.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ             Type
		text, canonical string
	}{
		{Boolean, "true", "true"}, {Boolean, " 1 ", "true"}, {Boolean, "0", "false"}, {Boolean, "True", ""}, {Boolean, "", ""},
		{Integer, "+5", "5"}, {Integer, "007", "7"}, {Integer, " 7", "7"}, {Integer, "7 ", "7"}, {AnyURI, "a  b", "a b"}, {Integer, "-0", "0"}, {Integer, "\n 12\t", "12"},
		{Integer, "9223372036854775807", "9223372036854775807"}, {Integer, "9223372036854775808", "9223372036854775808"},
		{Integer, "-9223372036854775808", "-9223372036854775808"}, {Integer, "-009223372036854775809", "-9223372036854775809"},
		{Integer, "", ""}, {Integer, "+", ""}, {Integer, "1.0", ""}, {Integer, "1 2", ""}, {Integer, "0x1", ""}, {Integer, "1_0", ""},
		{Double, "1", "1.0E0"}, {Double, "-.5e1", "-5.0E0"}, {Double, "12345.678", "1.2345678E4"}, {Double, "1.", "1.0E0"},
		{Double, "INF", "INF"}, {Double, "-INF", "-INF"}, {Double, "NaN", "NaN"}, {Double, "1e400", "INF"}, {Double, "1e-400", "0.0E0"},
		{Double, "-0", "0.0E0"}, {Double, "+INF", ""}, {Double, "Infinity", ""}, {Double, "0x1p3", ""}, {Double, ".", ""}, {Double, "1e", ""}, {Double, "1_0", ""},
		{Time, "09:30:10", "09:30:10"}, {Time, "09:30:10.500Z", "09:30:10.5Z"}, {Time, "09:30:10+01:00", "08:30:10Z"}, {Time, "00:30:00+01:00", "23:30:00Z"},
		{Time, "24:00:00", "00:00:00"}, {Time, "24:00:01", ""}, {Time, "24:01:00", ""}, {Time, "24:00:00.5", ""}, {Time, "24:00:00.0", "00:00:00"}, {Time, "25:00:00", ""}, {Time, "9:30:10", ""}, {Time, "09:30:60", ""}, {Time, "09:30:10+14:00", "19:30:10Z"},
		{Time, "09:30:10+14:01", ""}, {Time, "09:30:10-14:00", "23:30:10Z"}, {Time, "09:30:10.", ""}, {Time, "09:30:10.1234567890", "09:30:10.123456789"},
		{Time, "09:30:10.1234567891", ""}, {Time, "09:30:10z", ""},
		{Date, "2002-10-10", "2002-10-10"}, {Date, "2002-10-10+13:00", "2002-10-09-11:00"}, {Date, "2002-10-10Z", "2002-10-10Z"}, {Date, "2002-10-10+12:00", "2002-10-10+12:00"}, {Date, "2002-10-10-11:59", "2002-10-10-11:59"}, {Date, "2002-10-10+12:01", "2002-10-09-11:59"},
		{Date, "2002-10-10+00:00", "2002-10-10Z"}, {Date, "2002-10-10-12:00", "2002-10-11+12:00"}, {Date, "2002-10-10-05:00", "2002-10-10-05:00"},
		{Date, "2000-02-29", "2000-02-29"}, {Date, "1900-02-29", ""}, {Date, "2001-02-29", ""}, {Date, "2001-13-01", ""}, {Date, "2001-00-01", ""},
		{Date, "0000-01-01", ""}, {Date, "-0001-02-29", "-0001-02-29"}, {Date, "-0004-01-01", "-0004-01-01"}, {Date, "12345-01-01", "12345-01-01"}, {Date, "02001-01-01", ""},
		{Date, "201-01-01", ""}, {Date, "999999999-12-31", "999999999-12-31"}, {Date, "1000000000-01-01", ""}, {Date, "2001-01-1", ""}, {Date, "", ""}, {Date, "-", ""},
		{DateTime, "2002-10-10T12:00:00-05:00", "2002-10-10T17:00:00Z"}, {DateTime, "2002-10-10T24:00:00", "2002-10-11T00:00:00"},
		{DateTime, "2002-12-31T23:59:59.999999999-14:00", "2003-01-01T13:59:59.999999999Z"}, {DateTime, "2002-10-10 12:00:00", ""}, {DateTime, "2002-10-10T", ""},
		{DateTime, "2002-10-10", ""}, {DateTime, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"},
		{AnyURI, " http://a/b ", "http://a/b"}, {AnyURI, "", ""},
		{HexBinary, "0fb7", "0FB7"}, {HexBinary, "0fb", ""}, {HexBinary, "0g", ""},
		{Base64Binary, "aGk=", "aGk="}, {Base64Binary, "a G\nk =", "aGk="}, {Base64Binary, "aGk", ""}, {Base64Binary, "aGl=", ""},
		{DayTimeDuration, "P1DT2H", "P1DT2H"}, {DayTimeDuration, "-PT36H", "-P1DT12H"}, {DayTimeDuration, "PT0S", "PT0S"}, {DayTimeDuration, "-P0D", "PT0S"},
		{DayTimeDuration, "PT1.50S", "PT1.5S"}, {DayTimeDuration, "-PT0.5S", "-PT0.5S"}, {DayTimeDuration, "PT90S", "PT1M30S"}, {DayTimeDuration, "P1Y", ""},
		{DayTimeDuration, "P", ""}, {DayTimeDuration, "PT", ""}, {DayTimeDuration, "P1DT", ""}, {DayTimeDuration, "PT1M1H", ""}, {DayTimeDuration, "PT.5S", ""},
		{DayTimeDuration, "PT1.S", ""}, {DayTimeDuration, "PT1.5M", ""}, {DayTimeDuration, "+P1D", ""}, {DayTimeDuration, "P1", ""}, {DayTimeDuration, "1D", ""},
		{DayTimeDuration, "P999999999999D", "P999999999999D"}, {DayTimeDuration, "P1000000000000D", ""}, {DayTimeDuration, "P0000000000001D", "P1D"},
		{YearMonthDuration, "P1Y2M", "P1Y2M"}, {YearMonthDuration, "P14M", "P1Y2M"}, {YearMonthDuration, "-P13M", "-P1Y1M"}, {YearMonthDuration, "P0Y", "P0M"},
		{YearMonthDuration, "P1M1Y", ""}, {YearMonthDuration, "P1D", ""}, {YearMonthDuration, "P", ""}, {YearMonthDuration, "-", ""}, {YearMonthDuration, "", ""},
		{X500Name, "CN=Anne  Smith, O = Example,C=GB", "cn=anne smith,o=example,c=gb"}, {X500Name, "2.5.4.3=A", "cn=a"}, {X500Name, "OID.2.5.4.10=A", "o=a"},
		{X500Name, "OU=b+CN=a,O=x", "cn=a+ou=b,o=x"}, {X500Name, `CN=Smith\, Anne`, `cn=smith\, anne`}, {X500Name, `CN="Smith, Anne"`, `cn=smith\, anne`},
		{X500Name, `CN=\C3\84rger`, "cn=ärger"}, {X500Name, "CN=#04024869", "cn=#04024869"}, {X500Name, "CN=a;O=b", "cn=a,o=b"}, {X500Name, `CN= a\ ,O=b`, "cn=a,o=b"}, {X500Name, `CN=a\+b\\`, `cn=a\+b\\`}, {X500Name, `CN=\#1`, `cn=\#1`},
		{X500Name, "CN", ""}, {X500Name, "CN=a,", ""}, {X500Name, "=a", ""}, {X500Name, `CN="a`, ""}, {X500Name, `CN=\z1`, ""}, {X500Name, "CN=a,,O=b", ""}, {X500Name, "CN=<", ""},
		{RFC822Name, "Anne.Smith@EXAMPLE.com", "Anne.Smith@example.com"}, {RFC822Name, `"a b"@x.org`, `"a b"@x.org`}, {RFC822Name, "a@[10.0.0.1]", "a@[10.0.0.1]"},
		{RFC822Name, `"a@b"@X`, `"a@b"@x`}, {RFC822Name, `"a\"@x`, ""}, {RFC822Name, `"a"b"@x`, ""}, {RFC822Name, "anne", ""}, {RFC822Name, "@x", ""}, {RFC822Name, "a@", ""}, {RFC822Name, "a@b@c", ""}, {RFC822Name, "a b@c", ""}, {RFC822Name, "a@.c", ""}, {RFC822Name, "a..b@c", ""},
		{IPAddress, "10.1.2.3", "10.1.2.3"}, {IPAddress, "10.1.2.3/255.0.255.0:80-90", "10.1.2.3/255.0.255.0:80-90"}, {IPAddress, "10.1.2.3:-80", "10.1.2.3:-80"},
		{IPAddress, "10.1.2.3:80-", "10.1.2.3:80-"}, {IPAddress, "10.1.2.3:", "10.1.2.3"}, {DNSName, "a:", ""}, {IPAddress, "[2001:DB8::0]:443", "[2001:db8::]:443"}, {IPAddress, "[::1]/[ffff::]", "[::1]/[ffff::]"},
		{IPAddress, "::1", ""}, {IPAddress, "10.1.2", ""}, {IPAddress, "10.1.2.256", ""}, {IPAddress, "10.1.2.3:65536", ""}, {IPAddress, "10.1.2.3:9-8", ""}, {IPAddress, "10.1.2.3:-", ""},
		{IPAddress, "[::1%eth0]", ""}, {IPAddress, "[10.1.2.3]", ""}, {IPAddress, "10.1.2.3/[::]", ""}, {IPAddress, "[::1", ""}, {IPAddress, "", ""},
		{DNSName, "Example.COM:80", "example.com:80"}, {DNSName, "*.example.com", "*.example.com"}, {DNSName, "a.*.com", ""}, {DNSName, "a..b", ""}, {DNSName, strings.Repeat("a", 63) + ".b", strings.Repeat("a", 63) + ".b"}, {DNSName, strings.Repeat("a", 64) + ".b", ""}, {DNSName, strings.Repeat("a.", 127) + "b", ""}, {DNSName, strings.Repeat("a.", 126) + "b", strings.Repeat("a.", 126) + "b"}, {DNSName, "a.", "a."}, {DNSName, "-a.b", ""},
		{DNSName, "a:0-65535", "a:0-65535"}, {DNSName, "a:x", ""}, {DNSName, "", ""}, {DNSName, "a b", ""}, {DNSName, "é.fr", ""},
		{XPathExpression, "/a", ""},
	} {
		v, err := Parse(c.typ, c.text)
		switch {
		case err != nil && (c.canonical != "" || c.typ == AnyURI):
			t.Errorf("%s %q: %v", c.typ, c.text, err)
		case err == nil && v.Canonical() != c.canonical:
			t.Errorf("%s %q: %q, expected %q", c.typ, c.text, v.Canonical(), c.canonical)
		case err == nil && v.Type() != c.typ:
			t.Errorf("%s %q has type %s", c.typ, c.text, v.Type())
		}
	}
}

// TestNaNEqualsNaN is what the conformance data demand of double-equal, against
// the arithmetic of floating point.
func TestNaNEqualsNaN(t *testing.T) {
	t.Parallel()
	nan, other := NewDouble(math.NaN()), NewDouble(math.Float64frombits(math.Float64bits(math.NaN())^1))
	if !Equal(nan, other) || nan.Key() != other.Key() || Equal(nan, NewDouble(0)) {
		t.Errorf("NaN: equal %t, keys %v and %v", Equal(nan, other), nan.Key(), other.Key())
	}
	if minus, zero := NewDouble(math.Copysign(0, -1)), NewDouble(0); !Equal(minus, zero) || minus.Key() != zero.Key() {
		t.Errorf("-0 and 0: keys %v and %v", minus.Key(), zero.Key())
	}
}
