package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// cors says which web pages may ask. Credentials of the browser's own (cookies)
// are never allowed: keys are sent by the page.
type cors struct {
	any     bool
	origins map[string]bool
}

// newCORS reads a list of origins; none is nil.
func newCORS(origins []string) (*cors, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	c := &cors{any: slices.Contains(origins, "*"), origins: map[string]bool{}}
	for _, o := range origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o) {
			return nil, fmt.Errorf("CORS origin %q is not like https://app.example", o)
		}
		c.origins[strings.ToLower(o)] = true
	}
	return c, nil
}

func (c *cors) allows(origin string) bool {
	return c != nil && (c.any || c.origins[strings.ToLower(origin)])
}

// foreign says whether a web page asks that is neither allowed nor of this
// machine. Browsers send such requests, writes among them, and only withhold
// the answer from the page.
func (c *cors) foreign(r *http.Request) bool {
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if !c.allows(origin) && (err != nil || !loopbackHost(u.Hostname())) {
			return true
		}
	}
	return false
}

// answer adds what the browser wants to know, and says whether the request was
// a question about that only, and is answered.
func (c *cors) answer(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	allowed := c.allows(origin)
	if allowed {
		if c.any {
			origin = "*"
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "*")
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	if allowed {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
		if want := r.Header.Get("Access-Control-Request-Headers"); want != "" {
			h.Set("Access-Control-Allow-Headers", want)
		}
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// ownName says whether a request's Host is a name that only this machine has. A
// page whose own name was made to lead here is of the same origin to its
// browser, which then sends no Origin with what it reads; but it sends the name.
func ownName(host string) bool {
	name := (&url.URL{Host: host}).Hostname() // without port and brackets
	switch name {
	case "127.0.0.1", "localhost", "::1":
		return true // nearly always, and without making an address of it
	}
	return loopbackHost(name)
}
