package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/server"
)

// TestDiskLevels follows the free space of a disk with a reserve of 800 bytes down and up
// again: a level begins at once, and ends only a hundred bytes above.
func TestDiskLevels(t *testing.T) {
	t.Parallel()
	at := hasRoom
	for i, step := range []struct {
		free int64
		want level
	}{
		{1000, hasRoom}, {999, low}, {1099, low}, {1100, hasRoom}, {800, low}, {799, full}, {899, full}, {400, full}, {399, exhausted}, {499, exhausted},
		{500, full}, {899, full}, {900, low}, {0, exhausted}, {1 << 40, hasRoom}, {400, full}, {1099, low},
	} {
		if at = at.after(step.free, 800); at != step.want {
			t.Fatalf("step %d: with %d bytes free the level is %d, expected %d", i, step.free, at, step.want)
		}
	}
}

// testDisks are the disks of a server whose free space and clock a test sets.
type testDisks struct {
	*disks
	free, size, clock atomic.Int64
	looks             atomic.Int64
	failure           atomic.Pointer[error]
	log               bytes.Buffer
}

// newTestDisks returns disks with a reserve of 800,000 bytes and much room.
func newTestDisks(t *testing.T, folders ...string) *testDisks {
	t.Helper()
	d := &testDisks{}
	d.disks = &disks{log: slog.New(slog.NewTextHandler(&d.log, nil)), now: func() time.Time { return time.Unix(0, d.clock.Load()) }}
	for _, name := range folders {
		d.folders = append(d.folders, &disk{name: name, configured: 800_000, usage: func(string) (uint64, uint64, error) {
			d.looks.Add(1)
			if err := d.failure.Load(); err != nil {
				return 0, 0, *err
			}
			return uint64(d.free.Load()), uint64(d.size.Load()), nil
		}})
	}
	d.size.Store(1 << 40)
	d.set(1 << 30)
	return d
}

// set sets the free space, which the disks see.
func (d *testDisks) set(free int64) {
	d.free.Store(free)
	d.clock.Add(int64(time.Hour))
	d.look(0)
}

