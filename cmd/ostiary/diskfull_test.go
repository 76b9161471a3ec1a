package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	smallDisk    = "128m"
	smallReserve = "8MiB"
	smallLeft    = 7 << 20 // less than the reserve, and more than half of it
	ballastBytes = 24 << 20
	fullRefusals = 5 // of each door, after which its writer ends
)

// mountSmall mounts a small file system, and skips the test where that is not possible.
func mountSmall(t *testing.T, options string) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a small file system is mounted, which needs root")
	}
	dir = t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no small file system can be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return dir
}

// fillDoor is one of the doors that fill the disk.
type fillDoor struct {
	name string
	// write returns the n-th write, and check a request whose answer contains answer once the
	// write is made.
	write, check func(n int) doorRequest
	answer       string

	made    []int // acknowledged writes
	refusal string
}

type doorRequest struct{ method, path, body string }

// sendDoor sends a request to the server.
func (k *killed) sendDoor(r doorRequest) (status int, text string, err error) {
	request, err := http.NewRequest(r.method, k.base+r.path, strings.NewReader(r.body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(r.body, "<") {
		request.Header.Set("Content-Type", "application/xml")
	}
	resp, err := k.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

// must sends a request that must succeed.
func (k *killed) must(t *testing.T, r doorRequest) string {
	t.Helper()
	status, text, err := k.sendDoor(r)
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d %s %v", r.method, r.path, status, text, err)
	}
	return text
}

// startSmall starts the server on the small disk.
func (k *killed) startSmall(t *testing.T) {
	t.Helper()
	t.Setenv("OSTIARY_DISK_RESERVE", smallReserve)
	k.start(t)
}

// fillDoors are five doors with requests that add some 20 KiB each.
func (k *killed) fillDoors() []*fillDoor {
	long := strings.Repeat("x", 180)
	tuples := func(format string) string {
		var all []string
		for i := range 60 {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ",")
	}
	at := "/stores/" + k.store
	return []*fillDoor{
		{name: "openfga", answer: `"allowed":true`,
			write: func(n int) doorRequest {
				return doorRequest{"POST", at + "/write", `{"writes":{"tuple_keys":[` + tuples(fmt.Sprintf(`{"user":"user:%s%%d","relation":"viewer","object":"doc:o%d"}`, long, n)) + `]}}`}
			},
			check: func(n int) doorRequest {
				return doorRequest{"POST", at + "/check", fmt.Sprintf(`{"tuple_key":{"user":"user:%s59","relation":"viewer","object":"doc:o%d"}}`, long, n)}
			}},
		{name: "native", answer: "true",
			write: func(n int) doorRequest {
				return doorRequest{"POST", "/ostiary/v1" + at + "/write", `{"add":[` + tuples(fmt.Sprintf(`{"subject":"user:%s%%d","relation":"viewer","object":"doc:n%d"}`, long, n)) + `]}`}
			},
			check: func(n int) doorRequest {
				return doorRequest{"POST", "/ostiary/v1" + at + "/check", fmt.Sprintf(`{"subject":"user:%s59","relation":"viewer","object":"doc:n%d"}`, long, n)}
			}},
		{name: "permify", answer: "CHECK_RESULT_ALLOWED",
			write: func(n int) doorRequest {
				return doorRequest{"POST", "/v1/tenants/t/data/write", `{"metadata":{},"tuples":[` + tuples(fmt.Sprintf(`{"entity":{"type":"doc","id":"%d"},"relation":"viewer","subject":{"type":"user","id":"%s%%d"}}`, n, long[:100])) + `]}`}
			},
			check: func(n int) doorRequest {
				return doorRequest{"POST", "/v1/tenants/t/permissions/check", fmt.Sprintf(`{"metadata":{"depth":9},"entity":{"type":"doc","id":"%d"},"permission":"view","subject":{"type":"user","id":"%s59"}}`, n, long[:100])}
			}},
		{name: "xacml", answer: "PolicyId",
			write: func(n int) doorRequest {
				return doorRequest{"PUT", fmt.Sprintf("/xacml/v3/policies/p%d", n), fmt.Sprintf(`<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="p%d" Version="1.0" RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"><Description>%s</Description><Target/><Rule RuleId="all" Effect="Permit"/></Policy>`, n, strings.Repeat(long, 100))}
			},
			check: func(n int) doorRequest {
				return doorRequest{"GET", fmt.Sprintf("/xacml/v3/policies/p%d", n), ""}
			}},
		{name: "onap", answer: `"version":"1.0.0"`,
			write: func(n int) doorRequest {
				return doorRequest{"POST", "/policy/api/v1/policytypes", fmt.Sprintf(`{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","policy_types":{"onap.policies.T%d":{"derived_from":"tosca.policies.Root","version":"1.0.0","description":"%s"}}}`, n, strings.Repeat(long, 100))}
			},
			check: func(n int) doorRequest {
				return doorRequest{"GET", fmt.Sprintf("/policy/api/v1/policytypes/onap.policies.T%d/versions/1.0.0", n), ""}
			}},
	}
}

// fill writes through a door until it has been refused often enough.
func (k *killed) fill(d *fillDoor) error {
	for n, refused := 0, 0; refused < fullRefusals; n++ {
		status, text, err := k.sendDoor(d.write(n))
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", d.name, err)
		case status/100 == 2:
			d.made = append(d.made, n)
		case !strings.Contains(text, "disk-reserve"):
			return fmt.Errorf("%s: a write on a full disk: %d %s", d.name, status, text)
		default:
			d.refusal = fmt.Sprint(status)
			refused++
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// verify checks that every acknowledged write of all doors is there.
func (k *killed) verify(t *testing.T, doors []*fillDoor) {
	t.Helper()
	for _, d := range doors {
		lost := 0
		for _, n := range d.made {
			if status, text, err := k.sendDoor(d.check(n)); err != nil || status != 200 || !strings.Contains(text, d.answer) {
				lost++
				t.Logf("%s: write %d: %d %.200s %v", d.name, n, status, text, err)
			}
		}
		if lost > 0 || len(d.made) == 0 {
			t.Errorf("%s: %d of %d acknowledged writes are lost", d.name, lost, len(d.made))
		}
	}
}

// TestDiskFills fills a small disk under load through five doors: each refuses by name, checks
// are answered all the time, removals go on, and no acknowledged write is lost when the server
// is killed and started again on the full disk. When there is room again, it goes on by itself.
func TestDiskFills(t *testing.T) {
	disk := mountSmall(t, "size="+smallDisk)
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, ballastBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &killed{dir: filepath.Join(disk, "data"), live: map[string]bool{}, http: &http.Client{Timeout: time.Minute}}
	t.Cleanup(func() { k.cmd.Process.Kill() })
	k.startSmall(t)
	k.prepare(t)
	k.must(t, doorRequest{"POST", "/v1/tenants/create", `{"id":"t","name":"t"}`})
	k.must(t, doorRequest{"POST", "/v1/tenants/t/schemas/write", `{"schema":"entity user {}\nentity doc {\n  relation viewer @user\n  permission view = viewer\n}"}`})
	k.must(t, doorRequest{"POST", "/xacml/v3/domains", `{"name":"rules","alias":"default"}`})
	spare := k.must(t, doorRequest{"POST", "/stores", `{"name":"spare"}`})
	doors := k.fillDoors()

	var writers, readers sync.WaitGroup
	var over atomic.Bool
	var answered atomic.Int64
	first := doors[0].write(0)
	k.must(t, first)
	k.must(t, doors[2].write(1<<20))
	readers.Go(func() {
		for !over.Load() {
			for _, r := range []doorRequest{doors[0].check(0), doors[2].check(1 << 20)} {
				if status, text, err := k.sendDoor(r); err != nil || status != 200 || !strings.Contains(strings.ToLower(text), "allowed") {
					t.Errorf("a check while the disk fills: %d %s %v", status, text, err)
					return
				}
				answered.Add(1)
			}
		}
	})
	doors[0].write = func(n int) doorRequest { return k.fillDoors()[0].write(n + 1) }
	doors[0].check = func(n int) doorRequest { return k.fillDoors()[0].check(n + 1) }
	for _, d := range doors {
		writers.Go(func() {
			if err := k.fill(d); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	for _, d := range doors {
		t.Logf("%s: %d writes acknowledged, then refused with %s", d.name, len(d.made), d.refusal)
	}
	if t.Failed() {
		return
	}
	k.must(t, doorRequest{"POST", "/stores/" + k.store + "/write", strings.Replace(first.body, `"writes"`, `"deletes"`, 1)})
	var store struct{ ID string }
	mustJSON(t, spare, &store)
	k.must(t, doorRequest{"DELETE", "/stores/" + store.ID, ""})
	over.Store(true)
	readers.Wait()
	t.Logf("%d checks answered while the disk filled", answered.Load())
	k.verify(t, doors)

	k.kill(t)
	k.startSmall(t)
	k.verify(t, doors)
	// The start has given space back: another program takes it.
	usage, err := vfs.Default.GetDiskUsage(disk)
	if err == nil {
		err = os.WriteFile(ballast, make([]byte, ballastBytes+max(0, int(usage.AvailBytes)-smallLeft)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, n int, done func(status int) bool) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			status, text, err := k.sendDoor(doors[1].write(n))
			if err == nil && done(status) {
				return
			}
			if n++; time.Since(begun) > time.Minute {
				t.Fatalf("a minute after %s: %d %s %v", what, status, text, err)
			}
		}
	}
	await("another program has filled the disk", 1<<20, func(status int) bool { return status == http.StatusInsufficientStorage })
	k.verify(t, doors)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	await("there is room again", 1<<21, func(status int) bool { return status/100 == 2 })
	k.verify(t, doors)
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Wait(); err != nil {
		t.Errorf("the server ends with %v", err)
	}
}

// mustJSON decodes a text.
func mustJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// TestReadOnlyDisk starts the server on a file system that is mounted for reads only, after it
// was killed: it answers reads, refuses writes by name, and makes no file.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	disk := mountSmall(t, "size="+smallDisk)
	k := &killed{dir: filepath.Join(disk, "data"), live: map[string]bool{}, http: &http.Client{Timeout: time.Minute}}
	t.Cleanup(func() { k.cmd.Process.Kill() })
	k.start(t)
	k.prepare(t)
	door := k.fillDoors()[0]
	k.must(t, door.write(1))
	k.kill(t)
	if out, err := exec.Command("mount", "-o", "remount,ro", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	k.start(t, "--read-only")
	if text := k.must(t, door.check(1)); !strings.Contains(text, door.answer) {
		t.Errorf("a check: %s", text)
	}
	for _, d := range k.fillDoors() {
		status, text, err := k.sendDoor(d.write(2))
		if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(text, "--read-only") {
			t.Errorf("%s: a write: %d %s %v", d.name, status, text, err)
		}
	}
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Wait(); err != nil {
		t.Errorf("the server ends with %v", err)
	}
}
