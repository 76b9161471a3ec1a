package console_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/console"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// browser is the Accept header of a browser that opens a page.
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// files are the paths of all files, and what each begins with.
var files = map[string]string{
	"/console/": "<!DOCTYPE html>", "/console/console.js": "", "/console/console.css": ":root", "/console/icon.svg": "<svg", "/console/LICENSES.txt": "The console contains",
}

// start serves the console without a provider, and returns the address.
func start(t *testing.T) string {
	t.Helper()
	d, err := console.New()
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, d)
}

// serve serves a console beside another door, with a key, and returns the address.
func serve(t *testing.T, d *door.Door) string {
	t.Helper()
	other := &door.Door{Name: "other", Prefixes: []string{"/other"}, Routes: []door.Route{{Method: "GET", Pattern: "/other", Name: "Other", Serve: func(w http.ResponseWriter, _ *http.Request, _ door.Params) { io.WriteString(w, "other") }}}}
	keys, err := server.NewKeys([]server.Key{{Name: "good", Secret: "good"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{HTTP: "127.0.0.1:0", Doors: []*door.Door{other, d}, Dedicated: []server.DedicatedDoor{{Door: other, HTTP: "127.0.0.1:0"}}, Keys: keys, DrainTime: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	for _, a := range s.Addresses() {
		if a.Name == "http" {
			return a.Addr.String()
		}
	}
	t.Fatal("no address")
	return ""
}

// ask sends a request as it is, and follows no redirect.
func ask(t *testing.T, method, url string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// secured fails if a response lacks a header that every response has.
func secured(t *testing.T, what string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": plain,
		"Referrer-Policy":         "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %s: %q, expected %q", what, name, got, want)
		}
	}
	if h.Get("Set-Cookie") != "" {
		t.Errorf("%s: it sets a cookie", what)
	}
}

// TestFiles reads every file without a key, with a good and with a wrong one, plain and
// compressed, and again with its ETag.
func TestFiles(t *testing.T) {
	t.Parallel()
	at := "http://" + start(t)
	for file, begins := range files {
		status, h, plain := ask(t, "GET", at+file)
		if status != 200 || !strings.HasPrefix(plain, begins) || plain == "" || h.Get("Content-Encoding") != "" || h.Get("Vary") != "Accept-Encoding" || h.Get("Cache-Control") != "no-cache" {
			t.Fatalf("%s: %d %v %.60q", file, status, h, plain)
		}
		secured(t, file, h)
		for _, key := range []string{"Bearer good", "Bearer wrong", "Basic x", "?"} {
			if s, hh, body := ask(t, "GET", at+file+"?x=1", "Authorization", key); s != 200 || body != plain || hh.Get("ETag") != h.Get("ETag") {
				t.Errorf("%s, %s: %d", file, key, s)
			}
		}
		if s, hh, body := ask(t, "HEAD", at+file); s != 200 || body != "" || hh.Get("Content-Length") != fmt.Sprint(len(plain)) || hh.Get("ETag") != h.Get("ETag") {
			t.Errorf("HEAD %s: %d %v", file, s, hh)
		}
		_, zipped, body := ask(t, "GET", at+file, "Accept-Encoding", "br;q=1.0, GZip;q=0.5, *;q=0")
		r, err := gzip.NewReader(strings.NewReader(body))
		if err != nil || zipped.Get("Content-Encoding") != "gzip" || zipped.Get("ETag") == h.Get("ETag") {
			t.Fatalf("%s: %v %v", file, zipped, err)
		}
		if unzipped, err := io.ReadAll(r); err != nil || string(unzipped) != plain {
			t.Errorf("%s: another text with gzip: %v", file, err)
		}
		for _, accept := range []string{"", "br", "gzip;q=0", "gzip;q=x", "gzip;x=1", "identity", "xgzip"} {
			if _, hh, body := ask(t, "GET", at+file, "Accept-Encoding", accept); hh.Get("Content-Encoding") != "" || body != plain {
				t.Errorf("%s, Accept-Encoding %q: %v", file, accept, hh)
			}
		}
		for _, c := range []struct {
			headers []string
			status  int
		}{
			{[]string{"If-None-Match", h.Get("ETag")}, 304}, {[]string{"If-None-Match", `"x", W/` + h.Get("ETag")}, 304}, {[]string{"If-None-Match", "*"}, 304},
			{[]string{"If-None-Match", `"x"`}, 200}, {[]string{"If-None-Match", zipped.Get("ETag")}, 200}, {[]string{"If-None-Match", ""}, 200},
			{[]string{"If-None-Match", zipped.Get("ETag"), "Accept-Encoding", "gzip"}, 304}, {[]string{"If-None-Match", h.Get("ETag"), "Accept-Encoding", "gzip"}, 200},
		} {
			s, hh, body := ask(t, "GET", at+file, c.headers...)
			if s != c.status || s == 304 && (body != "" || hh.Get("ETag") == "" || hh.Get("Content-Encoding") != "") {
				t.Errorf("%s, %q: %d %v, expected %d", file, c.headers, s, hh, c.status)
			}
			secured(t, file, hh)
		}
	}
}

// TestElsewhere sends other methods, and paths that are not those of a file.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	address := start(t)
	at := "http://" + address
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
		status, h, body := ask(t, method, at+"/console/", "Authorization", "Bearer wrong")
		if status != 405 || h.Get("Allow") != "GET, HEAD" || body != `{"error":{"code":"method_not_allowed","message":"this path has a page to read: expected GET or HEAD"}}`+"\n" {
			t.Errorf("%s: %d %v %s", method, status, h, body)
		}
		secured(t, method, h)
	}
	if status, h, body := ask(t, "GET", at+"/console"); status != 308 || h.Get("Location") != "console/" || body != "" {
		t.Errorf("/console: %d %v", status, h)
	} else {
		secured(t, "/console", h)
	}
	for target, want := range map[string]int{
		"/console/console.go": 404, "/console/assets/console.js": 404, "/console/assets": 404, "/console/index.html": 404, "/console/console.js.map": 404,
		"/console/%69ndex.html": 404, "/console/console.js%20": 404, "/console/CONSOLE.JS": 404, "/consoles": 404, "/console.js": 404,
		"/console/../console/console.js": 400, "/console/..": 400, "/console/../../etc/passwd": 400, "/console/%2e%2e/%2e%2e/etc/passwd": 400, "/console/..%2fconsole.go": 400,
		"/console//console.js": 400, "/console/./console.js": 400, `/console/..\console.go`: 400, "/console/%00": 400, "/console/%5c..%5cconsole.go": 400, "//console/console.js": 400,
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, address)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		conn.Close()
		if resp.StatusCode != want || len(body) > 500 {
			t.Errorf("%s: %d %.200q, expected %d", target, resp.StatusCode, body, want)
		}
	}
}

