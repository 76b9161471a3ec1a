package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// floods are attacks without a key by much that costs little each. run lasts until the
// context ends, and returns what the attacker saw.
var floods = slices.Concat(floodsOfFrames(), []flood{
	{"20 clients without a key, each request on a new connection", false, func(ctx context.Context, v *victim) string {
		return v.oneEach(ctx, "GET /stores HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}},
	{"20 clients that guess a user's password, each request on a new connection", false, func(ctx context.Context, v *victim) string {
		return v.oneEach(ctx, "GET /policy/pdpx/v1/healthcheck HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic "+
			base64.StdEncoding.EncodeToString([]byte("admin:wrong"))+"\r\n\r\n")
	}},
	{"480 headers of health checks without a message, opened again", false, func(ctx context.Context, v *victim) string { return v.headersOnly(ctx) }},
})

type flood struct {
	name string
	tls  bool
	run  func(ctx context.Context, v *victim) string
}

// floodsOfFrames are frameFloods on four connections, each opened again when the server
// closes it.
func floodsOfFrames() (all []flood) {
	for _, f := range frameFloods {
		all = append(all, flood{"4 connections without a key over TLS: " + f.name, true, func(ctx context.Context, v *victim) string {
			var opened, closed atomic.Int64
			var working sync.WaitGroup
			for range 4 {
				working.Go(func() {
					for ctx.Err() == nil {
						c, err := dialFlood(v.http, true)
						if err != nil {
							closed.Add(1)
							continue
						}
						opened.Add(1)
						go io.Copy(io.Discard, c.Conn)
						c.flood(ctx, f.write)
						c.Close()
					}
				})
			}
			working.Wait()
			return fmt.Sprintf("%d opened, %d closed at once", opened.Load(), closed.Load())
		}})
	}
	return all
}

// oneEach sends a request on a connection of its own, from 20 clients again and again,
// each of which waits at most 100 ms for the answer.
func (v *victim) oneEach(ctx context.Context, text string) string {
	results := make([]map[string]int, 20)
	var working sync.WaitGroup
	for i := range results {
		results[i] = map[string]int{}
		working.Go(func() {
			for ctx.Err() == nil {
				results[i][v.once(text)]++
			}
		})
	}
	working.Wait()
	return mostFrequent(results)
}

// once sends a request on a new connection, and returns the status of the answer.
func (v *victim) once(text string) string {
	conn, err := net.DialTimeout("tcp", v.http, time.Second)
	if err != nil {
		return "no connection"
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetLinger(0) // its port is free at once
	conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
	io.WriteString(conn, text)
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil {
		return "no answer"
	}
	return string(head[9:])
}

// headersOnly begins 16 health checks on each of 30 connections and sends no message.
// Meanwhile it asks for health on connections of its own.
func (v *victim) headersOnly(ctx context.Context) string {
	var working sync.WaitGroup
	for range 30 {
		working.Go(func() {
			for ctx.Err() == nil {
				c, err := dialFlood(v.grpc, false)
				if err != nil {
					continue
				}
				for i := 0; i < 16 && err == nil; i++ {
					_, err = c.begin("/grpc.health.v1.Health/Check", "")
				}
				c.out.Flush()
				stop := context.AfterFunc(ctx, func() { c.Close() })
				io.Copy(io.Discard, c.Conn)
				stop()
				c.Close()
			}
		})
	}
	answers := map[string]int{}
	for ctx.Err() == nil {
		answers[v.probe()]++
		time.Sleep(50 * time.Millisecond)
	}
	working.Wait()
	return fmt.Sprint("probes: ", mostFrequent([]map[string]int{answers}))
}

// probe asks for health over gRPC on a new connection.
func (v *victim) probe() string {
	c, err := dialFlood(v.grpc, false)
	if err != nil {
		return "no connection"
	}
	defer c.Close()
	id, err := c.begin("/grpc.health.v1.Health/Check", "")
	if err == nil {
		err = c.WriteData(id, true, make([]byte, 5))
	}
	if err != nil || c.out.Flush() != nil {
		return "closed"
	}
	c.SetDeadline(time.Now().Add(2 * time.Second))
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return "no answer"
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			for _, field := range h.Fields {
				if field.Name == "grpc-status" {
					return "grpc-status " + field.Value
				}
			}
		}
	}
}

// TestFloods is like TestLongWork for floods. "make attack" runs it.
func TestFloods(t *testing.T) {
	program := os.Getenv("OSTIARY_ATTACK")
	if program == "" {
		t.Skip("OSTIARY_ATTACK=PROGRAM runs it")
	}
	controls := map[bool]*victim{}
	fmt.Println("| flood" + besideHeader)
	for i, a := range floods {
		if only := os.Getenv("OSTIARY_ATTACK_ONLY"); only != "" && !strings.Contains(a.name, only) {
			continue
		}
		if controls[a.tls] == nil {
			controls[a.tls] = launchVictim(t, t, program, 0, a.tls)
		}
		v := launchVictim(t, t, program, 0, a.tls)
		v.besideControl(t, controls[a.tls], a.name, workOrder{Flood: i})
	}
}
