package server_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// answersDoor answers in all the ways that a handler can.
func answersDoor() *door.Door {
	long := strings.Repeat("0123456789abcdef", 10_000)
	d := &door.Door{Name: "answers", Prefixes: []string{"/answers"}}
	for name, serve := range map[string]func(http.ResponseWriter, *http.Request){
		"short":   func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "short") },
		"html":    func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"nothing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"long":    func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(long)) },
		"parts": func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(long); i += 1000 {
				io.WriteString(w, long[i:min(i+1000, len(long))])
			}
		},
		"declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(long)))
			w.Header().Set("Content-Type", "text/x-long")
			io.WriteString(w, long[:70_000])
			io.WriteString(w, long[70_000:])
		},
		"too-short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "five.")
		},
		"too-long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "five.")
			if _, err := io.WriteString(w, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
				panic("written beyond the length")
			}
		},
		"none": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "x"); err == nil {
				panic("a body without content")
			}
		},
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			w.(http.Flusher).Flush()
			io.WriteString(w, "b")
		},
		"late-header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Early", "yes")
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-Late", "yes")
			w.WriteHeader(http.StatusOK)
		},
		"injected": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Split"] = []string{"a\r\nX-Other: b", "c"}
			w.Header()["X Bad\r\nX-Name"] = []string{"b"}
			io.WriteString(w, "split?")
		},
		"closes": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			io.WriteString(w, "bye")
		},
		"request": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.Method, r.RequestURI, r.URL.Path, r.URL.Query(), r.Host, r.ContentLength, r.Close)
			for _, name := range slices.Sorted(maps.Keys(r.Header)) {
				fmt.Fprintln(w, name, r.Header[name])
			}
			b, err := io.ReadAll(r.Body)
			fmt.Fprintln(w, string(b), err)
		},
	} {
		for _, method := range []string{"GET", "POST"} {
			d.Routes = append(d.Routes, door.Route{Method: method, Pattern: "/answers/" + name, Name: name,
				Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) { serve(w, r) }})
		}
	}
	return d
}

// converse sends text in pieces, and returns what came back, without what may
// differ: its time, its id, and whether a whole body was sent with its length or
// in chunks. An answer that was cut off is none.
func converse(t testing.TB, address, text string, cuts []int) (got []string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for _, cut := range cuts {
			cut = min(cut, len(text))
			if _, err := io.WriteString(conn, text[:cut]); err != nil {
				return
			}
			text = text[cut:]
			time.Sleep(time.Millisecond) // so that it arrives by itself
		}
		if _, err := io.WriteString(conn, text); err == nil {
			conn.(*net.TCPConn).CloseWrite()
		}
	}()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return got
		}
		body, err := io.ReadAll(resp.Body)
		resp.Header.Del("Date")
		resp.Header.Del("X-Request-Id")
		resp.Header.Del("Content-Length")
		if err != nil {
			return got
		}
		got = append(got, fmt.Sprintf("%s %v %v %d %.200q", resp.Status, resp.Header, resp.Close, len(body), body))
	}
}

const (
	hostLine = "Host: localhost\r\n"
	keyLine  = "Authorization: Bearer k\r\n"
)

