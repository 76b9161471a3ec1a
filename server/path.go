package server

import (
	"net/http"
	"strings"
)

// rawPath returns the path as the client sent it, with its escapes.
func rawPath(r *http.Request) string {
	if u := r.RequestURI; len(u) > 0 && u[0] == '/' {
		if i := strings.IndexByte(u, '?'); i >= 0 {
			return u[:i]
		}
		return u
	}
	return r.URL.EscapedPath() // "GET http://host/path", the form for proxies
}

// canonical reports whether a path has only one reading. Routers, proxies and
// guards disagree about empty segments, "." and ".." (also escaped), escaped
// slashes, backslashes and NUL, so a path with one of them is not canonical.
func canonical(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if simple(path) {
		return true
	}
	onlyDots := true // the current segment has only dots so far
	size := 0        // the length of the current segment, decoded
	for i := 1; i < len(path); i++ {
		c := path[i]
		switch c {
		case '/':
			if size == 0 || onlyDots && size <= 2 {
				return false
			}
			onlyDots, size = true, 0
			continue
		case '\\', 0, '#', '?':
			return false
		case '%':
			if i+2 >= len(path) {
				return false
			}
			high, low := unhex(path[i+1]), unhex(path[i+2])
			if high > 15 || low > 15 {
				return false
			}
			if c = high<<4 | low; c == '/' || c == '\\' || c == 0 {
				return false
			}
			i += 2
		}
		size++
		onlyDots = onlyDots && c == '.'
	}
	return size == 0 || !onlyDots || size > 2
}

// simple reports whether a path is canonical because it has no special bytes
// and no empty segment. Most paths are simple.
func simple(path string) bool {
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case special[c]:
			return false
		case c == '/' && path[i-1] == '/':
			return false
		}
	}
	return true
}

// special are the bytes that canonical must look at.
var special = [256]bool{'%': true, '\\': true, '.': true, '#': true, '?': true, 0: true}

// unhex returns the value of a hexadecimal digit, or 255.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
