package value

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// namePartsMax is the bound "name parts": the number of attributes of an
// x500Name.
const namePartsMax = 256

var errX500 = errors.New("expected an RFC 2253 name, for example CN=Anne Smith,O=Example,C=GB")

// attributeKeywords are the object identifiers of attributes with a keyword (RFC
// 2253, section 2.3, and keywords that are in use).
var attributeKeywords = map[string]string{
	"2.5.4.3": "cn", "2.5.4.4": "sn", "2.5.4.5": "serialnumber", "2.5.4.6": "c", "2.5.4.7": "l",
	"2.5.4.8": "st", "2.5.4.9": "street", "2.5.4.10": "o", "2.5.4.11": "ou", "2.5.4.12": "t",
	"2.5.4.42": "givenname", "2.5.4.43": "initials", "2.5.4.44": "generationqualifier",
	"2.5.4.46": "dnqualifier", "0.9.2342.19200300.100.1.25": "dc",
	"0.9.2342.19200300.100.1.1": "uid", "1.2.840.113549.1.9.1": "emailaddress",
}

// parseX500 reads a distinguished name of RFC 2253. Its canonical form has
// keywords and values in lower case, single inner spaces, and the attributes of
// a multi-valued RDN sorted.
func parseX500(text string) (Value, error) {
	var names []string
	s := dnScanner{rest: text}
	for parts := 0; text != ""; {
		var rdn []string
		for {
			if parts++; parts > namePartsMax {
				return Value{}, fmt.Errorf("expected at most %d attributes (bound name parts)", namePartsMax)
			}
			attribute, err := s.attribute()
			if err != nil {
				return Value{}, err
			}
			rdn = append(rdn, attribute)
			if !s.skip("+") {
				break
			}
		}
		slices.Sort(rdn)
		names = append(names, strings.Join(slices.Compact(rdn), "+"))
		if s.rest == "" {
			break
		}
		if !s.skip(",;") {
			return Value{}, errX500
		}
	}
	return Value{more: &more{canonical: strings.Join(names, ","), names: names}}, nil
}

// IsTailOf reports whether the RDNs of x are the last ones of name, both
// x500Names: "O=Example,C=GB" is a tail of "CN=Anne,O=Example,C=GB". A name is a
// tail of itself (XACML 3.0, appendix A.3.14, x500Name-match).
func (v Value) IsTailOf(name Value) bool {
	if v.typ != X500Name || name.typ != X500Name {
		return false
	}
	less := len(name.more.names) - len(v.more.names)
	return less >= 0 && slices.Equal(name.more.names[less:], v.more.names)
}

// dnScanner reads a distinguished name.
type dnScanner struct {
	rest string
}

// skip reads one of the characters, with the spaces around it.
func (s *dnScanner) skip(chars string) bool {
	rest := strings.TrimLeft(s.rest, " ")
	if rest == "" || !strings.Contains(chars, rest[:1]) {
		return false
	}
	s.rest = strings.TrimLeft(rest[1:], " ")
	return true
}

// attribute reads "type=value" and returns its canonical form.
func (s *dnScanner) attribute() (string, error) {
	key, rest, ok := strings.Cut(s.rest, "=")
	key = strings.ToLower(strings.Trim(key, " "))
	key = strings.TrimPrefix(key, "oid.")
	if !ok || !isAttributeType(key) {
		return "", errX500
	}
	if keyword, known := attributeKeywords[key]; known {
		key = keyword
	}
	s.rest = strings.TrimLeft(rest, " ")
	value, err := s.value()
	if err != nil {
		return "", err
	}
	return key + "=" + value, nil
}

// isAttributeType reports whether key, in lower case, is a keyword or an object
// identifier.
func isAttributeType(key string) bool {
	for i := range len(key) {
		c := key[i]
		letter := c >= 'a' && c <= 'z'
		digit := c >= '0' && c <= '9'
		if !letter && !digit && (i == 0 || c != '-' && c != '.') {
			return false
		}
	}
	return key != ""
}

// value reads a value in any of its three forms and returns it in canonical form.
func (s *dnScanner) value() (string, error) {
	if s.rest != "" {
		switch s.rest[0] {
		case '#':
			return s.hexValue()
		case '"':
			return s.quotedValue()
		}
	}
	var b strings.Builder
	for s.rest != "" && !strings.ContainsAny(s.rest[:1], ",;+") {
		switch c := s.rest[0]; c {
		case '\\':
			if err := s.escape(&b); err != nil {
				return "", err
			}
		case '"', '<', '>':
			return "", errX500
		default:
			b.WriteByte(c)
			s.rest = s.rest[1:]
		}
	}
	return canonicalName(b.String()), nil
}

// hexValue reads "#" and pairs of hexadecimal digits: the encoding of a value
// that has no text form.
func (s *dnScanner) hexValue() (string, error) {
	rest := strings.TrimLeft(s.rest[1:], "0123456789abcdefABCDEF")
	digits := s.rest[1 : len(s.rest)-len(rest)]
	if digits == "" || len(digits)%2 != 0 {
		return "", errX500
	}
	s.rest = rest
	return "#" + strings.ToLower(digits), nil
}

// quotedValue reads a value in quotes (RFC 2253, section 4, as LDAPv2 wrote it).
func (s *dnScanner) quotedValue() (string, error) {
	var b strings.Builder
	for s.rest = s.rest[1:]; s.rest != ""; {
		switch c := s.rest[0]; c {
		case '"':
			s.rest = s.rest[1:]
			return canonicalName(b.String()), nil
		case '\\':
			if err := s.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
			s.rest = s.rest[1:]
		}
	}
	return "", errX500
}

// escape reads a backslash with a special character or with two hexadecimal
// digits, which are one byte of UTF-8.
func (s *dnScanner) escape(b *strings.Builder) error {
	if len(s.rest) >= 2 && strings.ContainsAny(s.rest[1:2], `,=+<>#;\" `) {
		b.WriteByte(s.rest[1])
		s.rest = s.rest[2:]
		return nil
	}
	if len(s.rest) < 3 {
		return errX500
	}
	octet, err := hex.DecodeString(s.rest[1:3])
	if err != nil {
		return errX500
	}
	b.WriteByte(octet[0])
	s.rest = s.rest[3:]
	return nil
}

// canonicalName returns a value in lower case, with single spaces inside and none
// around it, and with what RFC 2253 demands to be escaped.
func canonicalName(text string) string {
	text = strings.Join(strings.Fields(strings.Map(fold, text)), " ")
	var b strings.Builder
	for i, r := range text {
		if strings.ContainsRune(`,+"\<>;`, r) || r == '#' && i == 0 {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// fold returns the form of a character that all its cases share.
func fold(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }
