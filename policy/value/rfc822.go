package value

import (
	"errors"
	"strings"
	"unicode"
)

var errRFC822 = errors.New("expected a mail address, for example anne.smith@example.com")

// parseRFC822 reads a mail address of RFC 822. Its canonical form has the domain
// in lower case; the case of the local part counts.
func parseRFC822(text string) (Value, error) {
	at := strings.LastIndexByte(text, '@')
	if at <= 0 || !isLocalPart(text[:at]) || !isDomain(text[at+1:]) {
		return Value{}, errRFC822
	}
	return Value{more: &more{
		canonical: text[:at+1] + strings.ToLower(text[at+1:]),
		domain:    at + 1,
	}}, nil
}

// isLocalPart reports whether text is a quoted string, or words with dots
// between them.
func isLocalPart(text string) bool {
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		return isQuotedText(text[1 : len(text)-1])
	}
	for word := range strings.SplitSeq(text, ".") {
		if word == "" || strings.ContainsFunc(word, isSpecial) {
			return false
		}
	}
	return true
}

// isSpecial reports whether a character needs quotes in an address (RFC 822,
// section 3.3).
func isSpecial(r rune) bool {
	return strings.ContainsRune(`()<>@,;:\".[]`, r) || unicode.IsSpace(r) || unicode.IsControl(r)
}

// isQuotedText reports whether the quotes in text are escaped.
func isQuotedText(text string) bool {
	escaped := false
	for _, r := range text {
		if r == '"' && !escaped {
			return false
		}
		escaped = r == '\\' && !escaped
	}
	return !escaped
}

// isDomain reports whether text is labels with dots between them, or an address
// in brackets.
func isDomain(text string) bool {
	if len(text) > 2 && text[0] == '[' && text[len(text)-1] == ']' {
		return !strings.ContainsAny(text[1:len(text)-1], "[]@ ")
	}
	return isLocalPart(text) && text[0] != '"'
}

// MatchesMail reports whether an rfc822Name fits a pattern (XACML 3.0, appendix
// A.3.14, rfc822Name-match): a pattern with @ is a complete address, a pattern
// that begins with a dot is a domain with all domains below it, and every other
// pattern is exactly one domain. Only the local part has a case that counts.
//
// The standard lets ".sun.com" match mail hosts below sun.com. The domain itself
// matches, too.
func (v Value) MatchesMail(pattern string) bool {
	if v.typ != RFC822Name {
		return false
	}
	domain := v.more.canonical[v.more.domain:]
	if at := strings.LastIndexByte(pattern, '@'); at >= 0 {
		return v.more.canonical == pattern[:at+1]+strings.ToLower(pattern[at+1:])
	}
	pattern = strings.ToLower(pattern)
	if below, ok := strings.CutPrefix(pattern, "."); ok {
		return below != "" && (domain == below || strings.HasSuffix(domain, pattern))
	}
	return domain == pattern
}
