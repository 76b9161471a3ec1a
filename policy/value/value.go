// Package value implements the data types of XACML 3.0 (appendix B.3): it
// parses, prints and compares values. Its main type is [Value]. Functions on
// values are in package function. The package never evaluates a policy.
package value

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// Value is a value of one data type. It is immutable and may be used
// concurrently. The zero Value is invalid. Values must be compared with [Equal]
// or by their keys ([Value.Key]), not with ==.
//
// Two values that are equal may differ in their lexical form: Text returns the
// form that was parsed.
type Value struct {
	// text is the lexical form as it was parsed. It is "" for a computed value of
	// boolean, integer, double, a duration, or a date or time, which prints its
	// canonical form on demand.
	text string
	// number is 0 or 1 for a boolean; an integer, if more is nil; the bits of a
	// double; the seconds since 1970 of the local date and time; the seconds or
	// months of a duration.
	number int64
	// more has what does not fit; nil if nothing is left.
	more *more
	// nanos are the nanoseconds of a date or time (0 to 999,999,999) or of a
	// duration, with the same sign as its seconds.
	nanos int32
	// offset is the time zone of a date or time in minutes east of UTC, or noZone.
	offset int16
	typ    Type
}

// more are the parts of the less frequent types.
type more struct {
	integer *big.Int // an integer beyond int64
	// canonical is the canonical form of x500Name, rfc822Name, ipAddress and
	// dnsName, the octets of hexBinary and base64Binary, and all parts of an
	// xpathExpression.
	canonical string
	names     []string // the canonical RDNs of an x500Name, the most specific first
	domain    int      // the place of the domain in the canonical form of an rfc822Name
	path      XPath    // the value of an xpathExpression
}

// XPath is the value of an xpathExpression: an XPath 1.0 expression that selects
// nodes in the Content of a category.
type XPath struct {
	Category   string            // category whose Content is searched
	Path       string            // XPath 1.0 expression
	Namespaces map[string]string // namespaces by prefix
}

// NewString returns a string.
func NewString(s string) Value { return Value{typ: String, text: s} }

// NewAnyURI returns an anyURI. It does not check that s is one.
func NewAnyURI(s string) Value { return Value{typ: AnyURI, text: s} }

// NewBoolean returns a boolean.
func NewBoolean(b bool) Value {
	if b {
		return Value{typ: Boolean, number: 1}
	}
	return Value{typ: Boolean}
}

// NewInteger returns an integer.
func NewInteger(i int64) Value { return Value{typ: Integer, number: i} }

// NewBigInteger returns an integer of any size. It keeps i, which must not
// change afterwards.
func NewBigInteger(i *big.Int) Value {
	if i.IsInt64() {
		return NewInteger(i.Int64())
	}
	return Value{typ: Integer, more: &more{integer: i}}
}

// NewDouble returns a double.
func NewDouble(f float64) Value { return Value{typ: Double, number: int64(math.Float64bits(f))} }

// NewXPath returns an xpathExpression. It keeps the namespaces, which must not
// change afterwards. It does not check the expression.
func NewXPath(x XPath) Value {
	id := strconv.AppendInt(nil, int64(len(x.Category)), 10)
	id = append(append(id, ':'), x.Category...)
	for _, prefix := range slices.Sorted(maps.Keys(x.Namespaces)) {
		id = fmt.Appendf(id, "%q=%q", prefix, x.Namespaces[prefix])
	}
	id = append(append(id, ':'), x.Path...)
	return Value{typ: XPathExpression, text: x.Path, more: &more{path: x, canonical: string(id)}}
}

// Type returns the data type.
func (v Value) Type() Type { return v.typ }

// Text returns the lexical form that the value was parsed from, with white space
// collapsed where the type demands it, or the canonical form of a computed
// value. A computed date or time is in its own zone. The text of an xpathExpression
// is its path.
func (v Value) Text() string {
	if v.text != "" {
		return v.text
	}
	switch v.typ {
	case Time, Date, DateTime:
		return v.formatLocal()
	}
	return v.Canonical()
}

// Canonical returns the canonical lexical form. Values that are [Equal] have the
// same form if both have a zone or neither has one. The form of a string or a URI
// is its text. A time of day is written in UTC, so its form does not show whether
// the day in UTC is another one; [Compare] uses that day.
func (v Value) Canonical() string {
	switch v.typ {
	case Boolean:
		return strconv.FormatBool(v.number != 0)
	case Integer:
		if v.more != nil {
			return v.more.integer.String()
		}
		return strconv.FormatInt(v.number, 10)
	case Double:
		return formatDouble(v.Double())
	case Time:
		return v.formatTime()
	case Date:
		return v.formatDate()
	case DateTime:
		return v.formatDateTime()
	case DayTimeDuration:
		return formatDayTime(v.number, v.nanos)
	case YearMonthDuration:
		return formatYearMonth(v.number)
	case HexBinary:
		return formatHex(v.more.canonical)
	case Base64Binary:
		return formatBase64(v.more.canonical)
	case X500Name, RFC822Name, IPAddress, DNSName:
		return v.more.canonical
	}
	return v.text
}

// Bool returns the value of a boolean, and false for every other type.
func (v Value) Bool() bool { return v.typ == Boolean && v.number != 0 }

// Int64 returns the value of an integer. The result is false if the integer does
// not fit, and for every other type.
func (v Value) Int64() (int64, bool) {
	return v.number, v.typ == Integer && v.more == nil
}

// BigInt returns the value of an integer as a new big integer, or nil for every
// other type.
func (v Value) BigInt() *big.Int {
	switch {
	case v.typ != Integer:
		return nil
	case v.more != nil:
		return new(big.Int).Set(v.more.integer)
	}
	return big.NewInt(v.number)
}

// Double returns the value of a double, and 0 for every other type.
func (v Value) Double() float64 {
	if v.typ != Double {
		return 0
	}
	return math.Float64frombits(uint64(v.number))
}

// Bytes returns the octets of a hexBinary or base64Binary, and nil for every
// other type.
func (v Value) Bytes() []byte {
	if v.typ != HexBinary && v.typ != Base64Binary {
		return nil
	}
	return []byte(v.more.canonical)
}

// XPath returns the value of an xpathExpression, and false for every other type.
func (v Value) XPath() (XPath, bool) {
	if v.typ != XPathExpression {
		return XPath{}, false
	}
	return v.more.path, true
}
