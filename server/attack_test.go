package server_test

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// attack is one way to attack a server from outside.
type attack struct {
	name  string
	limit int  // of files, 0 for the system's
	tls   bool // over TLS
	run   func(v *victim, t *testing.T) (answer string)
	// prepare makes what the attack needs, before the quiet time. It may be nil.
	prepare func(v *victim, t *testing.T)
}

var attacks = slices.Concat([]attack{
	{"200 gRPC messages held back, no key", 0, false, func(v *victim, t *testing.T) string { return v.holdBack(t, 1, 200, "") }, nil},
	{"20 connections of these, which connect again", 0, false, func(v *victim, t *testing.T) string { return v.holdBack(t, 20, 200, "") }, nil},
	{"200 gRPC messages held back, with a key", 0, false, func(v *victim, t *testing.T) string { return v.holdBack(t, 1, 200, attackKey) }, nil},
	{"200 HTTP bodies held back, with a key", 0, false, (*victim).slowBodies, nil},
	{"400 HTTP bodies held back, 50 each second", 0, false, (*victim).bodiesInTurns, nil},
	{"40,000 ended health watches, each of a new name of 16 KB, no key", 0, false, (*victim).endedWatches, nil},
	{"1,400 idle connections, 1,024 files", 1024, false, (*victim).idle, nil},
	{"1,400 idle connections, 256 files", 256, false, (*victim).idle, nil},
	{"1,000 slow heads", 0, false, (*victim).slowHeads, nil},
	{"6,000 gRPC answers that are not read", 0, false, (*victim).unread, nil},
	{"300 HTTP streams that are not read", 0, false, (*victim).stalled, nil},
	{"100,000 streams reset at once, over TLS", 0, true, (*victim).resets, nil},
	{"200 gRPC watches that are not read, 100,000 writes", 0, false, (*victim).rpcWatches, nil},
	{"200 HTTP watches that are not read, 100,000 writes", 0, false, (*victim).httpWatches, nil},
	{"200 logins to Identity at the same time", 0, false, (*victim).logins, nil},
	{"20 right logins, no attack", 0, false, (*victim).quietLogins, nil},
	{"20 right logins among 120 wrong ones at a time", 0, false, (*victim).wrongLogins, nil},
	{"1,000 logins held back, no key", 0, false, (*victim).heldLogins, nil},
	{"1,400 logins held back, then connections with a key", 0, false, (*victim).manyHeldLogins, nil},
	{"720 bodies held back, on a route of each door", 0, false, (*victim).slowRoutes, nil},
	{"40 deep bodies at the same time", 0, false, (*victim).deepBodies, nil},
	{"128 checks over rings of 10,000 groups", 0, false, (*victim).ringChecks, (*victim).rings},
	{"52 lists with expensive conditions", 0, false, (*victim).conditionLists, (*victim).conditional},
	{"52 of these, whose clients depart", 0, false, (*victim).abandoned, (*victim).conditional},
	{"40 expands of 20,000 users", 0, false, (*victim).expands, (*victim).wide},
	{"10,000 relations in a model, written and checked", 0, false, (*victim).manyRelations, nil},
}, connectionAttacks())

// addressSpace is the memory that a victim may reserve, in KiB. Go reserves more
// than it uses: 600 MB of it are used by an idle server.
const addressSpace = 4 << 20

const (
	attackKey   = "attack-test-key"
	attackModel = `{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc","relations":{"viewer":{"this":{}}},
		"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"user"}]}}}}]}`
)

