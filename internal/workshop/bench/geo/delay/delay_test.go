package delay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// oneWay is the delay of the tests: 20 ms between hosts of different halves.
func oneWay(from, to int) time.Duration {
	if from%2 == to%2 {
		return 0
	}
	return 20 * time.Millisecond
}

// each runs a test on both kinds of networks.
func each(t *testing.T, test func(t *testing.T, hosts delay.Hosts)) {
	t.Run("namespaces", func(t *testing.T) {
		hosts, err := delay.OpenNamespaces(3, oneWay)
		if errors.Is(err, delay.ErrUnavailable) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		test(t, hosts)
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("loopback", func(t *testing.T) {
		hosts, err := delay.OpenLoopback(3, oneWay)
		if err != nil {
			t.Fatal(err)
		}
		test(t, hosts)
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestMeasure(t *testing.T) {
	each(t, func(t *testing.T, hosts delay.Hosts) {
		m, err := hosts.Measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Hosts) != 2 || m.Hosts[0] < 20*time.Millisecond {
			t.Errorf("delays %v, expected at least 20ms to the first", m.Hosts)
		}
		if m.Expected[0] != 20*time.Millisecond || m.Expected[1] != 0 {
			t.Errorf("expected delays %v", m.Expected)
		}
		if m.Ceiling <= 0 || m.Dropped != 0 {
			t.Errorf("ceiling %v, dropped %d", m.Ceiling, m.Dropped)
		}
		c := hosts.Counters()
		if c.Packets == 0 || c.Bytes < 32<<20 || c.LateMax < c.LateMean {
			t.Errorf("counters %+v", c)
		}
	})
}

// TestProgram asks a server on a host from a client outside, which nothing delays, and
// from a program on another host.
func TestProgram(t *testing.T) {
	python, err := servers.Find("python3")
	if err != nil {
		t.Skip(err)
	}
	each(t, func(t *testing.T, hosts delay.Hosts) {
		port, err := hosts.Port(1, "echo")
		if err != nil {
			t.Fatal(err)
		}
		server := exec.Command(python, "-c", "import socket,sys\ns=socket.socket()\ns.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\ns.bind((sys.argv[1],int(sys.argv[2])))\ns.listen()\nprint('ready',flush=True)\nfor i in range(3):\n c,_=s.accept()\n c.sendall(c.recv(9)+b' back')\n c.close()",
			hosts.Bind(1), fmt.Sprint(port))
		ready, err := server.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := hosts.Start(1, server); err != nil {
			t.Fatal(err)
		}
		defer server.Wait()
		defer server.Process.Kill()
		if _, err := io.ReadFull(ready, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		address, err := hosts.Client(1, "echo")
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "outside")
		if text, err := io.ReadAll(c); string(text) != "outside back" {
			t.Errorf("a client got %q, %v", text, err)
		}
		before := hosts.Counters()
		if address, err = hosts.Reach(0, 1, "echo"); err != nil {
			t.Fatal(err)
		}
		host, at, _ := net.SplitHostPort(address)
		client := exec.Command(python, "-c", "import socket,sys,time\nb=time.time()\nc=socket.create_connection((sys.argv[1],int(sys.argv[2])))\nc.sendall(b'inside')\nt=b''\nwhile True:\n x=c.recv(99)\n if not x: break\n t+=x\nprint(t.decode(),time.time()-b)", host, at)
		var out strings.Builder
		client.Stdout, client.Stderr = &out, os.Stderr
		if err := hosts.Start(0, client); err != nil {
			t.Fatal(err)
		}
		if err := client.Wait(); err != nil {
			t.Fatal(err)
		}
		var took float64
		if _, err := fmt.Sscanf(out.String(), "inside back %f", &took); err != nil {
			t.Fatalf("the program printed %q: %v", out.String(), err)
		}
		if took < 0.08 { // two round trips: the connection, and the question
			t.Errorf("the question took %v s, expected at least 0.08", took)
		}
		begin := time.Now()
		if c, err = hosts.Dial(t.Context(), 0, 1, "echo"); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "dialed")
		if text, err := io.ReadAll(c); string(text) != "dialed back" || time.Since(begin) < 80*time.Millisecond {
			t.Errorf("a connection from another host got %q, %v after %s, expected at least 80ms", text, err, time.Since(begin))
		}
		if got := hosts.Counters().Less(before); got.Packets == 0 || got.Dropped != 0 {
			t.Errorf("carried %+v", got)
		}
	})
}

// TestFull sends more than a queue holds to a host that nothing delays for long enough.
func TestFull(t *testing.T) {
	python, err := servers.Find("python3")
	if err != nil {
		t.Skip(err)
	}
	hosts, err := delay.OpenNamespaces(2, func(int, int) time.Duration { return time.Hour })
	if errors.Is(err, delay.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer hosts.Close()
	address, err := hosts.Reach(0, 1, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	host, at, _ := net.SplitHostPort(address)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	flood := exec.CommandContext(ctx, python, "-c", "import socket,sys\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nwhile True: s.sendto(bytes(1400),(sys.argv[1],int(sys.argv[2])))", host, at)
	if err := hosts.Start(0, flood); err != nil {
		t.Skip(err)
	}
	defer flood.Wait()
	defer stop()
	for hosts.Counters().Dropped == 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("no packet was dropped")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestWrong(t *testing.T) {
	const ms = time.Millisecond
	m := func(dropped int64, got, want time.Duration) delay.Measured {
		return delay.Measured{Hosts: []time.Duration{got}, Expected: []time.Duration{want}, Dropped: dropped}
	}
	for _, c := range []struct {
		m     delay.Measured
		wrong bool
	}{{m(0, 50*ms, 50*ms), false}, {m(0, 64*ms, 50*ms), false}, {m(0, 66*ms, 50*ms), true}, {m(0, 49*ms, 50*ms), true}, {m(1, 50*ms, 50*ms), true}, {m(0, 5*ms, 0), false}} {
		if got := c.m.Wrong(); (got != "") != c.wrong {
			t.Errorf("%+v: %q", c.m, got)
		}
	}
}
