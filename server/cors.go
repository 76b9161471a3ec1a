package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// cors is the set of origins whose web pages may call the server. It never
// allows the browser to send its own credentials (cookies): a page sends a key.
// A nil cors allows no origin.
type cors struct {
	any     bool            // every origin is allowed
	origins map[string]bool // in lower case
}

// newCORS parses Options.CORS. It returns nil for an empty list.
func newCORS(origins []string) (*cors, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	c := &cors{any: slices.Contains(origins, "*"), origins: map[string]bool{}}
	for _, o := range origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o) {
			return nil, fmt.Errorf("invalid CORS origin %q: expected scheme and host, for example https://app.example", o)
		}
		c.origins[strings.ToLower(o)] = true
	}
	return c, nil
}

func (c *cors) allows(origin string) bool {
	return c != nil && (c.any || c.origins[strings.ToLower(origin)])
}

// apply adds the CORS headers to the response. It reports whether r was a
// preflight request, which is then completely answered.
func (c *cors) apply(w http.ResponseWriter, r *http.Request) (answered bool) {
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
		if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
			h.Set("Access-Control-Allow-Headers", headers)
		}
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
