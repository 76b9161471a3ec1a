package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// Health is what a process uses besides processor time. Flat figures over a long
// run mean that nothing leaks.
type Health struct {
	Resident   int64 // resident memory, in bytes
	Handles    int   // open files and connections
	Goroutines int   // goroutines
}

// HealthOf returns the figures of a process on this machine, whose metrics are
// at a URL.
func HealthOf(ctx context.Context, pid int, metrics string) (h Health, err error) {
	if h.Resident, err = Resident(pid); err != nil {
		return h, err
	}
	if h.Handles, err = Handles(pid); err != nil {
		return h, err
	}
	n, err := metricOf(ctx, metrics, "go_goroutines")
	h.Goroutines = int(n)
	return h, err
}

// metricOf returns a metric without labels of a server whose metrics are at a URL.
func metricOf(ctx context.Context, url, name string) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	// A connection that stays open would count as a handle of the server.
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return metricIn(response.Body, name)
}

// Writes reports whether a node is the one of its cluster that writes, as /readyz of its
// metrics at HOST:PORT has it.
func Writes(ctx context.Context, metrics string) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metrics+"/readyz", nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	var ready struct{ Node struct{ Role string } }
	if err := json.NewDecoder(response.Body).Decode(&ready); err != nil {
		return false, fmt.Errorf("readiness of %s: %w", metrics, err)
	}
	return ready.Node.Role == "holder", nil
}

// Growth returns what grew between two moments by more than a long run without
// leaks explains: a tenth and 16 MiB of memory, 16 handles, or 16 goroutines. It
// returns "" if nothing did.
func (h Health) Growth(later Health) string {
	const slack = 16
	switch {
	case later.Resident > h.Resident+h.Resident/10+slack<<20:
		return fmt.Sprintf("resident memory grew from %d to %d bytes", h.Resident, later.Resident)
	case later.Handles > h.Handles+slack:
		return fmt.Sprintf("handles grew from %d to %d", h.Handles, later.Handles)
	case later.Goroutines > h.Goroutines+slack:
		return fmt.Sprintf("goroutines grew from %d to %d", h.Goroutines, later.Goroutines)
	}
	return ""
}

// Handles returns the number of open files and connections of a process.
func Handles(pid int) (int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, errors.Join(errProcess, err)
	}
	return len(list), nil
}

// metricIn reads a metric without labels from metrics in the text format of Prometheus.
func metricIn(metrics io.Reader, name string) (float64, error) {
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("bench: the metrics have no %s", name))
}
