package value

import (
	"cmp"
	"math"
	"strings"
	"time"
)

// Key identifies a value in a map or an index. It is comparable with ==. The zero
// Key belongs to no value.
type Key struct {
	text   string
	number int64
	nanos  int32
	typ    Type
}

// Key returns the key of the value: two values of a type with an equality have
// the same key if and only if they are [Equal]. Values of the types without an
// equality have the same key if their texts are the same; an xpathExpression
// counts category and namespaces as text.
//
// A date or time without a zone has the key of the same one in UTC; see
// [Value.KeyIn].
func (v Value) Key() Key { return v.KeyIn(time.UTC) }

// KeyIn is like [Value.Key], but a date or time without a zone is one of the
// given zone (nil means UTC), so that keys agree with [EqualIn].
func (v Value) KeyIn(zone *time.Location) Key {
	switch v.typ {
	case String, AnyURI:
		return Key{typ: v.typ, text: v.text}
	case Integer:
		if v.more != nil {
			return Key{typ: Integer, text: v.more.integer.String()}
		}
	case Double:
		return doubleKey(v.Double())
	case Time, Date, DateTime:
		return Key{typ: v.typ, number: v.instant(zone), nanos: v.nanos}
	case HexBinary, Base64Binary, X500Name, RFC822Name, XPathExpression:
		return Key{typ: v.typ, text: v.more.canonical}
	case IPAddress, DNSName:
		return Key{typ: v.typ, text: v.text}
	}
	return Key{typ: v.typ, number: v.number, nanos: v.nanos}
}

func doubleKey(f float64) Key {
	switch {
	case math.IsNaN(f):
		f = math.NaN() // there are several
	case f == 0:
		f = 0 // -0 equals 0
	}
	return Key{typ: Double, number: int64(math.Float64bits(f))}
}

// Equal reports whether two values are equal as XACML's type-equal function
// defines it (appendix A.3.1). Values of different types are not equal. The
// types without such a function (ipAddress, dnsName, xpathExpression) are equal
// if their texts are. NaN equals NaN, as the conformance data of XACML 3.0
// demand. A date or time without a zone is one of UTC; see [EqualIn].
func Equal(a, b Value) bool { return EqualIn(a, b, time.UTC) }

// EqualIn is like [Equal], but a date or time without a zone is one of the given
// zone. Nil means UTC.
func EqualIn(a, b Value, zone *time.Location) bool {
	if a.typ != b.typ {
		return false
	}
	switch a.typ {
	case String, AnyURI, IPAddress, DNSName:
		return a.text == b.text
	case Integer:
		return a.number == b.number && (a.more == nil) == (b.more == nil) &&
			(a.more == nil || a.more.integer.Cmp(b.more.integer) == 0)
	case Double:
		x, y := a.Double(), b.Double()
		return x == y || math.IsNaN(x) && math.IsNaN(y)
	case Time, Date, DateTime:
		return a.nanos == b.nanos && a.instant(zone) == b.instant(zone)
	case HexBinary, Base64Binary, X500Name, RFC822Name, XPathExpression:
		return a.more.canonical == b.more.canonical
	}
	return a.number == b.number && a.nanos == b.nanos && a.typ != 0
}

// Compare returns -1, 0 or 1 if a is less than, equal to or greater than b. The
// second result is false if they have no order: their types differ, the type has
// no order ([Type.HasOrder]), or one of them is NaN. Strings are compared by code
// point. A date or time without a zone is in the given zone; nil means UTC.
func Compare(a, b Value, zone *time.Location) (int, bool) {
	if a.typ != b.typ {
		return 0, false
	}
	switch a.typ {
	case String:
		return strings.Compare(a.text, b.text), true
	case Integer:
		if a.more == nil && b.more == nil {
			return cmp.Compare(a.number, b.number), true
		}
		return a.BigInt().Cmp(b.BigInt()), true
	case Double:
		x, y := a.Double(), b.Double()
		return cmp.Compare(x, y), !math.IsNaN(x) && !math.IsNaN(y)
	case Time, Date, DateTime:
		return cmp.Or(cmp.Compare(a.instant(zone), b.instant(zone)), cmp.Compare(a.nanos, b.nanos)), true
	}
	return 0, false
}