// TestAttacks attacks the program that OSTIARY_ATTACK names, and prints a table:
// resident memory before, at its peak and some time later, and the 99th
// percentile of a neighbor's checks in quiet and under attack. The server, the
// attacker and the neighbor are three processes; the attacker has the lowest
// priority, because it would be on another machine. The server runs
// under ulimit -v. OSTIARY_ATTACK_REST is that time, by default a minute. With
// OSTIARY_ATTACK_RUNS, each attack is run several times, and the figures are medians.
// "make attack" runs it.
func TestAttacks(t *testing.T) {
	program := os.Getenv("OSTIARY_ATTACK")
	if program == "" {
		t.Skip("OSTIARY_ATTACK=PROGRAM runs it")
	}
	rest := time.Minute
	if text := os.Getenv("OSTIARY_ATTACK_REST"); text != "" {
		var err error
		if rest, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("| attack | MB before | peak | later | p99 in quiet | under attack | neighbor's errors | server's processor time | answer |\n|---|---|---|---|---|---|---|---|---|")
	var resting sync.WaitGroup
	defer resting.Wait()
	for i, a := range attacks {
		if only := os.Getenv("OSTIARY_ATTACK_ONLY"); only != "" && !strings.Contains(a.name, only) {
			continue
		}
		runs, _ := strconv.Atoi(os.Getenv("OSTIARY_ATTACK_RUNS"))
		runs = max(runs, 1)
		rows := make(chan attackRow, runs)
		for range runs {
			var end func() attackRow
			if !t.Run(a.name, func(sub *testing.T) { end = a.play(t, sub, i, program, rest) }) && end == nil {
				t.FailNow() // the server did not start
			}
			resting.Go(func() { rows <- end() })
			time.Sleep(min(rest, settle))
		}
		resting.Go(func() {
			var all []attackRow
			for range runs {
				all = append(all, <-rows)
			}
			fmt.Println(a.row(all))
		})
	}
}

// settle is the time between two attacks. The rest of an attacked server is longer
// and lasts during the next attacks, on other servers: it does almost nothing then.
const settle = 5 * time.Second

// TestAttacker is the attacker's process. It runs the attack that
// OSTIARY_ATTACKER names, as TestAttacks asks, prints the answer, and ends when
// its input does.
func TestAttacker(t *testing.T) {
	text := os.Getenv("OSTIARY_ATTACKER")
	if text == "" {
		t.Skip("TestAttacks runs it")
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	v := &victim{pid: o.PID, http: o.HTTP, grpc: o.GRPC, metrics: o.Metrics, store: o.Store, url: o.URL, client: attackClient(), until: time.Now().Add(attackTime)}
	fmt.Printf("\nANSWER %s\n", strings.ReplaceAll(attacks[o.Attack].run(v, t), "\n", " "))
	io.Copy(io.Discard, os.Stdin)
}

// order is what an attacker attacks.
type order struct {
	Attack                          int
	HTTP, GRPC, Metrics, Store, URL string
	PID                             int
}

// attackTime is how long attacks last that repeat.
const attackTime = 6 * time.Second

// attacker runs an attack in another process and returns its answer. The process
// keeps its connections until stop is called.
func (v *victim) attacker(t *testing.T, attack int) (answer string, stop func()) {
	o, _ := json.Marshal(order{attack, v.http, v.grpc, v.metrics, v.store, v.url, v.pid})
	cmd := exec.Command("nice", "-n", "19", os.Args[0], "-test.run", "^TestAttacker$")
	cmd.Env = append(os.Environ(), "OSTIARY_ATTACKER="+string(o))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Error(err)
		return "", func() {}
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return "", func() {}
	}
	stop = func() {
		in.Close()
		io.Copy(io.Discard, out)
		cmd.Wait()
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if text, ok := strings.CutPrefix(line, "ANSWER "); ok {
			return strings.TrimSpace(text), stop
		}
		if err != nil {
			t.Error("the attacker ended without an answer")
			return "", stop
		}
	}
}

// attackRow is what one run of an attack cost.
type attackRow struct {
	before, peak, later, errors int // MB, and errors of the neighbor
	quiet, attacked             time.Duration
	cpu                         time.Duration // of the server, during the attack
	answer                      string
}

// row returns the line of the table: the medians of the runs, and the answer of the
// last one.
func (a *attack) row(rows []attackRow) string {
	median := func(of func(attackRow) int64) int64 {
		var all []int64
		for _, r := range rows {
			all = append(all, of(r))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %v | %v | %d | %v | %s |", a.name, median(func(r attackRow) int64 { return int64(r.before) }),
		median(func(r attackRow) int64 { return int64(r.peak) }), median(func(r attackRow) int64 { return int64(r.later) }),
		time.Duration(median(func(r attackRow) int64 { return int64(r.quiet) })), time.Duration(median(func(r attackRow) int64 { return int64(r.attacked) })),
		median(func(r attackRow) int64 { return int64(r.errors) }), time.Duration(median(func(r attackRow) int64 { return int64(r.cpu) })), rows[len(rows)-1].answer)
}

// play runs the attack once. end waits until the server has rested, ends it, and
// returns the figures. The server belongs to the test all.
func (a *attack) play(all, t *testing.T, number int, program string, rest time.Duration) (end func() attackRow) {
	v := launchVictim(all, t, program, a.limit, a.tls)
	if a.prepare != nil {
		a.prepare(v, t)
	}
	quiet, _ := v.neighbor(t, 2*time.Second, nil)
	before, cpu := v.resident(t), v.processorTime()
	peak, done := before, make(chan struct{})
	answer, stop := "", func() {}
	go func() {
		defer close(done)
		answer, stop = v.attacker(t, number)
	}()
	sampled := make(chan int)
	go func() {
		top := 0
		for {
			top = max(top, v.resident(t))
			select {
			case sampled <- top:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	attacked, errors := v.neighbor(t, 5*time.Second, done)
	peak = max(peak, <-sampled)
	<-done
	cpu = v.processorTime() - cpu
	stop()
	if a.limit > 0 {
		status, text := v.post(t, "/stores/"+v.store+"/write", `{"writes":{"tuple_keys":[{"user":"user:carl","relation":"viewer","object":"doc:1"}]}}`)
		answer = fmt.Sprintf("%s; then a write: %d %s", answer, status, text)
	}
	ended := time.Now()
	return func() attackRow {
		time.Sleep(rest - time.Since(ended))
		later := v.resident(all)
		if rest >= time.Minute && (later == 0 || later > before*3/2) {
			all.Errorf("%s: %d MB %v after the attack, %d before: expected at most 1.5 times as much", a.name, later, rest, before)
		}
		v.kill()
		return attackRow{before, peak, later, errors, quiet, attacked, cpu, answer}
	}
}

// processorTime returns the processor time that the server has used.
func (v *victim) processorTime() time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.pid))
	_, rest, _ := bytes.Cut(text, []byte(") "))
	var ticks time.Duration
	if fields := bytes.Fields(rest); len(fields) > 12 {
		for _, f := range fields[11:13] { // user and system time, in hundredths of a second
			n, _ := strconv.Atoi(string(f))
			ticks += time.Duration(n)
		}
	}
	return ticks * 10 * time.Millisecond
}

// victim is a server in another process.
type victim struct {
	pid               int
	http, grpc, store string
	metrics           string // the address of its port
	client            *http.Client
	open              []net.Conn // closed after the attack
	url, keyFile      string
	until             time.Time // the end of attacks that repeat
	kill              func()    // ends the process
}

// attackClient returns a client for plain text and TLS.
func attackClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

func launchVictim(all, t *testing.T, program string, limit int, overTLS bool) *victim {
	t.Helper()
	dir := all.TempDir()
	v := &victim{keyFile: filepath.Join(dir, "keys"), url: "http://"}
	if err := os.WriteFile(v.keyFile, []byte(attackKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, []byte("admin "+attackKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--data", filepath.Join(dir, "data"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
		"--auth-keys-file", v.keyFile, "--auth-users-file", users, "--log-level", "error", "--json"}
	if overTLS {
		cert, key := certify(t, dir, "attack", 1)
		args = append(args, "--tls-cert", cert, "--tls-key", key)
		v.url = "https://"
	}
	v.client = attackClient()
	bootstrap := exec.Command(program, "--data", filepath.Join(dir, "data"), "keystone", "bootstrap", "--bootstrap-password", attackKey)
	if out, err := bootstrap.CombinedOutput(); err != nil {
		t.Fatalf("keystone bootstrap: %v: %s", err, out)
	}
	shell := fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, addressSpace)
	if limit > 0 {
		shell = fmt.Sprintf(`ulimit -n %d; %s`, limit, shell)
	}
	cmd := exec.Command("bash", append([]string{"-c", shell, program}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	v.kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	all.Cleanup(v.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var at map[string]string
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	v.pid, v.http, v.grpc, v.metrics = cmd.Process.Pid, at["http"], at["grpc"], at["metrics"]
	v.fill(t)
	return v
}

// fill creates the store of the attacks, with 20,000 tuples.
func (v *victim) fill(t *testing.T) {
	t.Helper()
	var store struct{ ID string }
	_, text := v.post(t, "/stores", `{"name":"attacked"}`)
	if err := json.Unmarshal([]byte(text), &store); err != nil {
		t.Fatal(err, text)
	}
	v.store = store.ID
	v.post(t, "/stores/"+v.store+"/authorization-models", attackModel)
	for i := range 200 {
		var keys []string
		for j := range 100 {
			keys = append(keys, fmt.Sprintf(`{"user":"user:anne","relation":"viewer","object":"doc:a-document-with-a-long-name-%d"}`, 100*i+j))
		}
		if status, text := v.post(t, "/stores/"+v.store+"/write", `{"writes":{"tuple_keys":[`+strings.Join(keys, ",")+`]}}`); status != 200 {
			t.Fatal(text)
		}
	}
}

func (v *victim) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	req, _ := http.NewRequest("POST", v.url+v.http+path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+attackKey)
	req.Header.Set("Content-Type", "application/json")
	return v.do(req)
}

// do sends a request and returns the status and the text of the answer.
func (v *victim) do(req *http.Request) (int, string) {
	resp, err := v.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// neighbor sends checks, and a write now and then, for some time and until done
// is closed. It returns the 99th percentile of the checks and the number of
// errors.
func (v *victim) neighbor(t *testing.T, d time.Duration, done <-chan struct{}) (p99 time.Duration, errors int) {
	t.Helper()
	var took []time.Duration
	for i, end := 0, time.Now().Add(d); ; i++ {
		if time.Now().After(end) {
			if done == nil {
				break
			}
			select {
			case <-done:
				done = nil
			default:
			}
			if done == nil {
				break
			}
		}
		start := time.Now()
		status, _ := v.post(t, "/stores/"+v.store+"/check", `{"tuple_key":{"user":"user:anne","relation":"viewer","object":"doc:a-document-with-a-long-name-7"}}`)
		took = append(took, time.Since(start))
		if status != 200 {
			errors++
		}
		if i%50 == 0 {
			if status, _ := v.post(t, "/stores/"+v.store+"/write", fmt.Sprintf(`{"writes":{"tuple_keys":[{"user":"user:bob","relation":"viewer","object":"doc:%d"}]}}`, time.Now().UnixNano())); status != 200 {
				errors++
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)*99/100].Round(10 * time.Microsecond), errors
}

// resident returns the resident memory of the server in MB, or 0 if it ended.
func (v *victim) resident(t *testing.T) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n / 1024
		}
	}
	return 0
}

// raw opens a gRPC connection.
func (v *victim) raw(t *testing.T, settings ...http2.Setting) *rawRPC {
	return dialRaw(t, v.grpc, settings...)
}

// holdBack announces messages of 4 MiB and holds the last byte of each back. It
// does so on each of the connections, and connects again if the server closes
// one.
func (v *victim) holdBack(t *testing.T, conns, streams int, key string) string {
	results := make([]map[string]int, conns)
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			results[i] = map[string]int{}
			for time.Now().Before(v.until) {
				c := v.raw(t)
				c.SetDeadline(v.until)
				go v.announceAll(t, c, streams, key)
				c.count(results[i], v.until)
			}
		})
	}
	all.Wait()
	return mostFrequent(results)
}

// announceAll announces messages and sends all but the last byte of each.
func (v *victim) announceAll(t *testing.T, c *rawRPC, streams int, key string) {
	part := make([]byte, 16_000)
	var ids []uint32
	for range streams {
		id, err := c.begin("/openfga.v1.OpenFGAService/Check", key)
		if err != nil || c.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{0}, 4<<20)) != nil {
			return
		}
		ids = append(ids, id)
	}
	time.Sleep(200 * time.Millisecond) // let the server open the windows
	for sent := 0; sent+len(part) < 4<<20; sent += len(part) {
		for _, id := range ids {
			if c.WriteData(id, false, part) != nil {
				return
			}
		}
	}
}

