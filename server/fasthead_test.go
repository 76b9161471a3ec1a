package server

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// plainHeads are heads that are read here, oddHeads such as are not.
var plainHeads = []string{
	"POST /stores/01H/check HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: go\r\nContent-Length: 17\r\nContent-Type: application/json\r\n\r\n",
	"GET /stores?page_size=10&name=a%20b HTTP/1.1\r\nHost: 127.0.0.1\r\naccept: */*\r\nAccept-Encoding:gzip\r\n\r\n",
	"DELETE /stores/a%2Fb HTTP/1.1\r\nhost: [::1]:80\r\nAuthorization: Bearer \t k\t\r\nX-Two: a\r\nx-two: b\r\nConnection: Keep-Alive\r\n\r\n",
	"PUT /a//b/../c HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 000\r\n\r\n",
	"PATCH /+a;b=1,2:3@4$5~6.7 HTTP/1.1\r\nHost: x\r\nX-Empty:\r\n\r\n",
	"GET //x?? HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /?a?b HTTP/1.1\r\nHost: x\r\n\r\n",
}

var oddHeads = []string{
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.0\r\nHost: x\r\n\r\n",
	"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
	"get / HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /  HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.1\nHost: x\n\n",
	"GET / HTTP/1.1\r\nHost: x\n\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
	"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
	"GET / HTTP/1.1\r\n: x\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: \r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nX: \xc3\xa4\r\n\r\n",
	"GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999999999\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, close\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nPragma: no-cache\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", headLinesMax) + "\r\n",
}

// same says how a head that was taken here differs from what net/http reads; ""
// is not at all.
func same(h *head, b []byte) string {
	in := bytes.NewReader(b)
	buffered := bufio.NewReaderSize(in, len(b)+16)
	r, err := http.ReadRequest(buffered)
	if err != nil {
		return "net/http refuses it: " + err.Error()
	}
	switch {
	case r.Method != h.method || r.RequestURI != h.target || r.Host != h.host || r.Proto != "HTTP/1.1":
		return "the line or the host"
	case !reflect.DeepEqual(*r.URL, h.url) || strings.SplitN(h.target, "?", 2)[0] != h.path():
		return "the target"
	case r.ContentLength != h.length || r.Close != h.closes || len(r.TransferEncoding) > 0 || len(r.Trailer) > 0:
		return "the body's frame"
	case !reflect.DeepEqual(r.Header, h.header):
		return "the headers"
	}
	if rest := in.Len() + buffered.Buffered(); rest != len(b)-h.size {
		return "the head's end"
	}
	return ""
}

// both reads a head, and another behind it with what is kept of the first: the
// second means what it would have meant alone.
func both(t testing.TB, first, second []byte) {
	var kept, alone head
	for _, b := range [][]byte{first, second} {
		v := kept.parse(b)
		alone = head{}
		aloneV := alone.parse(b)
		if v != aloneV || v == headWhole && (kept.size != alone.size || kept.method != alone.method || kept.target != alone.target || kept.host != alone.host ||
			kept.query != alone.query || kept.length != alone.length || kept.closes != alone.closes || !reflect.DeepEqual(kept.url, alone.url) || !reflect.DeepEqual(kept.header, alone.header)) {
			t.Fatalf("%q behind %q: %v %+v, alone %v %+v", b, first, v, kept.header, aloneV, alone.header)
		}
		if v == headWhole {
			if why := same(&kept, b); why != "" {
				t.Fatalf("%q: %s", b, why)
			}
		}
	}
}

// FuzzSameAsNetHTTP: a head that is read here means to net/http what it means
// here, and one that net/http refuses is left to it.
func FuzzSameAsNetHTTP(f *testing.F) {
	for _, a := range plainHeads {
		f.Add([]byte(a), []byte(plainHeads[0]))
	}
	for _, a := range oddHeads {
		f.Add([]byte(plainHeads[0]), []byte(a))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) { both(t, a, b) })
}

// TestHeads: what is read here and what is not, and 100,000 heads with a few
// bytes or lines of others.
func TestHeads(t *testing.T) {
	t.Parallel()
	for _, text := range plainHeads {
		var h head
		if v := h.parse([]byte(text + "body")); v != headWhole || h.size != len(text) {
			t.Errorf("%q: %v", text, v)
		}
		// A head that comes in parts is waited for.
		for i := range text {
			if v := h.parse([]byte(text[:i])); v != headPart {
				t.Errorf("%q: %v", text[:i], v)
			}
		}
	}
	for _, text := range oddHeads {
		var h head
		if v := h.parse([]byte(text)); v != headOther {
			t.Errorf("%q: %v", text, v)
		}
	}
	const seed, heads = 1, 100_000
	random := rand.New(rand.NewPCG(seed, seed))
	all := slices.Concat(plainHeads, plainHeads, oddHeads)
	whole := 0
	for range heads {
		a, b := mutated(random, all), mutated(random, all)
		both(t, a, b)
		var h head
		if v := h.parse(b); v == headWhole {
			whole++
		}
	}
	if whole < heads/10 || whole > heads*9/10 {
		t.Errorf("%d of %d heads are read here", whole, heads)
	}
}

// mutated is one of the heads with lines of others, or odd bytes, in it.
func mutated(random *rand.Rand, all []string) []byte {
	lines := strings.SplitAfter(all[random.IntN(len(all))], "\n")
	for random.IntN(2) == 0 {
		other := strings.SplitAfter(all[random.IntN(len(all))], "\n")
		lines[random.IntN(len(lines))] = other[random.IntN(len(other))]
	}
	b := []byte(strings.Join(lines, ""))
	const odd = " \t\r\n:,/?%.;\x00\x7f\xffAaz09-"
	for random.IntN(3) == 0 && len(b) > 0 {
		i := random.IntN(len(b))
		switch c := odd[random.IntN(len(odd))]; random.IntN(3) {
		case 0:
			b[i] = c
		case 1:
			b = slices.Insert(b, i, c)
		default:
			b = slices.Delete(b, i, i+1)
		}
	}
	return b
}
