package proxies

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2 sends requests as frames of HTTP/2, which a proxy turns into HTTP/1. Each
// has a header that HTTP/1 would read otherwise.
func (a *attacker) http2(address string) {
	hidden := "POST /stores/" + a.program.store + "/write HTTP/1.1\r\nHost: localhost\r\nX-Swallow: "
	base := func(method, path string) [][2]string {
		return [][2]string{{":method", method}, {":scheme", "http"}, {":path", path}, {":authority", "localhost"}, {"content-type", "application/json"}}
	}
	check := "/stores/" + a.program.store + "/check"
	requests := [][][2]string{
		append(base("POST", check), [2]string{"transfer-encoding", "chunked"}),
		append(base("POST", check), [2]string{"content-length", "0"}),
		append(base("POST", check), [2]string{"content-length", "99"}),
		append(base("POST", check), [2]string{"content-length", "0"}, [2]string{"content-length", strconv.Itoa(len(hidden))}),
		append(base("POST", check), [2]string{"connection", "keep-alive, content-length"}),
		append(base("POST", check), [2]string{"x", "y\r\ntransfer-encoding: chunked"}),
		append(base("POST", check), [2]string{"x", "y\ntransfer-encoding: chunked"}),
		append(base("POST", check), [2]string{"x", "y\r\n\r\n" + hidden}),
		append(base("POST", check), [2]string{"x: y\r\ntransfer-encoding", "chunked"}),
		append(base("POST", check), [2]string{"transfer-encoding ", "chunked"}),
		append(base("POST", check), [2]string{"x\x00", "y"}),
		append(base("POST", check), [2]string{"host", "other"}),
		append(base("POST", check), [2]string{":path", "/healthz"}),
		append(base("POST", check), [2]string{"upgrade", "h2c"}),
		base("POST", check+" HTTP/1.1\r\nX: y\r\n\r\n"+hidden),
		base("POST", check+"\r\n\r\n"+hidden),
		base("POST", "http://other"+check),
		base("POST", "//"+check),
		base("POST", ""),
		base("POST /healthz HTTP/1.1\r\nX: y\r\n\r\nGET", check),
		base("CONNECT", check),
		base("G T", check),
		append(base("POST", check)[:3:3], [2]string{":authority", "localhost\r\ntransfer-encoding: chunked"}),
		append(base("POST", check)[:3:3], [2]string{":authority", ""}),
		append(base("POST", check)[1:], [2]string{"content-length", "0"}),
	}
	for i, fields := range requests {
		a.stream(address, fmt.Sprintf("frames %d", i), fields, hidden)
	}
}

// stream sends one request as frames on a connection of its own, and checks the
// response if there is one.
func (a *attacker) stream(address, name string, fields [][2]string, body string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		a.t.Error(name, err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(conn, http2.ClientPreface)
	frames := http2.NewFramer(conn, conn)
	frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	frames.WriteSettings()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
	frames.WriteData(1, true, []byte(body))
	status, text := 0, ""
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			status, _ = strconv.Atoi(f.PseudoValue("status"))
		case *http2.DataFrame:
			text += string(f.Data())
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return
		}
		if header := frame.Header(); header.StreamID == 1 && header.Flags.Has(http2.FlagDataEndStream) {
			a.response(name, fmt.Sprint(fields), status, text)
			return
		}
	}
}