// count reads frames until the connection ends, and counts the values of
// grpc-message.
func (c *rawRPC) count(counts map[string]int, until time.Time) {
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			if time.Now().Before(until) {
				counts["closed"]++
			}
			return
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			for _, f := range h.Fields {
				if f.Name == "grpc-message" {
					counts[f.Value]++
				}
			}
		}
	}
}

// mostFrequent adds counts and returns the three largest as text.
func mostFrequent(results []map[string]int) string {
	all := map[string]int{}
	for _, r := range results {
		for text, n := range r {
			all[text] += n
		}
	}
	texts := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(all[b]-all[a], strings.Compare(a, b)) })
	for i, text := range texts {
		texts[i] = fmt.Sprintf("%d × %s", all[text], text)
	}
	return strings.Join(texts[:min(len(texts), 3)], "; ")
}

// slowBodies sends 200 HTTP bodies of 4 MiB without their last byte.
func (v *victim) slowBodies(t *testing.T) string {
	answers := make([]map[string]int, 200)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = map[string]int{v.slowBody("/stores/" + v.store + "/check"): 1} })
	}
	all.Wait()
	return mostFrequent(answers)
}

// bodiesInTurns sends 50 of them each second, so that the server closes
// connections for others again and again.
func (v *victim) bodiesInTurns(t *testing.T) string {
	answers := make([]map[string]int, 400)
	var all sync.WaitGroup
	v.until = time.Now().Add(9 * time.Second)
	for i := range answers {
		all.Go(func() { answers[i] = map[string]int{v.slowBody("/stores/" + v.store + "/check"): 1} })
		time.Sleep(20 * time.Millisecond)
	}
	all.Wait()
	return mostFrequent(answers)
}

