package server

import (
	"net"
	"net/http"
	"net/url"
)

// A server without keys and without Options.Anonymous trusts every program on
// its machine. A web browser on that machine runs pages from other machines, so
// two checks keep those pages out: foreignOrigin and localHost.

// foreignOrigin reports whether r comes from a web page that is neither allowed
// by CORS nor served from this machine. The check is needed because browsers
// send such requests, also writes, and only hide the response from the page.
func (c *cors) foreignOrigin(r *http.Request) bool {
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if !c.allows(origin) && (err != nil || !loopbackHost(u.Hostname())) {
			return true
		}
	}
	return false
}

// localHost reports whether a Host header names this machine by a name that
// only this machine can have. It stops DNS rebinding: a page whose own name
// resolves to this machine has the same origin as the server, so its reads carry
// no Origin header, but they carry the page's name as Host.
func localHost(host string) bool {
	name := (&url.URL{Host: host}).Hostname() // without port and brackets
	switch name {
	case "127.0.0.1", "localhost", "::1":
		return true // the common cases, without parsing an address
	}
	return loopbackHost(name)
}

// loopbackAddress reports whether only this machine can reach a "host:port"
// address. Of all names, only localhost counts, because other names may resolve
// to any address.
func loopbackAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return loopbackHost(host)
}

// loopbackHost reports whether host is localhost or a loopback IP address.
func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
