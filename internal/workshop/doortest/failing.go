package doortest

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage/memory"
)

// Failing plays scripts against doors whose storage fails. It sends each request
// again and again, and each time makes another operation of the storage fail: first
// the first one, at last none.
type Failing struct {
	// Glob matches the script files.
	Glob string
	// Open opens the door for one script over a driver. It registers its cleanup
	// with t.Cleanup.
	Open func(t testing.TB, d *failing.Driver) *door.Door
	// Reopen opens the door again before each request, so that it has nothing in
	// memory and must load everything.
	Reopen bool
	// Optional are operations that may fail without making a request fail.
	Optional []failing.Operation
	// Codes are further statuses of a server's error.
	Codes []string
	// Part is the text with which a successful response of gRPC names the failure of one of
	// its parts; "" if there is none.
	Part string
	// Skip, if not nil, reports whether the response to a path depends on requests
	// that failed before, as counters do. It is not compared.
	Skip func(path string) bool
}

// Run plays the scripts, each as a subtest. It checks that
//
//   - if an operation of the storage failed, the status is that of a server's error:
//     5xx, or Internal, Unavailable or Unknown of gRPC. The expected response is
//     accepted if it is a refusal, or if the operation is optional;
//   - a stream that has begun ends with an error;
//   - no response contains the text of the storage's error;
//   - a request that failed without a change succeeds when it is repeated.
//
// It fails if no operation failed in any script.
func (f Failing) Run(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(f.Glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no script matches %s: %v", f.Glob, err)
	}
	counts := make([]map[failing.Operation]int, len(files))
	t.Run("scripts", func(t *testing.T) {
		for i, file := range files {
			counts[i] = map[failing.Operation]int{}
			t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
				t.Parallel()
				f.play(t, file, counts[i])
			})
		}
	})
	sum := map[failing.Operation]int{}
	for _, c := range counts {
		for o, n := range c {
			sum[o] += n
		}
	}
	if len(sum) == 0 {
		t.Error("no script uses an operation of the storage")
	}
	for _, o := range slices.Sorted(maps.Keys(sum)) {
		t.Logf("%s failed %d times", o, sum[o])
	}
}

// broken is a script that is played against a door over a failing driver.
type broken struct {
	Failing
	file   string
	script *script
	driver *failing.Driver
	player *player
}

// play plays one script and counts the operations that failed.
func (f Failing) play(t testing.TB, file string, counts map[failing.Operation]int) {
	sc, _ := readScript(t, file)
	x := &broken{Failing: f, file: file, script: sc}
	x.open(t, 0)
	for i := range sc.steps {
		// A request may read hundreds of documents, so later operations are a sample.
		for n := 1; ; n += 1 + n/8 {
			hit := x.send(t, i, n)
			if hit == "" {
				break
			}
			counts[hit]++
			if x.driver.Wrote() {
				x.open(t, i)
			}
		}
	}
}

// open opens a new door and plays the first steps without a fault.
func (x *broken) open(t testing.TB, steps int) {
	t.Helper()
	x.driver = failing.New(memory.New())
	x.player = x.newPlayer(t)
	for i := range steps {
		if hit := x.send(t, i, 0); hit != "" {
			t.Fatalf("%s: %s failed without a fault", x.file, hit)
		}
	}
}

// newPlayer opens a door over the driver.
func (x *broken) newPlayer(t testing.TB) *player {
	return Suite{Door: func(t testing.TB) *door.Door { return x.Open(t, x.driver) }}.player(t)
}

// send sends a step's request while the n-th operation fails, and checks the
// response. It returns the operation that failed, or "" if the request has fewer.
func (x *broken) send(t testing.TB, i, n int) failing.Operation {
	t.Helper()
	st := &x.script.steps[i]
	if x.Reopen {
		vars := x.player.vars
		x.player = x.newPlayer(t)
		x.player.vars = vars
	}
	x.driver.Break(failing.Fault{Number: n})
	got, err := x.player.send(st)
	hit, _ := x.driver.Mend()
	if err != nil {
		t.Fatalf("%s:%d: %s %s: %v", x.file, st.line, st.method, st.path, err)
	}
	why := x.player.diff(st, got)
	if x.Skip != nil && x.Skip(st.path) {
		return hit
	}
	if why == "" {
		if hit != "" && (st.status == "OK" || strings.HasPrefix(st.status, "2")) && !slices.Contains(x.Optional, hit) {
			t.Errorf("%s:%d: %s %s succeeded, but operation %d (%s) failed", x.file, st.line, st.method, x.player.fill(st.path), n, hit)
		}
		return hit
	}
	if hit == "" {
		t.Fatalf("%s:%d: %s %s, after an attempt that failed: %s\ngot:\n%s", x.file, st.line, st.method, x.player.fill(st.path), why, got)
	}
	if why := x.failure(got); why != "" {
		t.Errorf("%s:%d: %s %s, while operation %d (%s) failed: %s\ngot:\n%s", x.file, st.line, st.method, x.player.fill(st.path), n, hit, why, got)
	}
	return hit
}

// failure describes why a response is not that of a server whose storage failed; ""
// if it is.
func (f Failing) failure(a *response) string {
	if strings.Contains(a.body, failing.ErrInjected.Error()) {
		return "the text of the storage's error is in the response"
	}
	if slices.Contains(f.Codes, a.status) {
		return ""
	}
	if code, err := strconv.Atoi(a.status); err == nil {
		switch {
		case code >= http.StatusInternalServerError:
			return ""
		case code == http.StatusOK && strings.Contains(a.body, `"error"`):
			return "" // a stream that had begun
		}
		return fmt.Sprintf("status %s, expected an error of the server", a.status)
	}
	if a.status == "OK" && f.Part != "" && strings.Contains(a.body, f.Part) {
		return ""
	}
	if !slices.Contains([]string{"Internal", "Unavailable", "Unknown"}, a.status) {
		return fmt.Sprintf("status %s, expected Internal, Unavailable or Unknown", a.status)
	}
	return ""
}
