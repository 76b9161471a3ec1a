package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestLoads compares the names, the defaults and the schedules of loads with a file.
func TestLoads(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, l := range []Load{
		{}, {Clients: 1}, {Clients: 2}, {Clients: -1}, {Rate: 10}, {Rate: 10, Clients: 3}, {Rate: 10, RateEnd: 20, Duration: 10 * time.Second}, {Rate: 20, RateEnd: 10, Duration: 10 * time.Second}, {Rate: 10, RateEnd: 10, Duration: 10 * time.Second},
		{Rate: 10, RateEnd: 20, Duration: -1, Requests: 5}, {Duration: -1}, {Duration: -1, Requests: 1}, {Duration: time.Second, Requests: 1}, {Timeout: -1}, {Timeout: time.Second}, {Rate: .5},
	} {
		d := l.withDefaults()
		fmt.Fprintf(&out, "%s: %d clients, duration %v, timeout %v", l, d.Clients, d.Duration, d.Timeout)
		for _, i := range []int{0, 1, 10, 75, 150, 151, 200, 201, 1000} {
			if l.Rate > 0 {
				fmt.Fprintf(&out, ", %d due at %v", i, d.due(i).Round(time.Millisecond))
			}
		}
		fmt.Fprintln(&out)
	}
	golden.Equal(t, "testdata/loads.txt", out.String())
}

// TestFigures compares the figures of known times with a file: of one result, and of
// the same times in two results that are merged.
func TestFigures(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, c := range []struct {
		name string
		n    int
		took func(i int) time.Duration
	}{
		{"none", 0, nil},
		{"one", 1, func(int) time.Duration { return time.Microsecond }},
		{"two", 2, func(i int) time.Duration { return time.Duration(i+1) * time.Millisecond }},
		{"three", 3, func(i int) time.Duration { return time.Duration(3-i) * time.Millisecond }},
		{"four", 4, func(i int) time.Duration { return time.Duration((i*7)%5) * time.Millisecond }},
		{"fewMax", fewMax, func(i int) time.Duration { return time.Duration(i+1) * time.Microsecond }},
		{"fewMax and one", fewMax + 1, func(i int) time.Duration { return time.Duration(i+1) * time.Microsecond }},
		{"twice fewMax", 2 * fewMax, func(i int) time.Duration { return time.Duration(i+1) * time.Microsecond }},
		{"beyond the histogram", 2, func(i int) time.Duration { return time.Duration(i) * time.Hour }},
	} {
		whole, halves := newResult(), [2]*Result{newResult(), newResult()}
		for i := range c.n {
			whole.add(c.took(i), nil)
			halves[i%2].add(c.took(i), nil)
		}
		merged := newResult()
		for _, half := range halves {
			merged.merge(half)
		}
		whole.Elapsed, merged.Elapsed = 2*time.Second, 2*time.Second
		text := func(r *Result) string {
			var record Record
			r.Fill(&record)
			s := fmt.Sprintf("n %d, mean %.1f, median %.1f, sd %.1f, from %.1f to %.1f, p90 %.1f, p99 %.1f, p99.9 %.1f, %.1f/s, failures %v,", record.N, record.Mean, record.Median, record.SD, record.Min, record.Max, record.P90, record.P99, record.P999, record.Throughput, record.Failures)
			for _, q := range record.Distribution {
				s += fmt.Sprintf(" %v:%.1f", q.At, q.Nanos)
			}
			return s
		}
		if a, b := text(whole), text(merged); a != b {
			t.Errorf("%s: merged\n%s\nwhole\n%s", c.name, b, a)
		}
		fmt.Fprintf(&out, "%s: %s\n", c.name, text(whole))
	}
	golden.Equal(t, "testdata/figures.txt", out.String())
	r, o := newResult(), newResult()
	late := fmt.Errorf("wrapped: %w", context.DeadlineExceeded)
	for _, err := range []error{late, &Failure{What: "x"}, fmt.Errorf("wrapped: %w", &Failure{What: "x", Err: late}), errors.New("other")} {
		r.add(time.Hour, err)
		o.add(time.Hour, err)
	}
	o.merge(r)
	var record Record
	o.Fill(&record)
	if fmt.Sprint(record.Failures) != "map[error:2 timeout:2 x:4]" || record.N != 0 || record.Mean != 0 || !math.IsInf(o.min, 1) || o.FirstFailure != late || record.Failed() != 8 {
		t.Errorf("failures %v, first %v", record.Failures, o.FirstFailure)
	}
	failure := &Failure{What: "x", Err: late}
	if failure.Error() != "x: wrapped: context deadline exceeded" || !errors.Is(failure, late) || (&Failure{What: "x"}).Error() != "x" {
		t.Errorf("%v", failure)
	}
}

// TestResponses compares what a connection reads of responses with a file.
func TestResponses(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabrest", "HTTP/1.1 200 OK\nContent-Length: 2\n\nab", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\ncontent-length:2\r\nCONNECTION: Close\r\n\r\nab", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nab", "HTTP/1.1 200 OK\r\n\r\nto the end", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", bodyMax+1), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
		"HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20", "HTTP/1.1 20\r\n\r\n", "FTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b", "", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 20<<10) + "\r\n\r\n",
		"HTTP/1.1 201 Created\r\nX-Subject-Token: token \r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\nabc\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\na",
	} {
		c := &conn{in: bufio.NewReaderSize(strings.NewReader(text), 16<<10), body: []byte("old"), subject: []byte("old")}
		status, reusable, err := c.response()
		got := fmt.Sprintf("status %d, reusable %v, body %q, subject %q, rest %d bytes", status, reusable, c.body, c.subject, c.in.Buffered())
		if err != nil {
			got = "error: " + err.Error()
		}
		fmt.Fprintf(&out, "%.120q: %s\n", text, got)
	}
	golden.Equal(t, "testdata/responses.txt", out.String())
}

// TestConnectionIsKept checks when the next request of a client uses the connection
// of the request before it.
func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	for response, want := range map[string]int{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": 1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n": 3, "HTTP/1.1 bad\r\n\r\n": 3} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan int, 1)
		go func() {
			n := 0
			for {
				c, err := l.Accept()
				if err != nil {
					accepted <- n
					return
				}
				n++
				go func() {
					defer c.Close()
					in := bufio.NewReader(c)
					for {
						if _, err := in.ReadString('\n'); err != nil {
							return
						}
						fmt.Fprint(c, response)
					}
				}()
			}
		}()
		all := conns{address: l.Addr().String()}
		for range 3 {
			status, _, err := all.of(1).do(t.Context(), []byte("request\n"))
			if bad := strings.Contains(response, "bad"); (err != nil) != bad || !bad && status != 200 {
				t.Errorf("%q: status %d, error %v", response, status, err)
			}
		}
		if all.of(0) == all.of(1) || len(all.list) != 2 {
			t.Error("two clients share a connection")
		}
		all.close()
		l.Close()
		if n := <-accepted; n != want {
			t.Errorf("%q: %d connections, want %d", response, n, want)
		}
	}
}