// slowBody sends one body without its last byte to a path, and returns the answer.
// The Identity API accepts only smaller ones, and no key.
func (v *victim) slowBody(path string) string {
	size, authorization := 4<<20, "Authorization: Bearer "+attackKey+"\r\n"
	if strings.HasPrefix(path, "/v3/") {
		size, authorization = 100_000, ""
	}
	conn, err := net.Dial("tcp", v.http)
	if err != nil {
		return err.Error()
	}
	conn.SetDeadline(v.until)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"x\":\"", path, authorization, size)
	conn.Write(fourMiB[:size-7])
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "no answer"
		}
		return "closed"
	}
	text, _ := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %.160s", resp.StatusCode, text)
}

var fourMiB = bytes.Repeat([]byte("x"), 4<<20)

// idle opens connections that send nothing.
func (v *victim) idle(t *testing.T) string {
	refused := 0
	for i := range 1400 {
		conn, err := net.DialTimeout("tcp", []string{v.http, v.grpc}[i%2], 200*time.Millisecond)
		if err != nil {
			refused++
			continue
		}
		v.open = append(v.open, conn)
	}
	time.Sleep(2 * time.Second)
	closed := 0
	for _, c := range v.open {
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := io.Copy(io.Discard, c); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	return fmt.Sprintf("%d refused, %d closed", refused, closed)
}

// loginBody is a login with a correct password, which costs a hash.
const loginBody = `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"` + attackKey + `"}}}}}`

// logins logs in on 200 connections, again and again.
func (v *victim) logins(t *testing.T) string {
	results := make([]map[string]int, 200)
	var all sync.WaitGroup
	for i := range results {
		results[i] = map[string]int{}
		all.Go(func() {
			for time.Now().Before(v.until) {
				resp, err := v.client.Post(v.url+v.http+"/v3/auth/tokens", "application/json", strings.NewReader(loginBody))
				if err != nil {
					results[i]["no answer"]++
					continue
				}
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode == http.StatusCreated {
					text = []byte("a token")
				}
				results[i][fmt.Sprintf("%d %.120s", resp.StatusCode, text)]++
			}
		})
	}
	all.Wait()
	return mostFrequent(results)
}

// heldLogins holds back 1,000 logins, without a key.
func (v *victim) heldLogins(t *testing.T) string {
	v.hold(t, 1000)
	return mostFrequent([]map[string]int{v.heldAnswers()})
}

// hold sends logins without their last byte, without a key.
func (v *victim) hold(t *testing.T, n int) {
	for range n {
		if conn, err := net.Dial("tcp", v.http); err == nil {
			v.open = append(v.open, conn)
			conn.SetWriteDeadline(v.until)
			fmt.Fprintf(conn, "POST /v3/auth/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n%s", fourMiB[:99_999])
		}
	}
}

// heldAnswers counts the answers to hold.
func (v *victim) heldAnswers() map[string]int {
	counts := map[string]int{}
	for _, conn := range v.open {
		conn.SetReadDeadline(v.until)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			counts["no answer"]++
		case err != nil:
			counts["closed"]++
		default:
			text, _ := io.ReadAll(resp.Body)
			counts[fmt.Sprintf("%d %.120s", resp.StatusCode, text)]++
		}
	}
	return counts
}

