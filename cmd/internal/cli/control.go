package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
)

const (
	// ControlName is the socket in a data folder, over which a server takes commands
	// that otherwise work on the folder itself. Who may use it is who may open the
	// folder: its owner.
	ControlName = "CONTROL"
	// ControlBytesMax bounds the body of a command, and its answer.
	ControlBytesMax = 64 << 10
)

// ErrNoControl means that no server has a data folder open.
var ErrNoControl = errors.New("no server has the folder open")

// ControlPath returns the path of the socket of a data folder.
func ControlPath(dir string) string { return filepath.Join(dir, ControlName) }

// Control sends a command to the server that has a folder open, and reads its answer.
// The body of the command and the answer are JSON. It fails with the server's error.
func Control(ctx context.Context, dir, command string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var dialer net.Dialer
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", ControlPath(dir))
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server/"+command, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("%w: %s", ErrNoControl, dir)
		}
		return fmt.Errorf("ask the server that has the folder %s open: %w", dir, err)
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, ControlBytesMax))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("the server that has the folder %s open has no command %s: it is of another version, or no node of a cluster without a database", dir, command)
	case resp.StatusCode != http.StatusOK:
		return errors.New(string(bytes.TrimSpace(text)))
	}
	return json.Unmarshal(text, answer)
}
