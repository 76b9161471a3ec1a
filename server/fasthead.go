package server

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// verdict is what a head's bytes are.
type verdict uint8

const (
	headPart  verdict = iota // more must come
	headWhole                // a request that can be answered here
	headOther                // for net/http
)

// head is a request's line and headers. A client's requests have nearly the
// same, so what was read of the last one is kept, line by line, and a line that
// comes again is compared, not read. The zero head is ready for use.
type head struct {
	size   int // in bytes, with the empty line
	method string
	target string
	url    url.URL
	query  int // where the target's query begins, its question mark; -1 without
	host   string
	length int64
	closes bool
	header http.Header

	first  []byte // the request line that method, target and url are of
	lines  []headLine
	values []string
}

// headLine is a header line and what it says.
type headLine struct {
	raw   []byte // with its end
	kind  lineKind
	name  string // in canonical form
	value string
	n     int64 // Content-Length
}

type lineKind uint8

const (
	linePlain lineKind = iota
	lineHost
	lineLength
	lineKeep  // Connection: keep-alive
	lineClose // Connection: close
)

// headLinesMax: requests with more lines are net/http's.
const headLinesMax = 64

var (
	crlf    = []byte("\r\n")
	headEnd = []byte("\r\n\r\n")
)

// parse reads the head that b begins with. The head's strings stay valid for
// good, its map until the next call.
func (h *head) parse(b []byte) verdict {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return partial(b)
	}
	h.size = end + len(headEnd)
	b = b[:h.size]
	i := bytes.IndexByte(b, '\n') + 1
	if !bytes.Equal(b[:i], h.first) && !h.requestLine(b[:i]) {
		h.first = nil
		return headOther
	}
	if !h.headers(b[i : h.size-len(crlf)]) {
		h.lines, h.header = h.lines[:0], nil // what they say is not known
		return headOther
	}
	return headWhole
}

// partial says whether what has come of a head may become a plain one. Lines
// may end without a carriage return for net/http, and then this one here would
// wait for an end that has come.
func partial(b []byte) verdict {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return headPart
		}
		if i == 0 || b[i-1] != '\r' {
			return headOther
		}
		b = b[i+1:]
	}
}

// path is the target without its query.
func (h *head) path() string {
	if h.query < 0 {
		return h.target
	}
	return h.target[:h.query]
}

const version = " HTTP/1.1\r\n"

// requestLine reads "POST /path HTTP/1.1".
func (h *head) requestLine(line []byte) bool {
	rest, ok := bytes.CutSuffix(line, []byte(version))
	if !ok {
		return false
	}
	method, target, ok := bytes.Cut(rest, []byte(" "))
	if !ok || len(target) == 0 || target[0] != '/' {
		return false
	}
	switch h.method = string(method); h.method {
	case http.MethodPost, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	easy := true
	for _, c := range target {
		if c <= ' ' || c >= 0x7f {
			return false
		}
		easy = easy && easyTarget[c]
	}
	h.target = string(target)
	h.query = strings.IndexByte(h.target, '?')
	if easy {
		h.url = url.URL{Path: h.target}
	} else {
		u, err := url.ParseRequestURI(h.target)
		if err != nil {
			return false
		}
		h.url = *u
	}
	h.first = append(h.first[:0], line...)
	return true
}

// easyTarget are the bytes of a target that is a path and nothing else, however
// it is read.
var easyTarget = bytesOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/")

func bytesOf(s string) (set [256]bool) {
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}

// headers reads lines, each with its end.
func (h *head) headers(b []byte) bool {
	changed, n := false, 0
	for ; len(b) > 0; n++ {
		if n < len(h.lines) && bytes.HasPrefix(b, h.lines[n].raw) {
			b = b[len(h.lines[n].raw):]
			continue
		}
		i := bytes.IndexByte(b, '\n') + 1
		if i == 0 || n == headLinesMax {
			return false
		}
		changed = true
		if n == len(h.lines) {
			h.lines = slices.Grow(h.lines, 1)[:n+1]
		}
		if !h.lines[n].read(b[:i]) {
			return false
		}
		b = b[i:]
	}
	if changed || n != len(h.lines) || h.header == nil {
		h.lines = h.lines[:n]
		return h.gather()
	}
	return true
}

// read reads "Name: value".
func (l *headLine) read(line []byte) bool {
	rest, ok := bytes.CutSuffix(line, crlf)
	if !ok {
		return false
	}
	name, value, ok := bytes.Cut(rest, []byte(":"))
	if !ok || len(name) == 0 {
		return false
	}
	for _, c := range name {
		if !tokenByte[c] {
			return false
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	l.raw = append(l.raw[:0], line...)
	if l.name == "" || !bytes.Equal(name, []byte(l.name)) {
		l.name = http.CanonicalHeaderKey(string(name))
	}
	l.value = string(bytes.Trim(value, " \t"))
	return l.sort()
}

// tokenByte are the bytes of a header's name (RFC 9110, section 5.6.2).
var tokenByte = bytesOf("!#$%&'*+-.^_`|~ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")

// sort says what a line means to the reading of requests. One that changes how
// the rest is read, other than by a length, is net/http's to read.
func (l *headLine) sort() bool {
	l.kind, l.n = linePlain, 0
	switch l.name {
	case "Host":
		l.kind = lineHost
		for i := range len(l.value) {
			if !hostByte[l.value[i]] {
				return false
			}
		}
		return l.value != ""
	case "Content-Length":
		l.kind = lineLength
		return l.digits()
	case "Connection":
		switch {
		case strings.EqualFold(l.value, "keep-alive"):
			l.kind = lineKeep
		case strings.EqualFold(l.value, "close"):
			l.kind = lineClose
		default:
			return false
		}
	case "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Expect", "Pragma", "Http2-Settings":
		return false
	}
	return true
}

var hostByte = bytesOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:[]")

// lengthDigitsMax: longer numbers are net/http's to judge.
const lengthDigitsMax = 15

func (l *headLine) digits() bool {
	if l.value == "" || len(l.value) > lengthDigitsMax {
		return false
	}
	for i := range len(l.value) {
		c := l.value[i]
		if c < '0' || c > '9' {
			return false
		}
		l.n = 10*l.n + int64(c-'0')
	}
	return true
}

// gather makes the header map of the lines. A second Host, length or Connection
// is net/http's to judge.
func (h *head) gather() bool {
	if h.header == nil {
		h.header = http.Header{}
	}
	clear(h.header)
	if len(h.values) < len(h.lines) {
		h.values = make([]string, len(h.lines))
	}
	h.host, h.length, h.closes = "", 0, false
	var seen [lineClose + 1]int
	for i := range h.lines {
		l := &h.lines[i]
		if seen[l.kind]++; l.kind != linePlain && seen[l.kind] > 1 {
			return false
		}
		switch l.kind {
		case lineHost:
			h.host = l.value
			continue
		case lineLength:
			h.length = l.n
		case lineClose:
			h.closes = true
		}
		if before, ok := h.header[l.name]; ok {
			h.header[l.name] = append(before, l.value)
			continue
		}
		h.values[i] = l.value
		h.header[l.name] = h.values[i : i+1 : i+1]
	}
	return seen[lineHost] == 1 && seen[lineKeep]+seen[lineClose] <= 1
}