// slowHeads sends a byte of a request's head each 100 ms.
func (v *victim) slowHeads(t *testing.T) string {
	const head = "GET /healthz HTTP/1.1\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
	for range 1000 {
		if conn, err := net.Dial("tcp", v.http); err == nil {
			v.open = append(v.open, conn)
		}
	}
	lost := 0
	for i := 0; time.Now().Before(v.until.Add(6 * time.Second)); i++ {
		lost = 0
		for _, conn := range v.open {
			if _, err := io.WriteString(conn, head[i%len(head):][:1]); err != nil {
				lost++
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Sprintf("%d of %d closed after --header-timeout", lost, len(v.open))
}

// rpcMessage returns a protobuf message of string fields, with gRPC's header.
func rpcMessage(fields ...string) []byte {
	var message []byte
	for i, text := range fields {
		if text != "" {
			message = append(message, byte((i+1)<<3|2), byte(len(text)))
			message = append(message, text...)
		}
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// unread asks for large answers over gRPC with a window of 0 bytes.
func (v *victim) unread(t *testing.T) string {
	c := v.raw(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.SetDeadline(v.until)
	data := rpcMessage(v.store, "", "doc", "viewer", "user:anne") // a ListObjectsRequest
	go func() {
		for range 6000 {
			id, err := c.begin("/openfga.v1.OpenFGAService/ListObjects", attackKey)
			if err != nil || c.WriteData(id, true, data) != nil {
				return
			}
		}
	}()
	counts := map[string]int{}
	c.count(counts, v.until)
	if len(counts) == 0 {
		return "none"
	}
	return mostFrequent([]map[string]int{counts})
}

// stalled opens streams over HTTP and reads nothing. At the end it reads what it
// has got.
func (v *victim) stalled(t *testing.T) string {
	for range 300 {
		conn, err := net.Dial("tcp", v.http)
		if err != nil {
			return err.Error()
		}
		conn.(*net.TCPConn).SetReadBuffer(1024)
		v.open = append(v.open, conn)
		body := `{"type":"doc","relation":"viewer","user":"user:anne"}`
		fmt.Fprintf(conn, "POST /stores/%s/streamed-list-objects HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", v.store, attackKey, len(body), body)
	}
	time.Sleep(5 * time.Second)
	counts := map[string]int{}
	for _, conn := range v.open {
		conn.SetReadDeadline(v.until.Add(10 * time.Second)) // of all together
		text, err := io.ReadAll(conn)
		switch {
		case bytes.Contains(text, []byte("UnsentBytes")):
			counts["UnsentBytesTotal"]++
		case errors.Is(err, os.ErrDeadlineExceeded):
			counts["still open"]++
		case err != nil:
			counts["closed"]++
		default:
			counts["whole after 5 s"]++
		}
	}
	return mostFrequent([]map[string]int{counts})
}

// resets opens streams over TLS and resets each at once. It connects again if
// the server closes the connection.
func (v *victim) resets(t *testing.T) string {
	opened, closed := 0, 0
	for opened < 100_000 {
		n, err := v.resetMany(100_000 - opened)
		if opened += n; err != nil {
			closed++
		}
		if n == 0 && err != nil {
			return fmt.Sprint(opened, " accepted: ", err)
		}
	}
	return fmt.Sprintf("%d opened, the connection was closed %d times", opened, closed)
}

// resetMany opens up to n streams on one connection.
func (v *victim) resetMany(n int) (opened int, err error) {
	raw, err := tls.Dial("tcp", v.http, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return 0, err
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(raw, http2.ClientPreface)
	f := http2.NewFramer(raw, raw)
	f.WriteSettings()
	go io.Copy(io.Discard, raw)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range n {
		block.Reset()
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", "/stores"}, {":authority", "localhost"}} {
			encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		id := uint32(2*i + 1)
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
			return i, err
		}
		if err := f.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			return i, err
		}
	}
	return n, nil
}
