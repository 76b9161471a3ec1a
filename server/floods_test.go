package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// frameFloods are frames of HTTP/2 that cost work but lead to no request that is
// answered: that of frameDoor does not end before its stream does. Each writes n of them.
var frameFloods = []struct {
	name  string
	write func(c *rawRPC, n int) error
	// bounded is the port whose library ends such a connection as well, sooner or later on a
	// busy machine: net/http when many streams wait for their handlers, grpc-go when pings
	// follow each other too soon.
	bounded string
}{
	{"SETTINGS", func(c *rawRPC, n int) error {
		return repeat(n, func(int) error { return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65535}) })
	}, ""},
	{"PING", func(c *rawRPC, n int) error {
		return repeat(n, func(int) error { return c.WritePing(false, [8]byte{1}) })
	}, "grpc"},
	{"WINDOW_UPDATE", func(c *rawRPC, n int) error {
		return repeat(n, func(int) error { return c.WriteWindowUpdate(0, 1) })
	}, ""},
	{"streams that are reset at once", func(c *rawRPC, n int) error {
		return repeat(n/2, func(int) error {
			id, err := c.beginWith(false, ":method", "POST", ":scheme", "https", ":path", "/stores", ":authority", "localhost")
			return errors.Join(err, c.WriteRSTStream(id, http2.ErrCodeCancel))
		})
	}, "http"},
	{"empty CONTINUATION", func(c *rawRPC, n int) error {
		if c.next == 1 {
			c.next = 3
			if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1}); err != nil {
				return err
			}
		}
		return repeat(n, func(int) error { return c.WriteContinuation(1, false, nil) })
	}, ""},
}

func repeat(n int, write func(i int) error) error {
	for i := range n {
		if err := write(i); err != nil {
			return err
		}
	}
	return nil
}

// frameDoor is a door at /stores with a public request that waits until its client leaves. A
// request that is answered allows further frames, and on a busy machine one may be answered
// before its stream is reset.
func frameDoor() *door.Door {
	return &door.Door{Name: "stores", Prefixes: []string{"/stores"}, Routes: []door.Route{{Method: "POST", Pattern: "/stores", Name: "Wait", Public: true,
		Serve: func(_ http.ResponseWriter, r *http.Request, _ door.Params) { <-r.Context().Done() }}}}
}

