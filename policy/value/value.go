// Package value implements the data types of XACML 3.0 (appendix B.3): it
// parses, prints and compares values. Its main type is [Value]. Functions on
// values are in package function. The package never evaluates a policy.
package value

import "strings"

// Type is a data type. The zero Type is invalid.
type Type uint8

// The data types of XACML 3.0.
const (
	String Type = iota + 1
	Boolean
	Integer
	Double
	Time
	Date
	DateTime
	AnyURI
	HexBinary
	Base64Binary
	DayTimeDuration
	YearMonthDuration
	X500Name
	RFC822Name
	IPAddress
	DNSName
	XPathExpression
)

const (
	xs    = "http://www.w3.org/2001/XMLSchema#"
	xacml = "urn:oasis:names:tc:xacml:"
)

// uris are the identifiers of the types, by type.
var uris = [...]string{
	String: xs + "string", Boolean: xs + "boolean", Integer: xs + "integer", Double: xs + "double",
	Time: xs + "time", Date: xs + "date", DateTime: xs + "dateTime", AnyURI: xs + "anyURI",
	HexBinary: xs + "hexBinary", Base64Binary: xs + "base64Binary",
	DayTimeDuration: xs + "dayTimeDuration", YearMonthDuration: xs + "yearMonthDuration",
	X500Name: xacml + "1.0:data-type:x500Name", RFC822Name: xacml + "1.0:data-type:rfc822Name",
	IPAddress: xacml + "2.0:data-type:ipAddress", DNSName: xacml + "2.0:data-type:dnsName",
	XPathExpression: xacml + "3.0:data-type:xpathExpression",
}

// URI returns the identifier of the type, for example
// "http://www.w3.org/2001/XMLSchema#string". It returns "" for an invalid type.
func (t Type) URI() string {
	if int(t) < len(uris) {
		return uris[t]
	}
	return ""
}

// String returns the short name of the type, for example "string" or
// "x500Name". XACML's JSON profile uses these names, too.
func (t Type) String() string {
	u := t.URI()
	return u[strings.LastIndexAny(u, "#:")+1:]
}

// Value is a value of one data type. It is immutable. The zero Value is invalid.
//
// Two values that are equal as text may differ in their lexical form: Text
// returns the form that was parsed.
type Value struct {
	typ  Type
	text string
}

// Type returns the data type.
func (v Value) Type() Type { return v.typ }

// Text returns the lexical form that the value was parsed from, or the
// canonical form of a computed value.
func (v Value) Text() string { return v.text }