// requests are plain ones, and such as net/http is asked for.
func requests() []string {
	all := []string{
		"GET /echo/caller HTTP/1.1\r\n" + hostLine + "\r\n",
		"GET /echo/caller HTTP/1.1\r\n" + hostLine + "Authorization: Bearer wrong\r\n\r\n",
		"GET /echo/caller HTTP/1.1\r\n" + hostLine + keyLine + "\r\n",
		"GET /echo/open HTTP/1.1\r\n" + hostLine + "\r\n",
		"GET /echo/nowhere HTTP/1.1\r\n" + hostLine + keyLine + "\r\n",
		"DELETE /echo/open HTTP/1.1\r\n" + hostLine + "\r\n",
		"GET /elsewhere HTTP/1.1\r\n" + hostLine + "\r\n",
		"GET /echo//open HTTP/1.1\r\n" + hostLine + "\r\n",
		"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"HEAD /echo/open HTTP/1.1\r\n" + hostLine + "\r\n",
		"OPTIONS * HTTP/1.1\r\n" + hostLine + "\r\n",
		"POST /echo HTTP/1.1\r\n" + hostLine + keyLine + "Content-Length: 5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" + hostLine + keyLine + "Content-Length: 0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" + hostLine + keyLine + "\r\n",
		"POST /echo/large HTTP/1.1\r\n" + hostLine + keyLine + "Content-Length: 9000\r\n\r\n" + strings.Repeat("large....", 1000),
		"POST /echo HTTP/1.1\r\n" + hostLine + "Content-Length: 5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\n" + hostLine + keyLine + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" + hostLine + keyLine + "Content-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000),
		"POST /echo/upload HTTP/1.1\r\n" + hostLine + keyLine + "Content-Length: 5\r\n\r\nhello",
		"GET /echo/panic/early HTTP/1.1\r\n" + hostLine + keyLine + "\r\n",
		"GET /answers/request?a=b&c=%20d HTTP/1.1\r\nhost: localhost:80\r\n" + keyLine + "x-odd:   value \t\r\nX-Odd: other\r\nX-Empty:\r\n\r\n",
		"POST /answers/request HTTP/1.1\r\n" + hostLine + keyLine + "Content-Length: 3\r\nContent-Type: text/plain\r\n\r\nabc",
		"GET /answers/request HTTP/1.1\r\n" + hostLine + keyLine + "Connection: close\r\n\r\n",
		"GET /answers/request HTTP/1.1\n" + hostLine + keyLine + "\n",
		"GET /answers/request HTTP/1.0\r\n" + hostLine + keyLine + "\r\n",
		"GET /answers/request HTTP/1.1\r\n" + hostLine + keyLine + "X-Odd: \xc3\xa4\r\n\r\n",
		"GET http://localhost/answers/request HTTP/1.1\r\n" + hostLine + keyLine + "\r\n",
		"GARBAGE\r\n\r\n",
	}
	for _, name := range []string{"short", "html", "nothing", "long", "parts", "declared", "too-short", "too-long", "none", "flushed", "late-header", "injected", "closes"} {
		all = append(all, "GET /answers/"+name+" HTTP/1.1\r\n"+hostLine+keyLine+"\r\n")
	}
	return all
}

// TestSameConversations: requests of all kinds, one behind the other on one
// connection and cut anywhere, are answered as net/http's server answers them.
func TestSameConversations(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Doors: []*door.Door{echoDoor(), answersDoor()}, Keys: keys(t, server.Key{Secret: "k"})})
	plain := &http.Server{Handler: r.Handler(), ErrorLog: log.New(io.Discard, "", 0)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go plain.Serve(l)
	t.Cleanup(func() { plain.Close() })
	all := requests()
	check := func(text string, cuts []int) {
		want := converse(t, l.Addr().String(), text, cuts)
		if got := converse(t, r.at["http"], text, cuts); !slices.Equal(got, want) {
			t.Errorf("%.600q cut at %v:\ngot  %.900q\nwant %.900q", text, cuts, got, want)
		}
	}
	var others []string
	for _, text := range all {
		check(text, nil)
		// A request ends the connection where nothing behind it is answered.
		got := converse(t, l.Addr().String(), text+"GET /healthz HTTP/1.1\r\n"+hostLine+"\r\n", nil)
		if len(got) > 1 {
			others = append(others, text)
		}
	}
	// What is sent behind an answer that ends the connection may reset it before
	// the answers are read, so nothing is.
	const seed, conversations = 1, 400
	random := rand.New(rand.NewPCG(seed, seed))
	for range conversations {
		var text string
		for range random.IntN(5) {
			text += others[random.IntN(len(others))]
		}
		text += all[random.IntN(len(all))]
		var cuts []int
		for range random.IntN(4) {
			cuts = append(cuts, 1+random.IntN(len(text)))
		}
		check(text, cuts)
	}
	if last := len(all) - len(others); last < 5 || len(others) < 20 {
		t.Errorf("%d requests end their connection, %d do not", last, len(others))
	}
}

// TestIdle: a connection that says nothing between requests ends by itself.
func TestIdle(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{IdleTimeout: 50 * time.Millisecond})
	conn := r.connect(t)
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(conn)
	io.WriteString(conn, "GET /echo/open HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
		t.Fatal(err)
	} else if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Error(err)
	}
}

// TestStopWithNewConnections: a stop answers the first request of a connection
// that was made before it, and ends one that never says anything.
func TestStopWithNewConnections(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{DrainTime: -1})
	silent, half := r.connect(t), r.connect(t)
	for _, conn := range []net.Conn{silent, half} {
		conn.SetDeadline(time.Now().Add(time.Minute))
	}
	if status, _, _ := r.ask(t, "GET", "/echo/open", ""); status != 200 { // so both are accepted
		t.Fatal(status)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	wait(t, func() bool {
		c, err := net.Dial("tcp", r.at["http"])
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	io.WriteString(half, "GET /echo/open HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(half), nil)
	if err != nil || resp.StatusCode != 200 || !resp.Close {
		t.Errorf("%v, %v", resp, err)
	}
	if _, err := silent.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
