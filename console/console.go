// Package console serves the console: pages for a browser that show who may do what, why and
// since when. [New] returns them as a door with the prefix /console.
//
// The pages are files that are made from the folder src by make console, and committed.
// They are the same for everybody, so they need no key. What they show comes from the native
// API, which the browser asks with the key of its user, or with the token of a provider. This
// package never reads a store and never sees a key or a token.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/identity/oidc"
)

// prefix is the path of the first page.
const prefix = "/console"

//go:embed assets
var assets embed.FS

// policy is the Content-Security-Policy of every response without a provider: only files of this server, no
// frames, no forms, and no script or style within a page.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// New returns the door of the console, with clients of providers at which users may sign in,
// besides with a key. It fails if a file is missing from the program, or if a client is not valid.
func New(clients ...oidc.Client) (*door.Door, error) {
	d := &door.Door{Name: "console", Prefixes: []string{prefix}, Guide: "docs/console.md", Page: prefix[1:] + "/", TrailingSlash: true, Missing: missing, Refuse: refuse}
	p, err := newProviders(clients)
	if err != nil {
		return nil, err
	}
	if len(p.all) > 0 {
		d.Background = p.follow
	}
	add := func(path string, serve func(http.ResponseWriter, *http.Request, door.Params)) {
		for _, method := range [...]string{http.MethodGet, http.MethodHead} {
			d.Routes = append(d.Routes, door.Route{Method: method, Pattern: prefix + path, Name: "Console", Public: true, Serve: serve})
		}
	}
	add("/sign-in.json", p.serve)
	for _, f := range [...]struct{ name, path, kind string }{
		{"index.html", "", "text/html; charset=utf-8"},
		{"console.js", "/console.js", "text/javascript; charset=utf-8"},
		{"console.css", "/console.css", "text/css; charset=utf-8"},
		{"icon.svg", "/icon.svg", "image/svg+xml"},
		{"LICENSES.txt", "/LICENSES.txt", "text/plain; charset=utf-8"},
	} {
		a, err := newAsset(f.name, f.kind)
		if err != nil {
			return nil, err
		}
		a.policy = p.policy
		serve := a.serve
		if f.path == "" {
			serve = a.servePage
		}
		add(f.path, serve)
	}
	return d, nil
}

// asset is one file of the console.
type asset struct {
	kind string // its media type
	body []byte
	tag  string // the digest of body
	// policy returns the Content-Security-Policy, which is a part of the ETag.
	policy func() string
	// compressed returns body compressed with gzip, which the first request that accepts it makes.
	compressed func() []byte
}

func newAsset(name, kind string) (*asset, error) {
	body, err := assets.ReadFile("assets/" + name)
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return &asset{kind: kind, body: body, tag: digest(body), compressed: sync.OnceValue(func() []byte { return compress(body) })}, nil
}

// digest returns the digest of a text, for an ETag.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:15])
}

// compress returns body in the format of gzip.
func compress(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(body) // a bytes.Buffer takes everything
	w.Close()
	return out.Bytes()
}

// servePage sends the first page. Its links are relative to a path with a slash at its end, so
// a request without one is sent there. The location is relative as well, for proxies
// that serve the console below another path.
func (a *asset) servePage(w http.ResponseWriter, r *http.Request, p door.Params) {
	if !strings.HasSuffix(r.URL.Path, "/") {
		secure(w, a.policy())
		w.Header().Set("Location", prefix[1:]+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	a.serve(w, r, p)
}

// serve sends the file. A client that has it, as it shows with its ETag, gets 304.
func (a *asset) serve(w http.ResponseWriter, r *http.Request, _ door.Params) {
	allowed := a.policy()
	secure(w, allowed)
	body, tag, end := a.body, a.tag, ""
	if allowed != policy {
		tag = digest([]byte(a.tag + allowed))
	}
	h := w.Header()
	if acceptsGzip(r.Header["Accept-Encoding"]) {
		body, end = a.compressed(), "-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	tag = `"` + tag + end + `"`
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", tag)
	h.Add("Vary", "Accept-Encoding")
	if hasTag(r.Header["If-None-Match"], tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// secure sets the headers of every response, with a Content-Security-Policy.
func secure(w http.ResponseWriter, policy string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// acceptsGzip reports whether a client accepts gzip by name (RFC 9110, section 12.5.3).
func acceptsGzip(headers []string) bool {
	for element := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, parameter, _ := strings.Cut(element, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		text, weighted := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
		quality, err := strconv.ParseFloat(text, 64)
		return !weighted && parameter == "" || weighted && err == nil && quality > 0
	}
	return false
}

// hasTag reports whether the values of If-None-Match have tag, or are "*".
func hasTag(headers []string, tag string) bool {
	for element := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		if element = strings.TrimSpace(element); element == "*" || strings.TrimPrefix(element, "W/") == tag {
			return true
		}
	}
	return false
}

// missing answers a request for another path or with another method.
func missing(w http.ResponseWriter, _ *http.Request, methods []string) {
	if methods == nil {
		fail(w, http.StatusNotFound, "not_found", "the console has no such file: its first page is "+prefix+"/")
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	fail(w, http.StatusMethodNotAllowed, "method_not_allowed", "this path has a page to read: expected "+strings.Join(methods, " or "))
}

// refuse answers a request that the server refuses.
func refuse(w http.ResponseWriter, _ *http.Request, why *door.Refusal) {
	fail(w, why.Status(), "refused", why.Error())
}

// fail answers with an error in the shape of the server's own.
func fail(w http.ResponseWriter, status int, code, message string) {
	body, err := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}})
	if err != nil {
		body = []byte("{}") // cannot happen: strings always marshal
	}
	secure(w, policy)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