// TestDiskLooks counts the looks at the free space: writes do not make one each, but as many
// as needed, so that what is written in between is far less than what is left.
func TestDiskLooks(t *testing.T) {
	t.Parallel()
	d := newTestDisks(t, "data")
	d.set(1 << 30)
	before := d.looks.Load()
	for range 1000 {
		if err := d.room(1000, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.looks.Load() - before; n != 0 {
		t.Errorf("1000 small writes with much room made %d looks, expected none", n)
	}
	d.clock.Add(int64(lookEvery))
	if _ = d.room(1, false); d.looks.Load() != before+1 {
		t.Errorf("a write after %v made %d looks, expected one", lookEvery, d.looks.Load()-before)
	}
	// Something else fills the disk. The clock stands still: only the bytes are a reason to look.
	d.set(1_600_000)
	written, least := int64(0), d.free.Load()
	for {
		if err := d.room(10_000, false); err != nil {
			break
		}
		written += 10_000
		d.free.Add(-amplification * 10_000)
		least = min(least, d.free.Load())
	}
	if written == 0 || least < 800_000*3/4 {
		t.Errorf("writes of %d bytes were accepted down to %d free bytes, expected an end soon below 800000", written, least)
	}
	// A large entry may not use what is left for removals.
	d.set(900_000)
	if err := d.room(300_000, false); !errors.Is(err, authz.ErrDisk) {
		t.Errorf("an entry that would leave less than half of the reserve: %v", err)
	}
	if err := d.room(100_000, false); err != nil {
		t.Errorf("an entry that leaves half of the reserve: %v", err)
	}
}

// TestDiskUnknown has a file system whose free space cannot be found out: writes go on, and
// the log has it once.
func TestDiskUnknown(t *testing.T) {
	t.Parallel()
	d := newTestDisks(t, "data", "log")
	d.set(0)
	if err := d.room(1, false); !errors.Is(err, authz.ErrDisk) {
		t.Fatalf("a full disk: %v", err)
	}
	err := error(fs.ErrPermission)
	d.failure.Store(&err)
	d.look(0)
	d.look(0)
	if err := d.room(1, false); err != nil || d.low() {
		t.Errorf("an unknown disk refuses: %v", err)
	}
	if n := strings.Count(d.log.String(), "cannot be found out"); n != 2 {
		t.Errorf("the log of two folders has it %d times:\n%s", n, &d.log)
	}
	if text := gathered(t, d.disks); strings.Contains(text, "free_bytes") {
		t.Errorf("the metrics have the free space:\n%s", text)
	}
	d.failure.Store(nil)
	d.look(0)
	if err := d.room(1, false); !errors.Is(err, authz.ErrDisk) {
		t.Errorf("a full disk again: %v", err)
	}
}

// gathered returns the metrics of disks.
func gathered(t *testing.T, d *disks) string {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(newDiskFigures(d))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, x := range f.Metric {
			out.WriteString(f.GetName())
			for _, l := range x.Label {
				out.WriteString(" " + l.GetValue())
			}
			value, _ := json.Marshal(x.GetGauge().GetValue() + x.GetCounter().GetValue())
			out.WriteString(" " + string(value) + "\n")
		}
	}
	return out.String()
}

// TestDiskReserveDefault has the reserve of file systems of several sizes.
func TestDiskReserveDefault(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int64{1 << 20: 52428, 64 << 20: 3355443, 5 << 30: 256 << 20, 1 << 50: 256 << 20} {
		d := newTestDisks(t, "data")
		d.folders[0].configured = -1
		d.size.Store(size)
		if d.look(0); d.folders[0].reserve.Load() != want {
			t.Errorf("a disk of %d bytes has a reserve of %d, expected %d", size, d.folders[0].reserve.Load(), want)
		}
	}
	var f diskFlags
	s := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(s)
	if f.reserve() != -1 {
		t.Error("a reserve that is not set has no default of its own")
	}
	if err := s.Set("disk-reserve", "256MiB"); err != nil || f.reserve() != 256<<20 {
		t.Errorf("a reserve that is set to the default is %d, %v", f.reserve(), err)
	}
	if openDisks(cli.InMemory, false, -1, nil) != nil || openDisks(t.TempDir(), false, 0, nil) != nil {
		t.Error("a server in memory, or with --disk-reserve 0, has a reserve")
	}
	log := slog.New(slog.DiscardHandler)
	d := openDisks(t.TempDir()+"/missing/too", true, 1, log)
	if d.folders[0].unknown.Load() || d.folders[1].unknown.Load() || d.folders[1].free.Load() == 0 {
		t.Error("the disk of a folder that is not there yet is unknown")
	}
}

// fullServer is a server with all doors on disks that a test fills.
type fullServer struct {
	*everyDoor
	disks   *testDisks
	handler http.Handler
}

// send sends a request with a key and a token to the server, and returns the status and body.
func (s *fullServer) send(method, path, body string) (int, string) {
	s.t.Helper()
	return s.sendAs(walkerKey, s.identity, method, path, body)
}

func (s *fullServer) sendAs(key, token, method, path, body string) (int, string) {
	s.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "<") {
		r.Header.Set("Content-Type", "application/xml")
	}
	if strings.HasPrefix(path, "/v3/") {
		r.Header.Set("X-Auth-Token", token)
		r.Header.Set("X-Subject-Token", token)
	} else if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	rec := httptest.NewRecorder()
	s.handler.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// must sends a request that must succeed, and returns the body.
func (s *fullServer) must(method, path, body string) string {
	s.t.Helper()
	status, text := s.send(method, path, body)
	if status/100 != 2 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

func startFull(t *testing.T) *fullServer {
	t.Helper()
	d := newTestDisks(t, "data")
	e := must(ostiary.Open(context.Background(), ostiary.Options{Conditions: openfga.Conditions{Inner: cel.New(cel.Options{})}, SecretKey: &[32]byte{1}, Room: d.room}))(t)
	t.Cleanup(func() { e.Close() })
	f := &DoorFlags{}
	f.keystone.Identity.Rounds = password.RoundsMin
	s := &fullServer{everyDoor: everyDoorOf(t, e, f), disks: d}
	running := must(server.New(server.Options{HTTP: "127.0.0.1:0", Doors: s.doors, Log: slog.New(slog.DiscardHandler), DrainTime: -1, RequestTimeout: time.Minute,
		Keys: must(server.NewKeys([]server.Key{{Name: "walker", Secret: walkerKey}}))(t)}))(t)
	s.handler = running.Handler()
	s.bootstrap()
	return s
}

const openfgaModel = `{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc","relations":{"viewer":{"this":{}}},"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"user"}]}}}}]}`

const rootPolicy = `<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="all" Version="1.0"
RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"><Target/><Rule RuleId="all" Effect="Permit"/></Policy>`

const policyType = `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","policy_types":{"onap.policies.Test":{"derived_from":"tosca.policies.Root","version":"1.0.0"}}}`

// TestDiskRefusals fills the disk below a server with all doors: each refuses what adds data, in
// the form of its protocol, and answers reads and removals, until half of the reserve is used;
// then it refuses those as well. With room, each accepts all again.
func TestDiskRefusals(t *testing.T) {
	t.Parallel()
	s := startFull(t)
	var store struct{ ID string }
	if err := json.Unmarshal([]byte(s.must("POST", "/stores", `{"name":"documents"}`)), &store); err != nil {
		t.Fatal(err)
	}
	at, named := "/stores/"+store.ID, "/ostiary/v1/stores/"+store.ID
	s.must("POST", at+"/authorization-models", openfgaModel)
	tuple := func(n string) string { return `{"user":"user:` + n + `","relation":"viewer","object":"doc:1"}` }
	plain := func(n string) string { return `{"subject":"user:` + n + `","relation":"viewer","object":"doc:1"}` }
	s.must("POST", at+"/write", `{"writes":{"tuple_keys":[`+tuple("a")+`,`+tuple("b")+`,`+tuple("c")+`,`+tuple("d")+`]}}`)
	s.must("POST", "/v1/tenants/create", `{"id":"t","name":"t"}`)
	s.must("POST", "/v1/tenants/t/schemas/write", `{"schema":"entity user {}\nentity doc {\n  relation viewer @user\n  permission view = viewer\n}"}`)
	entity := func(n string) string {
		return `{"metadata":{},"tuples":[{"entity":{"type":"doc","id":"` + n + `"},"relation":"viewer","subject":{"type":"user","id":"x"}}]}`
	}
	s.must("POST", "/v1/tenants/t/data/write", entity("0"))
	s.must("POST", "/xacml/v3/domains", `{"name":"rules","alias":"default"}`)
	s.must("PUT", "/xacml/v3/policies/all", rootPolicy)
	s.must("POST", "/policy/api/v1/policytypes", policyType)
	key := func(n string) string { return `{"name":"` + n + `","stores":["*"],"rights":["read"]}` }
	s.must("POST", "/ostiary/v1/keys", key("second"))
	s.must("POST", "/v3/roles", `{"role":{"name":"spare"}}`)
	user := func(n string) string {
		var made struct{ User struct{ ID string } }
		if err := json.Unmarshal([]byte(s.must("POST", "/v3/users", `{"user":{"name":"`+n+`","password":"p"}}`)), &made); err != nil {
			t.Fatal(err)
		}
		return made.User.ID
	}
	bob, eve := user("bob"), user("eve")

	type request struct {
		door, method, path, body string
		status                   int
		text                     string
	}
	const numbers = "bytes are free for the data, and disk-reserve is 800000"
	writes := []request{
		{"openfga", "POST", at + "/write", `{"writes":{"tuple_keys":[` + tuple("n") + `]}}`, 500, numbers},
		{"openfga", "POST", at + "/write", `{"writes":{"tuple_keys":[` + tuple("n") + `]},"deletes":{"tuple_keys":[` + tuple("a") + `]}}`, 500, numbers},
		{"openfga", "POST", at + "/authorization-models", openfgaModel, 500, numbers},
		{"openfga", "POST", "/stores", `{"name":"another"}`, 500, numbers},
		{"native", "POST", named + "/write", `{"add":[` + plain("n") + `]}`, 507, `"code":"disk_full"`},
		{"native", "PATCH", named, `{"name":"renamed"}`, 507, numbers},
		{"native", "POST", "/ostiary/v1/keys", key("third"), 507, numbers},
		{"permify", "POST", "/v1/tenants/t/data/write", entity("1"), 429, numbers},
		{"permify", "POST", "/v1/tenants/create", `{"id":"u","name":"u"}`, 429, numbers},
		{"xacml", "PUT", "/xacml/v3/policies/all", strings.Replace(rootPolicy, `"1.0"`, `"1.1"`, 1), 507, numbers},
		{"onap", "POST", "/policy/api/v1/policytypes", strings.ReplaceAll(policyType, "1.0.0", "2.0.0"), 507, numbers},
		{"keystone", "POST", "/v3/users", `{"user":{"name":"new","password":"p"}}`, 507, "disk-reserve"},
	}
	reads := []request{
		{"openfga", "POST", at + "/check", `{"tuple_key":` + tuple("b") + `}`, 200, `"allowed":true`},
		{"openfga", "POST", at + "/list-objects", `{"type":"doc","relation":"viewer","user":"user:b"}`, 200, "doc:1"},
		{"native", "POST", named + "/check", plain("b"), 200, "true"},
		{"permify", "POST", "/v1/tenants/t/permissions/check", `{"metadata":{"depth":9},"entity":{"type":"doc","id":"0"},"permission":"view","subject":{"type":"user","id":"x"}}`, 200, "ALLOWED"},
		{"xacml", "GET", "/xacml/v3/policies", "", 200, "all"},
		{"onap", "GET", "/policy/api/v1/policytypes", "", 200, "onap.policies.Test"},
		{"keystone", "GET", "/v3/users", "", 200, "bob"},
		{"keystone", "POST", "/v3/auth/tokens", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"` + bob + `","password":"p"}}}}}`, 201, "bob"},
		{"keystone", "POST", "/v3/auth/tokens", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"` + bob + `","password":"wrong"}}}}}`, 401, ""},
	}
	removals := []request{
		{"openfga", "POST", at + "/write", `{"deletes":{"tuple_keys":[` + tuple("a") + `]}}`, 200, ""},
		{"native", "POST", named + "/write", `{"remove":[` + plain("d") + `]}`, 200, ""},
		{"native", "DELETE", "/ostiary/v1/keys/second", "", 200, "second"},
		{"permify", "POST", "/v1/tenants/t/data/delete", `{"tuple_filter":{"entity":{"type":"doc","ids":["0"]}},"attribute_filter":{}}`, 200, ""},
		{"onap", "DELETE", "/policy/api/v1/policytypes/onap.policies.Test/versions/1.0.0", "", 200, ""},
		{"xacml", "DELETE", "/xacml/v3/policies", "", 200, ""},
		{"keystone", "DELETE", "/v3/users/" + eve, "", 204, ""},
		{"keystone", "DELETE", "/v3/auth/tokens", "", 204, ""},
		{"openfga", "DELETE", at, "", 204, ""},
	}
	play := func(when string, all []request) {
		t.Helper()
		for _, r := range all {
			if status, text := s.send(r.method, r.path, r.body); status != r.status || !strings.Contains(text, r.text) {
				t.Errorf("%s: %s: %s %s %s: %d %s, expected %d with %q", when, r.door, r.method, r.path, r.body, status, text, r.status, r.text)
			}
		}
	}
	s.disks.set(799_999)
	play("below the reserve", writes)
	if ready, details := s.disks.ready(); !ready || !strings.Contains(fmt.Sprint(details), "writes that add data are refused") {
		t.Errorf("a server below its reserve is ready: %v, %v", ready, details)
	}
	play("below the reserve", reads)
	if _, text := s.send("POST", "/v3/users", `{"user":{"name":"new"}}`); strings.Contains(text, "799999") {
		t.Errorf("Identity, whose callers may have no token, shows the free space: %s", text)
	}
	if status, text := s.sendAs("", "", "POST", at+"/write", `{"writes":{"tuple_keys":[`+tuple("n")+`]}}`); status != 401 || strings.Contains(text, "disk") {
		t.Errorf("a stranger learns about the disk: %d %s", status, text)
	}

	s.disks.set(399_999)
	play("below half of the reserve", reads)
	for _, r := range removals {
		if status, text := s.send(r.method, r.path, r.body); status/100 == 2 || !strings.Contains(text, "disk-reserve") {
			t.Errorf("below half of the reserve: %s: %s %s: %d %s", r.door, r.method, r.path, status, text)
		}
	}

	s.disks.set(500_000) // an eighth of the reserve above its half
	token := s.identity
	play("with half of the reserve again", removals)
	if status, _ := s.sendAs("", token, "GET", "/v3/users", ""); status != 401 {
		t.Errorf("a token that was revoked on a full disk is accepted: %d", status)
	}

	if ready, details := s.disks.ready(); !ready || details == nil {
		t.Errorf("a server below half of its reserve is ready: %v, %v", ready, details)
	}
	s.disks.set(899_999)
	if status, text := s.send("POST", "/stores", `{"name":"another"}`); status != 500 {
		t.Errorf("a little above the reserve: %d %s", status, text)
	}
	s.disks.set(900_000)
	s.must("POST", "/stores", `{"name":"another"}`)
	if ready, details := s.disks.ready(); !ready || details != nil {
		t.Errorf("a server with room is ready: %v, %v", ready, details)
	}
	if text, want := gathered(t, s.disks.disks), "ostiary_disk_free_bytes data 900000\nostiary_disk_full data 0\nostiary_disk_reserve_bytes data 800000\nostiary_disk_writes_refused_total 2"; !strings.HasPrefix(text, want) {
		t.Errorf("the metrics are\n%s", text)
	}
	for text, want := range map[string]int{"writes that add data are refused": 2, "every write is refused": 1, "writes are accepted": 1} {
		if n := strings.Count(s.disks.log.String(), text); n != want {
			t.Errorf("the log has %q %d times, expected %d:\n%s", text, n, want, &s.disks.log)
		}
	}
}
