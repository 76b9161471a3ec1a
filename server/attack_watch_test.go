package server_test

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// watched creates a store that watches can name in the native and in the Permify
// door.
func (v *victim) watched(t *testing.T) {
	t.Helper()
	v.must(t, "/ostiary/v1/stores", `{"name":"watched","aliases":{"native":"watched","permify":"watched"}}`)
	v.must(t, "/ostiary/v1/stores/watched/schemas", `{"dialect":"permify","source":"entity user {}\nentity doc {\n relation viewer @user\n}\n"}`)
}

// must sends a request that succeeds.
func (v *victim) must(t *testing.T, path, body string) {
	t.Helper()
	if status, text := v.post(t, path, body); status/100 != 2 {
		t.Errorf("%s: %d %.300s", path, status, text)
	}
}

// writeMuch makes 40 writes of 2,500 tuples each, which all watches get: about
// 10 MB for each.
func (v *victim) writeMuch(t *testing.T) {
	t.Helper()
	name := strings.Repeat("x", 60)
	for i := range 40 {
		var b strings.Builder
		for j := range 2500 {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"object":"doc:%s-%d-%d","relation":"viewer","subject":"user:anne"}`, name, i, j)
		}
		v.must(t, "/ostiary/v1/stores/watched/write", `{"add":[`+b.String()+`]}`)
	}
}

// rpcWatches opens 200 watches over gRPC on 4 connections, with a window of 0
// bytes, and writes much.
func (v *victim) rpcWatches(t *testing.T) string {
	v.watched(t)
	counts := make([]map[string]int, 4)
	var all sync.WaitGroup
	for i := range counts {
		c := v.raw(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		c.SetDeadline(v.until.Add(10 * time.Second))
		counts[i] = map[string]int{}
		for range 50 {
			id, err := c.begin("/base.v1.Watch/Watch", attackKey)
			if err != nil || c.WriteData(id, true, rpcMessage("watched")) != nil {
				break
			}
		}
		all.Go(func() { c.count(counts[i], v.until.Add(10*time.Second)) })
	}
	v.writeMuch(t)
	all.Wait()
	if text := mostFrequent(counts); text != "" {
		return text
	}
	return "none"
}

// httpWatches opens 200 watches over HTTP, reads nothing, and writes much.
func (v *victim) httpWatches(t *testing.T) string {
	v.watched(t)
	for range 200 {
		conn, err := net.Dial("tcp", v.http)
		if err != nil {
			return err.Error()
		}
		conn.(*net.TCPConn).SetReadBuffer(1024)
		v.open = append(v.open, conn)
		fmt.Fprintf(conn, "GET /ostiary/v1/stores/watched/watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", attackKey)
	}
	v.writeMuch(t)
	time.Sleep(5 * time.Second)
	counts := map[string]int{}
	for _, conn := range v.open {
		conn.SetReadDeadline(v.until.Add(10 * time.Second))
		text, err := io.ReadAll(io.LimitReader(conn, 16<<20))
		switch {
		case strings.Contains(string(text), "UnsentBytes"):
			counts["UnsentBytes"]++
		case strings.Contains(string(text), "behind"):
			counts["behind"]++
		case err == nil:
			counts["ended"]++
		default:
			counts["still open or closed"]++
		}
	}
	return mostFrequent([]map[string]int{counts})
}

// manyRelations writes a model of 10,000 relations 20 times, and asks checks of
// a relation that 20 others lead to meanwhile.
func (v *victim) manyRelations(t *testing.T) string {
	var model strings.Builder
	model.WriteString("model\n  schema 1.1\ntype user\n")
	for typ := range 50 {
		fmt.Fprintf(&model, "type t%d\n  relations\n    define r0: [user]\n", typ)
		for r := 1; r < 200; r++ {
			fmt.Fprintf(&model, "    define r%s: r%s\n", strconv.FormatInt(int64(r), 36), strconv.FormatInt(int64(r-1), 36))
		}
	}
	body := `{"dialect":"openfga-dsl","source":"` + strings.ReplaceAll(model.String(), "\n", `\n`) + `"}`
	v.must(t, "/ostiary/v1/stores", `{"name":"large","aliases":{"native":"large"}}`)
	v.must(t, "/ostiary/v1/stores/large/schemas", body)
	v.must(t, "/ostiary/v1/stores/large/write", `{"add":[{"object":"t7:1","relation":"r0","subject":"user:anne"}]}`)
	counts := make([]map[string]int, 8)
	var all sync.WaitGroup
	for i := range counts {
		counts[i] = map[string]int{}
		all.Go(func() {
			for n := 0; time.Now().Before(v.until); n++ {
				path, in := "check", `{"object":"t7:1","relation":"rk","subject":"user:anne"}`
				if n == 0 && i < 4 || n%200 == 199 {
					path, in = "schemas", body
				}
				status, text := v.post(t, "/ostiary/v1/stores/large/"+path, in)
				switch {
				case status/100 != 2:
					counts[i][fmt.Sprintf("%s: %d %.100s", path, status, text)]++
				case path == "check" && !strings.Contains(text, `"allowed":true`):
					counts[i]["wrong answer"]++
				default:
					counts[i][path+" ok"]++
				}
			}
		})
	}
	all.Wait()
	return mostFrequent(counts)
}
