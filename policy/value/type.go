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

// The identifiers that XACML 1.0 and 2.0 gave to the durations.
const (
	oldDayTimeDuration   = "http://www.w3.org/TR/2002/WD-xquery-operators-20020816#dayTimeDuration"
	oldYearMonthDuration = "http://www.w3.org/TR/2002/WD-xquery-operators-20020816#yearMonthDuration"
)

// typeByURI and typeByName find types by identifier and by short name.
var typeByURI, typeByName = indexTypes()

func indexTypes() (byURI, byName map[string]Type) {
	byURI = map[string]Type{oldDayTimeDuration: DayTimeDuration, oldYearMonthDuration: YearMonthDuration}
	byName = map[string]Type{}
	for _, t := range Types() {
		byURI[t.URI()] = t
		byName[t.String()] = t
	}
	return byURI, byName
}

// Types returns all data types.
func Types() []Type {
	all := make([]Type, 0, len(uris)-1)
	for t := String; t <= XPathExpression; t++ {
		all = append(all, t)
	}
	return all
}

// ParseType returns the type with an identifier, for example
// "http://www.w3.org/2001/XMLSchema#string". It also accepts the identifiers
// that XACML 1.0 and 2.0 gave to the durations. It returns false for an unknown
// identifier.
func ParseType(uri string) (Type, bool) {
	t, ok := typeByURI[uri]
	return t, ok
}

// ParseShortType returns the type with a short name, for example "integer" or
// "x500Name" (JSON profile of XACML 3.0, section 3.3.1). It returns false for an
// unknown name.
func ParseShortType(name string) (Type, bool) {
	t, ok := typeByName[name]
	return t, ok
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
// "x500Name". XACML's JSON profile uses these names, too. It returns "" for an
// invalid type.
func (t Type) String() string {
	u := t.URI()
	return u[strings.LastIndexAny(u, "#:")+1:]
}

// HasEquality reports whether XACML defines a type-equal function for the type,
// and with it the set functions. The types without are ipAddress, dnsName and
// xpathExpression.
func (t Type) HasEquality() bool { return t >= String && t <= RFC822Name }

// HasOrder reports whether XACML defines functions such as type-greater-than for
// the type.
func (t Type) HasOrder() bool {
	return t == String || t == Integer || t == Double || t == Time || t == Date || t == DateTime
}
