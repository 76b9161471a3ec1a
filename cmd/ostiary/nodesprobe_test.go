package main

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// probe returns the status and the body of a probe; 0 without an answer.
func probe(url string) (int, string) {
	response, err := (&http.Client{Timeout: 20 * time.Second}).Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// TestQuorumProbes loses two of three nodes. The third one answers probes, also when it is
// started again and waits for the others.
func TestQuorumProbes(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 3)
	last := c.all[2]
	c.kill(c.all[0])
	c.kill(c.all[1])
	c.eventually("the node is not ready, and names why", func() bool {
		status, body := probe(last.metrics + "/readyz")
		return status == 503 && strings.Contains(body, `"failure":`)
	})
	if status, body := probe(last.http + "/healthz"); status != 200 {
		t.Errorf("/healthz without a majority: %d, %s", status, body)
	}
	c.kill(last)

	last.http, last.metrics = freeAddress(t), freeAddress(t)
	cmd := exec.Command("ostiary", "serve", "--cluster", "--data", c.folder(last), "--http", last.http, "--grpc", "off", "--metrics", last.metrics, "--nodes-listen", "127.0.0.1:0")
	cmd.Stderr = &last.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	last.cmd, last.ended = cmd, ended
	go func() { _ = cmd.Wait(); close(ended) }()
	last.http, last.metrics = "http://"+last.http, "http://"+last.metrics
	c.eventually("the ports are open", func() bool { status, _ := probe(last.metrics + "/healthz"); return status != 0 || !last.alive() })
	for _, want := range []struct {
		url    string
		status int
		text   string
	}{
		{last.metrics + "/healthz", 200, `"SERVING"`}, {last.http + "/healthz", 200, `"SERVING"`},
		{last.metrics + "/readyz", 503, "waits until a majority of the nodes that keep the log runs"}, {last.http + "/readyz", 503, `"NOT_SERVING"`},
		{last.http + "/stores", 503, "the server is starting"},
	} {
		if status, body := probe(want.url); status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("while the node waits, %s: %d %s, want %d %s", want.url, status, body, want.status, want.text)
		}
	}
	c.fails([]string{"takes no command yet, because it waits for a majority of the nodes that keep the log", "ostiary node recover"}, "node", "list", "--data", c.folder(last))
	if _, body := probe(last.http + "/readyz"); strings.Contains(body, "majority") {
		t.Errorf("a public port has what only the port of metrics has: %s", body)
	}
}
