package value

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

var (
	errAddress = errors.New("expected an address with an optional mask and ports, for example 10.1.2.3, 10.0.0.0/255.0.0.0:80-90 or [2001:db8::1]/[ffff::]:443")
	errHost    = errors.New("expected a host name with optional ports, for example example.com, *.example.com:80 or example.com:1024-")
)

// parseIPAddress reads an address with an optional mask and ports (XACML 3.0,
// appendix A.2). Parts of IPv6 are in brackets. A mask is any address of the same
// kind.
func parseIPAddress(text string) (Value, error) {
	six := strings.HasPrefix(text, "[")
	address, rest, ok := cutAddress(text, six)
	if !ok {
		return Value{}, errAddress
	}
	canonical := address
	if after, found := strings.CutPrefix(rest, "/"); found {
		mask, rest2, ok := cutAddress(after, six)
		if !ok {
			return Value{}, errAddress
		}
		canonical, rest = canonical+"/"+mask, rest2
	}
	if rest == ":" {
		rest = "" // the ports after the colon are optional
	}
	ports, ok := parsePorts(rest)
	if !ok {
		return Value{}, errAddress
	}
	return Value{more: &more{canonical: canonical + ports}}, nil
}

// cutAddress reads the address at the beginning of text and returns its
// canonical form and the rest.
func cutAddress(text string, six bool) (canonical, rest string, ok bool) {
	if !six {
		end := strings.IndexAny(text+":", "/:")
		a, err := netip.ParseAddr(text[:end])
		return a.String(), text[end:], err == nil && a.Is4()
	}
	text, ok = strings.CutPrefix(text, "[")
	end := strings.IndexByte(text, ']')
	if !ok || end < 0 {
		return "", "", false
	}
	a, err := netip.ParseAddr(text[:end])
	return "[" + a.String() + "]", text[end+1:], err == nil && a.Is6() && a.Zone() == ""
}

// parsePorts reads ":" and the ports "80", "-80", "80-" or "80-90", and returns
// their canonical form. Nothing is any port.
func parsePorts(text string) (canonical string, ok bool) {
	if text == "" {
		return "", true
	}
	text, ok = strings.CutPrefix(text, ":")
	low, high, isRange := strings.Cut(text, "-")
	first, okFirst := parsePort(low, isRange && high != "")
	last, okLast := parsePort(high, isRange && low != "")
	switch {
	case !ok || !okFirst || isRange && !okLast || isRange && low != "" && high != "" && first > last:
		return "", false
	case !isRange:
		return ":" + strconv.Itoa(first), true
	}
	canonical = ":"
	if low != "" {
		canonical += strconv.Itoa(first)
	}
	canonical += "-"
	if high != "" {
		canonical += strconv.Itoa(last)
	}
	return canonical, true
}

// parsePort reads a port number. The empty text is one only if it is optional.
func parsePort(text string, optional bool) (int, bool) {
	if text == "" {
		return 0, optional
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil && isDigits(text)
}

// parseDNSName reads a host name with an optional wildcard as its first label and
// optional ports (XACML 3.0, appendix A.2).
func parseDNSName(text string) (Value, error) {
	host, ports := text, ""
	if i := strings.IndexByte(text, ':'); i >= 0 {
		host, ports = text[:i], text[i:]
	}
	canonicalPorts, ok := parsePorts(ports)
	if !ok || !isHostName(host) {
		return Value{}, errHost
	}
	return Value{more: &more{canonical: strings.ToLower(host) + canonicalPorts}}, nil
}

// isHostName reports whether text is labels of letters, digits, hyphens and
// underscores, with dots between them. The first label may be *.
func isHostName(text string) bool {
	text = strings.TrimSuffix(text, ".")
	for i, label := range strings.Split(text, ".") {
		if i == 0 && label == "*" {
			continue
		}
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, isNoHostCharacter) {
			return false
		}
	}
	return len(text) <= 253
}

func isNoHostCharacter(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}
