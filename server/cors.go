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

// answer adds what the browser wants to know, and says whether the request was
// a question about that only, and is answered.
func (c *cors) answer(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	allowed := c.any || c.origins[strings.ToLower(origin)]
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
