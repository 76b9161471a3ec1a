package oauth1

import (
	"net/url"
	"strings"
)

// Escape returns s in percent-encoding, as signed requests need it: with upper-case digits,
// and all bytes escaped that RFC 3986 does not call unreserved, which are letters, digits,
// and the characters - . _ ~
func Escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
