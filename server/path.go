package server

import (
	"net/http"
	"strings"
)

// rawPath is the path as the client sent it, escapes and all.
func rawPath(r *http.Request) string {
	if u := r.RequestURI; len(u) > 0 && u[0] == '/' {
		if i := strings.IndexByte(u, '?'); i >= 0 {
			return u[:i]
		}
		return u
	}
	return r.URL.EscapedPath() // "GET http://host/path", as proxies are asked
}

// canonical says whether a path can be read in one way only. Empty segments, "."
// and "..", in plain or escaped, an escaped slash, backslashes and NUL are what
// routers, proxies and guards have disagreed on.
func canonical(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if plain(path) {
		return true
	}
	dots := true // the segment so far is made of dots alone
	size := 0    // its length, decoded
	for i := 1; i < len(path); i++ {
		c := path[i]
		switch c {
		case '/':
			if size == 0 || dots && size <= 2 {
				return false
			}
			dots, size = true, 0
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
		dots = dots && c == '.'
	}
	return size == 0 || !dots || size > 2
}

// plain says that a path has nothing that canonical would have to look at.
func plain(path string) bool {
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case odd[c]:
			return false
		case c == '/' && path[i-1] == '/':
			return false
		}
	}
	return true
}

// odd are bytes that need a closer look: "%", "\\", ".", "#", "?" and NUL.
var odd = [256]bool{'%': true, '\\': true, '.': true, '#': true, '?': true, 0: true}

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
