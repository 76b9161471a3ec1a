package serve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

const (
	// readyPath is what every HTTP port answers without a key.
	readyPath = "/readyz"
	// healthBytesMax bounds the answer that is read, in bytes.
	healthBytesMax = 1 << 16
)

// healthCommand returns the command for the health checks of containers and scripts.
func (a *app) healthCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{Use: "health", Short: "Find out whether a server is ready", Args: cobra.NoArgs,
		Long: "Find out whether a server is ready: the one of --server, or the one that has the data folder open.\n" +
			"It needs no key. The exit code is 0 if the server is ready, 1 if it is not or does not answer, 2 for a wrong command line.",
		Example: "  ostiary health --data /var/lib/ostiary/data\n  ostiary health --server https://ostiary.example:8080",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			at, err := a.health(ctx)
			if errors.Is(err, cli.ErrUsage) {
				return err
			}
			out := map[string]string{"status": "SERVING", "server": at}
			if err != nil {
				out["status"], out["reason"] = "NOT_SERVING", err.Error()
			}
			if printed := a.Print(out, func(w io.Writer) {
				if err != nil {
					cli.Printf(w, "not ready: %v\n", err)
				} else {
					cli.Printf(w, "ready: %s\n", at)
				}
			}); printed != nil || err == nil {
				return printed
			}
			return cli.ErrDenied
		}}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

// health asks a server whether it is ready, and returns its URL. It fails if the server is
// not ready or does not answer before ctx ends.
func (a *app) health(ctx context.Context) (at string, err error) {
	if a.Server != "" {
		transport, err := (&cli.Server{App: a.App, URL: a.Server, Flag: "--server"}).Transport()
		if err != nil {
			return "", err
		}
		_, err = askReady(ctx, transport, a.Server)
		return a.Server, err
	}
	if a.Data == cli.InMemory {
		return "", fmt.Errorf("%w: a server with --data memory has no folder that has its address: name it with --server", cli.ErrUsage)
	}
	holder := cli.ServerOf(a.Data)
	if holder == nil {
		return "", fmt.Errorf("no server has the folder %s open, or it is still starting", a.Data)
	}
	// The port of metrics has connections of its own, so clients cannot keep out the question.
	port := holder.Ports["metrics"]
	if port == "" {
		port = holder.Ports["http"]
	}
	if port == "" {
		return "", fmt.Errorf("the server of the folder %s (process %d) has no HTTP port: expected --http or --metrics", a.Data, holder.PID)
	}
	at, port = "http://"+port, reachable(port)
	// Nothing secret is sent, and the certificate is for the server's name instead of this address.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	if holder.TLS {
		if wrong, err := askReady(ctx, transport, "https://"+port); !wrong {
			return "https" + strings.TrimPrefix(at, "http"), err
		}
	}
	_, err = askReady(ctx, transport, "http://"+port)
	return at, err
}

// reachable returns the address at which this machine reaches a port, which may be that of
// all addresses.
func reachable(port string) string {
	host, number, err := net.SplitHostPort(port)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return port
	} else if ip.To4() != nil {
		host = "127.0.0.1"
	} else {
		host = "::1"
	}
	return net.JoinHostPort(host, number)
}

// askReady asks the server at a URL whether it is ready, and returns an error if it is not.
// plain is true if the server answers without TLS and the URL is for TLS.
func askReady(ctx context.Context, transport http.RoundTripper, at string) (plain bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(at, "/")+readyPath, nil)
	if err != nil {
		return false, err
	}
	resp, err := transport.RoundTrip(r)
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return true, err
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("no answer from %s in time", at)
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, healthBytesMax))
	var answer struct{ Status string }
	if resp.StatusCode == http.StatusOK && json.Unmarshal(text, &answer) == nil && answer.Status == "SERVING" {
		return false, nil
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return false, fmt.Errorf("the server at %s starts, stops, waits for other nodes, or its disk has failed", at)
	}
	return false, fmt.Errorf("%s answered with status %d: expected a server of Ostiary", at, resp.StatusCode)
}
