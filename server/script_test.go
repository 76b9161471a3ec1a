package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/server"
)

// TestScripts plays the scripts of testdata. A script is a file of commands, see
// [player.commands]; the lines below a command that begin with a tab are what
// happens until nothing more can happen without another command. Connections are in
// memory and time is virtual: a script waits for no clock, "+2s" is exactly two
// seconds after the server's start, and a busy machine changes nothing. A connection
// whose name begins with "deaf" reads nothing, and one whose name begins with "mute"
// does not answer pings. One whose name begins with "h2" uses HTTP/2 over TLS and never
// enlarges a window, and one whose name begins with "shut" lets the server send no
// message over gRPC. OSTIARY_REWRITE=1 writes the files.
func TestScripts(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/*.script", 1, func(t *testing.T, file string) {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		synctest.Test(t, func(t *testing.T) { got = (&player{T: t}).play(string(script)) })
		golden.Equal(t, file, got)
	})
}

// player plays one script.
type player struct {
	*testing.T
	server *server.Server
	keys   *server.Keys
	logs   *logs
	start  time.Time
	ports  map[string]*memoryListener // by the names of server.Address
	conns  map[string]*scriptConn
	stop   context.CancelFunc
	ended  chan struct{}          // closed when Wait has returned
	loaded chan struct{}          // Preload waits for it
	broken error                  // of Probe
	mu     sync.Mutex             // guards broken and events
	events map[string][]*happened // by the name of the connection
}

// happened is what a connection received at one time.
type happened struct {
	at   time.Duration
	text string
}

// commands are the commands of scripts.
func (p *player) commands() map[string]func(args string) string {
	return map[string]func(string) string{
		// server NAME=VALUE… ends the last server and starts one with these options.
		"server": p.begin,
		// send CONN TEXT sends a text to an HTTP port; {N} in it becomes N times x.
		"send": func(args string) string {
			name, text, _ := strings.Cut(args, " ")
			if c := p.connect(name, "http"); text != "" {
				c.send([]byte(unquote(text)))
			}
			return ""
		},
		// get CONN TARGET [HEADER | HEADER…] sends a request without a body.
		"get": func(args string) string { return p.request("GET", args) },
		// ask METHOD CONN TARGET [HEADER | HEADER…] is get with another method.
		"ask": func(args string) string {
			method, args, _ := strings.Cut(args, " ")
			return p.request(method, args)
		},
		// rpc CONN METHOD KEY MESSAGE makes a call with a string; KEY is - for none.
		"rpc": func(args string) string {
			f := strings.SplitN(args, " ", 4)
			c := p.connect(f[0], "grpc")
			id := c.open(f[1], f[2])
			c.data(id, true, message(unquote(f[3])))
			return ""
		},
		// open CONN METHOD KEY begins a call.
		"open": func(args string) string {
			f := strings.Fields(args)
			p.connect(f[0], "grpc").open(f[1], f[2])
			return ""
		},
		// data CONN CALL TEXT sends a part of the last call's message.
		"data": func(args string) string {
			name, text, _ := strings.Cut(args, " ")
			c := p.connect(name, "grpc")
			c.data(c.next-2, false, []byte(unquote(text)))
			return ""
		},
		// last is data, and ends the client's side of the call.
		"last": func(args string) string {
			name, text, _ := strings.Cut(args, " ")
			c := p.connect(name, "grpc")
			c.data(c.next-2, true, []byte(unquote(text)))
			return ""
		},
		// h2 CONN TARGET sends a GET over HTTP/2.
		"h2": func(args string) string {
			name, target, _ := strings.Cut(args, " ")
			c := p.connect(name, "http")
			c.write(func() error {
				_, err := c.beginWith(true, ":method", "GET", ":scheme", "https", ":path", target, ":authority", "localhost")
				return err
			})
			return ""
		},
		// reset CONN STREAM gives up a request over HTTP/2.
		"reset": func(args string) string {
			name, stream, _ := strings.Cut(args, " ")
			id, err := strconv.Atoi(stream)
			if err != nil {
				p.Fatal(err)
			}
			c := p.connect(name, "http")
			c.gaveUp.Store(uint32(id), true)
			c.write(func() error { return c.WriteRSTStream(uint32(id), http2.ErrCodeCancel) })
			return ""
		},
		// close CONN closes a connection.
		"close": func(args string) string {
			p.conns[args].Conn.Close()
			return ""
		},
		// wait DURATION waits.
		"wait": func(args string) string {
			d, err := time.ParseDuration(args)
			if err != nil {
				p.Fatal(err)
			}
			time.Sleep(d)
			return ""
		},
		// keys KEY… replaces the keys.
		"keys": func(args string) string {
			if err := p.keys.Replace(scriptKeys(args)); err != nil {
				return err.Error()
			}
			return ""
		},
		// log prints the lines of the log since the last time, in the order of their text,
		// because requests that end together log in any order.
		"log": func(string) string { return p.logs.take() },
		// metrics PREFIX… prints the metrics with these prefixes.
		"metrics": p.metrics,
		// connections prints how many are open.
		"connections": func(string) string { return strconv.Itoa(p.server.Connections()) },
		// stop begins the stop of the server.
		"stop": func(string) string {
			p.stop()
			return ""
		},
		// ping CONN sends a ping.
		"ping": func(args string) string {
			c := p.connect(args, "grpc")
			c.write(func() error { return c.WritePing(false, [8]byte{}) })
			return ""
		},
		// addresses prints the names of the ports.
		"addresses": func(string) string {
			out := ""
			for _, a := range p.server.Addresses() {
				out += a.Name + "\n"
			}
			return out
		},
		// cut PORT makes the port's listener fail.
		"cut": func(args string) string {
			p.ports[args].Close()
			return ""
		},
		// loaded ends Preload, and break is the error of Probe from now on.
		"loaded": func(string) string {
			close(p.loaded)
			return ""
		},
		"break": func(args string) string {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.broken = errors.New(args)
			return ""
		},
	}
}

// play returns the script with what happens.
func (p *player) play(script string) string {
	commands := p.commands()
	var out strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line + "\n")
		name, args, _ := strings.Cut(line, " ")
		if line == "" || name[0] == '#' {
			continue
		}
		run := commands[name]
		if run == nil {
			p.Fatalf("unknown command %q", line)
		}
		result := run(args)
		synctest.Wait()
		out.WriteString(indent(result, "\t") + p.news())
	}
	p.end()
	return out.String()
}

// begin ends the server that runs, and starts one.
func (p *player) begin(options string) string {
	p.end()
	p.ports, p.conns, p.events, p.broken = map[string]*memoryListener{}, map[string]*scriptConn{}, map[string][]*happened{}, nil
	p.start, p.logs, p.ended, p.loaded = time.Now(), &logs{}, make(chan struct{}), make(chan struct{})
	o := server.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Metrics: "127.0.0.1:0", Doors: []*door.Door{echoDoor(), holdDoor(), plainDoor()}, DrainTime: -1,
		Listen: func(name, _ string) (net.Listener, error) {
			p.ports[name] = &memoryListener{make(chan net.Conn), make(chan struct{}), sync.Once{}}
			return p.ports[name], nil
		},
		Log: slog.New(slog.NewTextHandler(p.logs, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" || a.Key == "stack" {
				return slog.Attr{}
			}
			return a
		}})),
		Probe: func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.broken
		},
	}
	p.keys = nil
	for option := range strings.FieldsSeq(options) {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "Keys":
			var err error
			if p.keys, err = server.NewKeys(scriptKeys(strings.ReplaceAll(value, ",", " "))); err != nil {
				p.Fatal(err)
			}
			o.Keys = p.keys
		case "Preload":
			loaded := p.loaded
			o.Preload = func(ctx context.Context) {
				select {
				case <-loaded:
				case <-ctx.Done():
				}
			}
		case "TLS":
			o.TLS = certificate(p.T)
		case "Own": // a door that authenticates its callers
			own := echoDoor()
			own.Name, own.OwnAuthentication = "own", true
			own.RequestTimeout = time.Minute
			o.Dedicated = []server.DedicatedDoor{{Door: own, HTTP: "127.0.0.1:0", GRPC: value}}
		default:
			set(p.T, &o, name, value)
		}
	}
	s, err := server.New(o)
	if err != nil {
		return err.Error()
	}
	if err := s.Start(); err != nil {
		p.Fatal(err)
	}
	p.server = s
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		err := s.Wait(ctx)
		p.event("stopped", fmt.Sprintf("%v\n", err))
		close(p.ended)
	}()
	return ""
}

// plainDoor returns a door without shapes of its own for refusals.
func plainDoor() *door.Door {
	desc := echoDesc
	desc.ServiceName = "test.Plain"
	d := &door.Door{Name: "plain", Prefixes: []string{"/plain"}, Services: []door.Service{{Desc: &desc, Impl: struct{}{}}}}
	text := func(w http.ResponseWriter, _ *http.Request, p door.Params) {
		n, _ := strconv.Atoi(p.At(0))
		if w.WriteHeader(http.StatusEarlyHints); n > 0 {
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusTeapot) // the first status counts
			io.WriteString(w, strings.Repeat("x", n))
		}
	}
	d.Routes = []door.Route{{Method: "GET", Pattern: "/plain/text/{bytes}", Name: "Text", Serve: text},
		{Method: "GET", Pattern: "/plain/stream/text/{bytes}", Name: "StreamText", Streams: true, Serve: text},
		{Method: "GET", Pattern: "/plain/index/{i}", Name: "Index", Serve: func(_ http.ResponseWriter, _ *http.Request, p door.Params) {
			i, _ := strconv.Atoi(p.At(0))
			_ = make([]byte, 5)[i]
		}}}
	for _, r := range echoDoor().Routes {
		r.Pattern, r.Public = "/plain"+strings.TrimPrefix(r.Pattern, "/echo"), false
		d.Routes = append(d.Routes, r)
	}
	return d
}

// end closes all connections and stops the server.
func (p *player) end() {
	if p.stop == nil {
		return
	}
	p.stop()
	for _, c := range p.conns {
		c.Conn.Close()
	}
	<-p.ended
	synctest.Wait() // the connections' readers have recorded their ends
	p.stop = nil
}

// set sets an option by its name.
func set(t testing.TB, o *server.Options, name, value string) {
	t.Helper()
	field := reflect.ValueOf(o).Elem().FieldByName(name)
	if !field.IsValid() {
		t.Fatalf("no option %q", name)
	}
	var v any
	var err error
	switch field.Interface().(type) {
	case time.Duration:
		v, err = time.ParseDuration(value)
	case bool:
		v, err = strconv.ParseBool(value)
	case int:
		v, err = strconv.Atoi(value)
	case int64:
		v, err = strconv.ParseInt(value, 10, 64)
	case string:
		v = value
	case []string:
		v = strings.Split(value, ",")
	}
	if err != nil {
		t.Fatal(err)
	}
	field.Set(reflect.ValueOf(v))
}

// scriptKeys parses keys of the form NAME:SECRET or SECRET.
func scriptKeys(text string) (out []server.Key) {
	for word := range strings.FieldsSeq(text) {
		name, secret, named := strings.Cut(word, ":")
		if !named {
			name, secret = "", word
		}
		out = append(out, server.Key{Name: name, Secret: server.Secret(secret)})
	}
	return out
}

// request sends a request without a body. Host is localhost and X-Request-Id is 1
// unless it has such headers.
func (p *player) request(method, args string) string {
	name, args, _ := strings.Cut(args, " ")
	target, rest, _ := strings.Cut(args, " ")
	headers := ""
	for h := range strings.SplitSeq(rest, " | ") {
		if h != "" {
			headers += unquote(h) + "\r\n"
		}
	}
	for header, value := range map[string]string{"Host": "localhost", "X-Request-Id": "1"} {
		if !strings.Contains(headers, header+":") {
			headers += header + ": " + value + "\r\n"
		}
	}
	p.connect(name, "http").send([]byte(method + " " + target + " HTTP/1.1\r\n" + headers + "\r\n"))
	return ""
}

var repeated = regexp.MustCompile(`\{([0-9]+)\}`)

// unquote replaces escapes as in Go, and {N} by N times x.
func unquote(text string) string {
	if plain, err := strconv.Unquote(`"` + text + `"`); err == nil {
		text = plain
	}
	return repeated.ReplaceAllStringFunc(text, func(n string) string {
		times, _ := strconv.Atoi(n[1 : len(n)-1])
		return strings.Repeat("x", times)
	})
}

// message returns a StringValue with its header.
func message(text string) []byte {
	body := append(binary.AppendUvarint([]byte{0x0a}, uint64(len(text))), text...)
	if text == "" {
		body = nil
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

func (p *player) metrics(prefixes string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return p.ports["metrics"].dial("192.0.2.9")
	}}}
	resp, err := client.Get("http://localhost/metrics")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var out strings.Builder
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if slices.ContainsFunc(strings.Fields(prefixes), func(prefix string) bool { return strings.HasPrefix(lines.Text(), prefix) }) {
			out.WriteString(lines.Text() + "\n")
		}
	}
	return out.String()
}

// event records what a connection received.
func (p *player) event(name, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Since(p.start)
	all := p.events[name]
	if n := len(all); n > 0 && all[n-1].at == at {
		all[n-1].text += text
		return
	}
	p.events[name] = append(all, &happened{at, text})
}

// news prints the events since the last time, by their times and connections.
func (p *player) news() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	type line struct {
		*happened
		name string
	}
	var all []line
	for name, events := range p.events {
		for _, e := range events {
			all = append(all, line{e, name})
		}
		delete(p.events, name)
	}
	slices.SortFunc(all, func(a, b line) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.name, b.name)
	})
	var out strings.Builder
	for _, l := range all {
		fmt.Fprintf(&out, "\t+%v %s\n%s", l.at, l.name, indent(l.text, "\t\t"))
	}
	return out.String()
}

// indent returns the lines of a text with a prefix. Runs of a byte are shortened.
func indent(text, prefix string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(prefix + shorten(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return out.String()
}

// shorten replaces runs of more than 15 equal bytes, and bytes that are no printable
// ASCII.
func shorten(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		n := 1
		for i+n < len(text) && text[i+n] == text[i] {
			n++
		}
		if n > 15 {
			fmt.Fprintf(&out, "<%d × %q>", n, text[i:i+1])
		} else if q := strconv.QuoteToASCII(text[i : i+n]); q[1] == '\\' && text[i] != '\\' && text[i] != '"' {
			out.WriteString(q[1 : len(q)-1])
		} else {
			out.WriteString(text[i : i+n])
		}
		i += n
	}
	return out.String()
}

// take returns the sorted lines of the log and empties it.
func (l *logs) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return strings.Join(slices.Sorted(strings.Lines(l.b.String())), "")
}

// scriptConn is a client's connection.
type scriptConn struct {
	*rawRPC
	name string
	p    *player
	// turn has room for the one goroutine that writes. A mutex would not let
	// synctest.Wait return while another waits.
	turn   chan struct{}
	gaveUp sync.Map // the ids of streams that the client has reset
}

// connect returns the connection with a name, and opens it if there is none. Names
// of the form PORT@ADDRESS or NAME@ADDRESS come from that address; a name that
// begins with own or metrics opens a connection to that port.
func (p *player) connect(name, port string) *scriptConn {
	if c := p.conns[name]; c != nil {
		return c
	}
	_, address, found := strings.Cut(name, "@")
	if !found {
		address = "192.0.2.1"
	}
	for prefix, other := range map[string]string{"own": "own http", "metrics": "metrics"} {
		if strings.HasPrefix(name, prefix) {
			port = other
		}
	}
	raw, err := p.ports[port].dial(address)
	if err != nil {
		p.Fatal(name, " cannot connect: ", err)
	}
	web := strings.HasPrefix(name, "h2")
	if web {
		raw = tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	c := &scriptConn{rawRPC: newRaw(raw), name: name, p: p, turn: make(chan struct{}, 1)}
	p.conns[name] = c
	if strings.HasPrefix(name, "deaf") {
		return c
	}
	if web {
		go c.readWeb()
		c.hello()
	} else if port == "grpc" {
		go c.readFrames()
		c.hello()
	} else {
		go c.read()
	}
	return c
}

// send sends bytes without waiting for the server, which may not read them.
func (c *scriptConn) send(data []byte) {
	c.write(func() error {
		_, err := c.Conn.Write(data)
		return err
	})
	synctest.Wait()
}

// read records what an HTTP connection receives.
func (c *scriptConn) read() {
	b := make([]byte, 64<<10)
	for {
		n, err := c.Conn.Read(b)
		if n > 0 {
			c.p.event(c.name, newID.ReplaceAllString(dates.ReplaceAllString(string(b[:n]), ""), "X-Request-Id: <new>"))
		}
		if err != nil {
			c.p.event(c.name, "\n(closed)\n")
			return
		}
	}
}

var (
	// newID matches an id that the server has chosen, and dates the header Date, which
	// depends on the commands before.
	newID = regexp.MustCompile(`X-Request-Id: [0-9a-v]{20}`)
	dates = regexp.MustCompile("Date: .*\r\n")
)

// hello begins HTTP/2.
func (c *scriptConn) hello() {
	var settings []http2.Setting
	if strings.HasPrefix(c.name, "shut") {
		settings = append(settings, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	}
	c.send([]byte(http2.ClientPreface))
	c.write(func() error { return c.WriteSettings(settings...) })
	synctest.Wait()
}

// write calls do in a goroutine, after the last one has returned.
func (c *scriptConn) write(do func() error) {
	go func() {
		c.turn <- struct{}{}
		do() // an error means that the server has closed the connection
		<-c.turn
	}()
}

func (c *scriptConn) open(method, key string) (id uint32) {
	if key == "-" {
		key = ""
	}
	c.write(func() (err error) {
		id, err = c.begin(method, key)
		return err
	})
	synctest.Wait()
	return id
}

// data sends bytes of a call in frames of at most 16,000.
func (c *scriptConn) data(id uint32, end bool, data []byte) {
	c.write(func() error {
		for len(data) > frameBytes {
			if err := c.WriteData(id, false, data[:frameBytes]); err != nil {
				return err
			}
			data = data[frameBytes:]
		}
		return c.WriteData(id, end, data)
	})
	synctest.Wait()
}

const frameBytes = 16_000

// readFrames records the messages and the ends of calls.
func (c *scriptConn) readFrames() {
	calls := map[uint32][]byte{} // the messages that have not arrived completely
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			c.p.event(c.name, "(closed)\n")
			return
		}
		text := ""
		switch f := frame.(type) {
		case *http2.DataFrame:
			data := append(calls[f.StreamID], f.Data()...)
			for len(data) >= 5 && uint32(len(data)-5) >= binary.BigEndian.Uint32(data[1:]) {
				end := 5 + binary.BigEndian.Uint32(data[1:])
				text += fmt.Sprintf("call %d: %s\n", f.StreamID, bytes.ReplaceAll(data[5:end], []byte("\n"), []byte(`\n`)))
				data = data[end:]
			}
			calls[f.StreamID] = data
			text = strings.TrimSuffix(text, "\n")
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				text = fmt.Sprintf("call %d ends:", f.StreamID)
				for _, h := range f.Fields {
					if strings.HasPrefix(h.Name, "grpc-") {
						text += " " + strings.ReplaceAll(h.Value, "%C2%A0", " ") // as protobuf likes
					}
				}
			}
		// NO_ERROR depends on which side ends first, and adds nothing to the end.
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeNo {
				text = fmt.Sprintf("call %d is reset: %v", f.StreamID, f.ErrCode)
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				text = fmt.Sprintf("go away: %v %s", f.ErrCode, f.DebugData())
			}
		case *http2.PingFrame:
			if !strings.HasPrefix(c.name, "mute") && !f.IsAck() {
				c.write(func() error { return c.WritePing(true, f.Data) })
				continue
			}
			text = "ping"
		}
		if text != "" {
			c.p.event(c.name, text+"\n")
		}
	}
}

// readWeb records the responses over HTTP/2.
func (c *scriptConn) readWeb() {
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			c.p.event(c.name, "(closed)\n")
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			c.p.event(c.name, fmt.Sprintf("stream %d: status %s\n", f.StreamID, f.PseudoValue("status")))
		case *http2.DataFrame:
			c.p.event(c.name, fmt.Sprintf("stream %d: %s\n", f.StreamID, bytes.TrimSuffix(f.Data(), []byte("\n"))))
		case *http2.RSTStreamFrame:
			if _, ours := c.gaveUp.Load(f.StreamID); !ours {
				c.p.event(c.name, fmt.Sprintf("stream %d is reset: %v\n", f.StreamID, f.ErrCode))
			}
		}
	}
}

// memoryListener is a port in memory.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial opens a connection from an address.
func (l *memoryListener) dial(from string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- remoteConn{server, &net.TCPAddr{IP: net.ParseIP(from), Port: 1}}:
		return client, nil
	case <-l.done:
		return nil, io.ErrClosedPipe
	}
}

// remoteConn is a connection of a client with an address.
type remoteConn struct {
	net.Conn
	from net.Addr
}

func (c remoteConn) RemoteAddr() net.Addr { return c.from }