// dialFlood opens a connection of HTTP/2, over TLS or for gRPC. Its frames are sent by
// [bufio.Writer.Flush] of out.
func dialFlood(address string, overTLS bool) (*rawRPC, error) {
	raw, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	raw.SetDeadline(time.Now().Add(2 * time.Minute))
	if overTLS {
		raw = tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	c := newRaw(raw)
	c.out = bufio.NewWriterSize(raw, 16<<10)
	c.Framer = http2.NewFramer(c.out, raw)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	io.WriteString(c.out, http2.ClientPreface)
	if err := errors.Join(c.WriteSettings(), c.out.Flush()); err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// flood writes and sends frames until the connection ends or the context does.
func (c *rawRPC) flood(ctx context.Context, write func(c *rawRPC, n int) error) {
	for ctx.Err() == nil {
		if errors.Join(write(c, 1000), c.out.Flush()) != nil {
			return
		}
	}
}

// TestFrameFloods checks that a connection on which no request is accepted ends after
// too many frames, with GOAWAY over HTTPS; and that its address may connect again.
func TestFrameFloods(t *testing.T) {
	t.Parallel()
	for _, overTLS := range []bool{true, false} {
		for _, flood := range frameFloods {
			t.Run(fmt.Sprint(flood.name, " TLS ", overTLS), func(t *testing.T) {
				o := server.Options{Doors: []*door.Door{frameDoor()}, Keys: keys(t, server.Key{Secret: "k"})}
				server.FreezeFrames(&o)
				port := "grpc"
				if overTLS {
					o.TLS, port = certificate(t), "http"
				}
				r := start(t, o)
				counted := 2
				for range 2 {
					c, err := dialFlood(r.at[port], overTLS)
					if err != nil {
						t.Fatal(err)
					}
					var reading sync.WaitGroup
					goAway, end := false, error(nil)
					reading.Go(func() {
						for end == nil {
							var f http2.Frame
							f, end = c.ReadFrame()
							if g, ok := f.(*http2.GoAwayFrame); ok {
								goAway = true
								if port == flood.bounded && g.ErrCode == http2.ErrCodeEnhanceYourCalm {
									counted-- // the library may have ended it
								}
							}
						}
					})
					c.flood(t.Context(), flood.write)
					reading.Wait()
					c.Close()
					if errors.Is(end, os.ErrDeadlineExceeded) {
						t.Error("the connection does not end")
					}
					if overTLS && !goAway {
						t.Error("the connection ends without GOAWAY:", end)
					}
				}
				text := r.metric(t, `ostiary_connections_closed_total{why="unauthenticated"}`)
				var n int
				if _, err := fmt.Sscan(text[strings.LastIndexByte(text, ' ')+1:], &n); err != nil || n < counted || n > 2 {
					t.Errorf("%s, expected %d to 2", text, counted)
				}
			})
		}
	}
}

// TestFramesOfAccepted checks that nothing bounds the frames of a connection on which a
// request was accepted, or whose public requests are answered.
func TestFramesOfAccepted(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"}), TLS: certificate(t)})
	for path, key := range map[string]string{"/echo/caller": "k", "/healthz": ""} {
		c, err := dialFlood(r.at["http"], true)
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			fields := []string{":method", "GET", ":scheme", "https", ":path", path, ":authority", "localhost"}
			if key != "" {
				fields = append(fields, "authorization", "Bearer "+key)
			}
			id, err := c.beginWith(true, fields...)
			err = errors.Join(err, c.out.Flush())
			for ended := false; err == nil && !ended; {
				var f http2.Frame
				f, err = c.ReadFrame()
				if f != nil {
					ended = f.Header().StreamID == id && f.Header().Flags.Has(http2.FlagDataEndStream)
				}
			}
			if err == nil {
				err = errors.Join(c.WritePing(false, [8]byte{}), c.out.Flush())
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		c.Close()
	}
}

// TestLargeBodyOverHTTP2 checks that the refusal of a body above its bound has its body,
// though the client still sends.
func TestLargeBodyOverHTTP2(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"}), TLS: certificate(t)})
	c, err := dialFlood(r.at["http"], true)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		id, err := c.beginWith(false, ":method", "POST", ":scheme", "https", ":path", "/echo", ":authority", "localhost",
			"authorization", "Bearer k", "content-length", "5000000")
		if err = errors.Join(err, c.WriteData(id, false, make([]byte, 10_000)), c.out.Flush()); err != nil {
			t.Fatal(err)
		}
		announced, body := "", 0
		for ended := false; !ended; {
			frame, err := c.ReadFrame()
			if err != nil {
				t.Fatalf("%d of %s bytes, then %v", body, announced, err)
			}
			switch f := frame.(type) {
			case *http2.MetaHeadersFrame:
				for _, field := range f.Fields {
					if field.Name == ":status" && field.Value != "413" {
						t.Error("status", field.Value)
					}
					if field.Name == "content-length" {
						announced = field.Value
					}
				}
			case *http2.DataFrame:
				body, ended = body+len(f.Data()), f.StreamEnded()
			case *http2.GoAwayFrame:
				t.Error("the connection ends, and a client that still sends loses the body")
			}
		}
		if fmt.Sprint(body) != announced || body == 0 {
			t.Errorf("%d bytes, announced %q", body, announced)
		}
	}
}

// TestLockout checks that the passwords of a user are refused, right or wrong, after too
// many wrong ones from an address, that a user on a kept connection is not, and that
// there is one line in the log for it.
func TestLockout(t *testing.T) {
	t.Parallel()
	users, err := server.ParseUsers("admin right\nother right")
	if err != nil {
		t.Fatal(err)
	}
	caller := func(w http.ResponseWriter, r *http.Request, _ door.Params) {
		w.Write([]byte(door.CallerOf(r.Context()).ID))
	}
	d := &door.Door{Name: "framework", Prefixes: []string{"/framework"}, Basic: true,
		Routes: []door.Route{{Method: "GET", Pattern: "/framework/caller", Name: "caller", Serve: caller}}}
	r := start(t, server.Options{Doors: []*door.Door{d}, Keys: keys(t, append(users, server.Key{Name: "key", Secret: secret})...)})
	ask := func(client *http.Client, authorization string) string {
		t.Helper()
		req, _ := http.NewRequest("GET", "http://"+r.at["http"]+"/framework/caller", nil)
		req.Header.Set("Authorization", authorization)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(body))
	}
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	fresh := func() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }
	kept := &http.Client{Transport: &http.Transport{}}
	expect := func(client *http.Client, authorization, want string) {
		t.Helper()
		if got := ask(client, authorization); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
	expect(kept, basic("admin:right"), "200 admin")
	for range 20 {
		expect(fresh(), basic("admin:wrong"), "401 ")
	}
	for range 3 {
		expect(fresh(), basic("admin:wrong"), "429 ")
		expect(fresh(), basic("admin:right"), "429 ")
		expect(kept, basic("admin:right"), "200 admin")
	}
	expect(kept, basic("admin:wrong"), "429 ")
	expect(fresh(), basic("other:right"), "200 other")
	expect(fresh(), "Bearer "+secret, "200 key")
	if n := strings.Count(r.logs.String(), "too many wrong passwords"); n != 1 {
		t.Errorf("%d lines in the log, expected one", n)
	}
	if text := r.logs.String(); strings.Contains(text, "right") || strings.Contains(text, `wrong"`) {
		t.Errorf("a password in the log: %s", text)
	}
}