// TestLinks follows the link of the server's page, and those of the console's: they are
// relative, so that a proxy may serve them below another path.
func TestLinks(t *testing.T) {
	t.Parallel()
	at := "http://" + start(t)
	if _, _, front := ask(t, "GET", at+"/", "Accept", browser); !strings.Contains(front, `<td><a href="console/">console</a></td><td><code>/console</code> </td>`) {
		t.Errorf("the page at / has no link to the console:\n%s", front)
	}
	_, _, page := ask(t, "GET", at+"/console/")
	found := 0
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		found++
		if m[1] != path.Base(m[1]) {
			t.Errorf("the link %q is not relative", m[1])
		}
		if status, _, _ := ask(t, "GET", at+"/console/"+m[1]); status != 200 {
			t.Errorf("the link %q: %d", m[1], status)
		}
	}
	if found != 3 {
		t.Errorf("the page has %d links, expected 3", found)
	}
	if bad := regexp.MustCompile(`<style|<script>|<iframe|\son\w+=|\sstyle=|https?:`).FindString(page); bad != "" {
		t.Errorf("the page has %q", bad)
	}
}

// TestAssets requires that every committed file is served, and that none names a machine.
func TestAssets(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, e := range entries {
		name := "/console/" + strings.TrimPrefix(e.Name(), "index.html")
		if _, served := files[name]; !served {
			t.Errorf("assets/%s is not served", e.Name())
		}
		text, err := os.ReadFile("assets/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		sum += len(text)
		if found := regexp.MustCompile(`sourceMappingURL|file://|node_modules/|/home/|/root/|localhost|127\.0\.0\.1`).Find(text); found != nil {
			t.Errorf("assets/%s has %q", e.Name(), found)
		}
	}
	if len(entries) != len(files) || sum > 3<<20 {
		t.Errorf("assets has %d files and %d bytes, expected %d files and at most 3 MiB", len(entries), sum, len(files))
	}
}
