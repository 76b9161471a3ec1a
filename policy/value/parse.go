package value

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/tool/quote"
)

// Parse returns the value with a lexical form. White space around the form is
// removed and runs of it become one space, except in a string, where white space
// counts (XML Schema part 2, section 4.3.6). Parse fails if text is not a value
// of the type. The error is for people: it names the text and what was expected.
//
// An xpathExpression is not only a text: see [NewXPath].
func Parse(t Type, text string) (Value, error) {
	if t == String {
		return NewString(text), nil
	}
	if int(t) >= len(parsers) || parsers[t] == nil {
		return Value{}, fmt.Errorf("a %s cannot be read from text alone", typeName(t))
	}
	text = collapse(text)
	v, err := parsers[t](text)
	if err != nil {
		return Value{}, fmt.Errorf("invalid %s %s: %w", t, Quote(text), err)
	}
	v.typ = t
	v.text = text
	return v, nil
}

func typeName(t Type) string {
	if name := t.String(); name != "" {
		return name
	}
	return "value of an unknown type"
}

// parsers are the parsers of the types, by type. Parse sets type and text of
// what they return. Their errors begin with what was expected.
var parsers = [...]func(text string) (Value, error){
	Boolean: parseBoolean, Integer: parseInteger, Double: parseDouble,
	Time: parseTime, Date: parseDate, DateTime: parseDateTime,
	AnyURI: parseAnyURI, HexBinary: parseHex, Base64Binary: parseBase64,
	DayTimeDuration: parseDayTime, YearMonthDuration: parseYearMonth,
	X500Name: parseX500, RFC822Name: parseRFC822, IPAddress: parseIPAddress, DNSName: parseDNSName,
}

func parseBoolean(text string) (Value, error) {
	switch text {
	case "true", "1":
		return NewBoolean(true), nil
	case "false", "0":
		return NewBoolean(false), nil
	}
	return Value{}, fmt.Errorf("expected true, false, 1 or 0")
}

// parseAnyURI accepts any text: XML Schema lets an anyURI be any characters,
// because a processor escapes those that a URI cannot have.
func parseAnyURI(text string) (Value, error) {
	if !utf8.ValidString(text) {
		return Value{}, fmt.Errorf("expected valid UTF-8")
	}
	return Value{}, nil
}

// collapse replaces white space as XML Schema's whiteSpace=collapse does. It
// returns text itself if there is nothing to replace.
func collapse(text string) string {
	if !mustCollapse(text) {
		return text
	}
	return strings.Join(strings.FieldsFunc(text, isSpace), " ")
}

func mustCollapse(text string) bool {
	before := true
	for i := range len(text) {
		space := text[i] == ' '
		if space && before || text[i] == '\t' || text[i] == '\n' || text[i] == '\r' {
			return true
		}
		before = space
	}
	return before && text != ""
}

// isSpace reports whether r is white space of XML.
func isSpace(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }

// quotedMax is the number of bytes of a text that an error shows.
const quotedMax = 80

// Quote returns text in quotes for an error, cut after 80 bytes.
func Quote(text string) string {
	if len(text) <= quotedMax {
		return strconv.Quote(text)
	}
	return strconv.Quote(quote.Start(text, quotedMax)) + "..."
}
