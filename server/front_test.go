package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// browser is the Accept header of a browser that opens a page.
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// TestFront reads the page at / as a browser and as programs do. It is the same for callers
// with a key, with a wrong one and without one.
func TestFront(t *testing.T) {
	t.Parallel()
	doors := []*door.Door{{Name: "a", Prefixes: []string{"/a/{store}", "/b"}, Guide: "docs/a.md"}, {Name: "<i>&", Prefixes: []string{`/"><script>`}}}
	r := start(t, server.Options{Doors: doors, Keys: keys(t, server.Key{Name: "good", Secret: "good"})})
	for _, c := range []struct {
		accept string
		html   bool
	}{
		{browser, true}, {"text/html", true}, {"text/*", true}, {"application/json;q=0.5, text/html;q=0.6", true},
		{"", false}, {"*/*", false}, {"application/json", false}, {"application/json, text/html", false}, {"text/html;q=0", false}, {"text/html;q=x", false}, {"image/png", false},
	} {
		var headers []string
		if c.accept != "" {
			headers = []string{"Accept", c.accept}
		}
		status, h, body := r.ask(t, "GET", "/", "", headers...)
		kind := "application/json"
		if c.html {
			kind = "text/html; charset=utf-8"
		}
		if status != 200 || h.Get("Content-Type") != kind || json.Valid([]byte(body)) == c.html || h.Get("Vary") != "Accept" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("Accept %q: %d %v\n%s", c.accept, status, h, body)
		}
		for _, key := range []string{"Bearer good", "Bearer wrong", "Basic x", "?"} {
			if s, _, b := r.ask(t, "GET", "/", "", append(headers, "Authorization", key)...); s != status || b != body {
				t.Errorf("Accept %q, Authorization %q: %d %s", c.accept, key, s, b)
			}
		}
		s, hh, b := r.ask(t, "HEAD", "/?x", "", headers...)
		if s != 200 || b != "" || hh.Get("Content-Length") != strconv.Itoa(len(body)) || hh.Get("Content-Type") != kind {
			t.Errorf("HEAD, Accept %q: %d %v %s", c.accept, s, hh, b)
		}
	}
	_, _, body := r.ask(t, "GET", "/", "")
	if !strings.HasPrefix(body, `{"about":"Ostiary answers one question: may this user do this to that object?","doors":[{"door":"a","prefixes":["/a/{store}","/b"],"guide":"docs/a.md"},{"door":`) {
		t.Error(body)
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"} {
		if status, h, body := r.ask(t, method, "/", "x"); status != 405 || h.Get("Allow") != "GET, HEAD" ||
			body != `{"error":{"code":"method_not_allowed","message":"this path has a page to read: expected GET or HEAD"}}`+"\n" {
			t.Errorf("%s: %d %v %s", method, status, h, body)
		}
	}
}

// TestFrontPage requires that the page has no script and nothing of another address, that its
// links are relative, and that the names of doors cannot add to it.
func TestFrontPage(t *testing.T) {
	t.Parallel()
	doors := []*door.Door{{Name: "<i>&", Prefixes: []string{`/"><script>`}, Guide: "<b>"}}
	r := start(t, server.Options{Doors: doors})
	_, h, body := r.ask(t, "GET", "/", "", "Accept", browser)
	if !strings.Contains(body, "<tr><td>&lt;i&gt;&amp;</td><td><code>/&#34;&gt;&lt;script&gt;</code> </td><td>&lt;b&gt;</td></tr>") {
		t.Errorf("the door is not in the page:\n%s", body)
	}
	if found := regexp.MustCompile(`<script|<img|<link|<iframe|\son\w+=|\sstyle=|@import|url\(|https?://[^H]|\shref="[^"]*[:/]|\ssrc=`).FindString(body); found != "" {
		t.Errorf("the page has %q", found)
	}
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		if status, _, text := r.ask(t, "GET", "/"+link[1], ""); status != 200 {
			t.Errorf("the link %s: %d %s", link[1], status, text)
		}
	}
	if policy := h.Get("Content-Security-Policy"); !regexp.MustCompile(`^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$`).MatchString(policy) {
		t.Errorf("Content-Security-Policy: %s", policy)
	}
}

// TestFrontOfOthers checks who else answers at /: a door on a port of its own, one with the
// prefix "", and one whose clients ask there for versions in JSON. Without keys, pages and
// names of other machines get no page.
func TestFrontOfOthers(t *testing.T) {
	t.Parallel()
	answer := func(name, pattern string, prefixes ...string) *door.Door {
		return &door.Door{Name: name, Prefixes: prefixes, Routes: []door.Route{{Method: "GET", Pattern: pattern, Name: name, Public: true,
			Serve: func(w http.ResponseWriter, _ *http.Request, _ door.Params) { io.WriteString(w, name) }}}}
	}
	alone := start(t, server.Options{Dedicated: []server.DedicatedDoor{{Door: answer("own", "/", "/own"), HTTP: "127.0.0.1:0"}}})
	alone.at["http"] = alone.at["own http"]
	rest := start(t, server.Options{Doors: []*door.Door{answer("rest", "/{x...}", "")}})
	versions := start(t, server.Options{Doors: []*door.Door{answer("versions", "/", "/v3"), answer("other", "/other", "/other")}})
	for _, c := range []struct {
		at           *running
		accept, want string
	}{
		{alone, browser, "own"}, {alone, "*/*", "own"}, {versions, "application/json", "versions"}, {versions, "*/*", `{"about":`}, {versions, browser, "<!DOCTYPE html>"},
	} {
		if status, _, body := c.at.ask(t, "GET", "/", "", "Accept", c.accept); status != 200 || !strings.HasPrefix(body, c.want) {
			t.Errorf("Accept %q: %d %s, expected %s", c.accept, status, body, c.want)
		}
	}
	if status, _, body := rest.ask(t, "GET", "/", "", "Accept", browser); strings.Contains(body, "Ostiary") {
		t.Errorf("a door with the prefix \"\": %d %s", status, body)
	}
	if status, _, body := versions.ask(t, "GET", "/", "", "Accept", browser, "Origin", "https://evil.example"); status != 403 || strings.Contains(body, "versions") {
		t.Errorf("a page of another machine: %d %s", status, body)
	}
	req, err := http.NewRequestWithContext(context.Background(), "GET", "http://"+versions.at["http"]+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	if status, _, body := fetch(t, req); status != 403 || strings.Contains(body, "versions") {
		t.Errorf("a name of another machine: %d %s", status, body)
	}
}
