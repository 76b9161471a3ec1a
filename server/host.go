package server

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/server/internal/conn"
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

// localPages returns next without the requests that a web page of another
// machine could send through a browser on this machine.
func (s *Server) localPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var reason door.Reason
		switch {
		case !localHost(r.Host):
			reason = door.ForeignName
		case s.shared.cors.foreignOrigin(r):
			reason = door.ForeignPage
		default:
			next.ServeHTTP(w, r)
			return
		}
		why := &door.Refusal{Reason: reason}
		s.metrics.refused(reason)
		http.Error(w, "metrics without --metrics-exposed are for this machine: "+why.Error(), why.Status())
	})
}

// forCallers returns next without the requests of callers who may not read metrics. While no
// request needs a caller, it refuses none.
func (s *Server) forCallers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why := s.refuseMetrics(r)
		if why == nil {
			next.ServeHTTP(w, r)
			return
		}
		s.metrics.refused(why.Reason)
		if why.Reason == door.BadCredentials {
			s.shared.loginFailed(nameMetrics, s.shared.keys.refusedBy(r.Header["Authorization"]), r.RemoteAddr, "", why.Error())
		}
		_ = s.shared.trail.Refused(&audit.Record{Time: time.Now(), Kind: audit.KindRefusal, Door: nameMetrics, Method: r.Method, From: r.RemoteAddr,
			Outcome: audit.Refused, Status: strconv.Itoa(why.Status()), Why: why.Error()}) // the request has no effect
		if why.Status() == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
			conn.Of(r, s.shared.detached).DelayRefusal(r.Context(), s.shared.stopping)
		}
		http.Error(w, why.Error(), why.Status())
	})
}

// refuseMetrics returns why a caller may not read metrics, or nil: a key of the system store
// needs the scope of all doors, or [callers.MetricsDoor].
func (s *Server) refuseMetrics(r *http.Request) *door.Refusal {
	if !s.shared.keys.required() {
		return nil
	}
	key, why := s.shared.keys.identify(r.Context(), r.Header["Authorization"], false, conn.Of(r, nil))
	if why != 0 {
		return &door.Refusal{Reason: why}
	}
	return key.opens(r.Context(), &servedDoor{Door: &door.Door{Name: callers.MetricsDoor}})
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
