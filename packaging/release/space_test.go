package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// space is a part of this machine with mounts and loopback ports of its own. What is
// installed in it is gone when the test ends.
type space struct {
	t    *testing.T
	pid  int    // of the process that keeps it
	root string // the root folder of its commands
}

// newSpace returns a space. If installs is true, it has a writable copy of this machine's
// files; otherwise it has the files themselves. The folder shared is at the same path in it.
func newSpace(t *testing.T, shared string, installs bool) *space {
	t.Helper()
	s := &space{t: t, root: "/"}
	// crun refuses a machine that has both versions of cgroups.
	script := "set -e; ip link set lo up; [ ! -d /sys/fs/cgroup ] || mount -t cgroup2 none /sys/fs/cgroup"
	if installs {
		s.root = filepath.Join(t.TempDir(), "root")
		script = `set -e
ip link set lo up
top=$(dirname "$1") root=$1 shared=$2
mount -t tmpfs none "$top"
mkdir "$top/upper" "$top/work" "$root"
mount -t overlay none -o lowerdir=/,upperdir="$top/upper",workdir="$top/work" "$root"
mount -t proc none "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs none "$root/run"
mount -t tmpfs none "$root/tmp"
mkdir -p "$root$shared"
chmod 755 "$root"
mount --bind "$shared" "$root$shared"`
	}
	script += "\necho ready\nexec sleep 900"
	cmd := exec.Command("unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", script, "sh", s.root, shared)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if n, err := out.Read(make([]byte, 6)); n == 0 {
		t.Fatalf("no space: %v: %s", err, errs.String())
	}
	s.pid = cmd.Process.Pid
	return s
}

// command returns a command in the space, without the variables of the test.
func (s *space) command(args ...string) *exec.Cmd {
	all := append([]string{"--target", fmt.Sprint(s.pid), "--mount", "--net", "chroot", s.root}, args...)
	cmd := exec.Command("nsenter", all...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	return cmd
}

// run runs a command, which must succeed, and returns what it prints.
func (s *space) run(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// fails runs a command, which must fail and print all the texts.
func (s *space) fails(cmd *exec.Cmd, texts ...string) {
	s.t.Helper()
	out, err := cmd.CombinedOutput()
	if err == nil {
		s.t.Errorf("%v succeeds: %s", cmd.Args, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			s.t.Errorf("%v prints\n%s\nexpected %q", cmd.Args, out, text)
		}
	}
}

// process is a server that runs in a space.
type process struct {
	s     *space
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan error
}

// start starts a server, and returns when it is ready.
func (s *space) start(cmd *exec.Cmd) *process {
	s.t.Helper()
	p := &process{s: s, cmd: cmd, ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { p.ended <- cmd.Wait() }()
	s.t.Cleanup(func() { cmd.Process.Kill() })
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if s.command("curl", "-sf", "http://127.0.0.1:8080/readyz").Run() == nil {
			return p
		}
		select {
		case err := <-p.ended:
			s.t.Fatalf("%v ended: %v\n%s", cmd.Args, err, p.out.String())
		default:
		}
		if time.Now().After(limit) {
			s.t.Fatalf("%v is not ready", cmd.Args)
		}
	}
}

// stop ends a server as systemd and Docker do. Its code must be 0.
func (p *process) stop() {
	p.s.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.s.t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		p.s.t.Fatalf("the server does not stop with code 0: %v\n%s", err, p.out.String())
	}
}

// post sends a request to the native API of the server in the space, and returns the answer.
func (s *space) post(key, path, body string) (out map[string]any) {
	s.t.Helper()
	text := s.run("curl", "-sS", "--fail-with-body", "-H", "Authorization: Bearer "+key, "-H", "Content-Type: application/json", "-d", body, "http://127.0.0.1:8080/ostiary/v1/"+path)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		s.t.Fatalf("%s: %v: %s", path, err, text)
	}
	return out
}

// fill makes a store with one relation.
func (s *space) fill(key string) {
	s.t.Helper()
	s.post(key, "stores", `{"name":"acme","aliases":{"native":"acme"}}`)
	s.post(key, "stores/acme/schemas", `{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\ntype document\n  relations\n    define owner: [user]\n    define viewer: [user] or owner\n"}`)
	s.post(key, "stores/acme/write", `{"add":[{"object":"document:roadmap","relation":"owner","subject":"user:anne"}]}`)
}

// decides checks and explains what fill has stored.
func (s *space) decides(key string) {
	s.t.Helper()
	for user, want := range map[string]bool{"anne": true, "bob": false} {
		if got := s.post(key, "stores/acme/check", `{"object":"document:roadmap","relation":"viewer","subject":"user:`+user+`"}`); got["allowed"] != want {
			s.t.Errorf("check of %s: %v, expected allowed %t", user, got, want)
		}
	}
	why := s.post(key, "stores/acme/explain", `{"object":"document:roadmap","relation":"viewer","subject":"user:anne","text":true}`)
	if text := fmt.Sprint(why); !strings.Contains(text, "owner") || why["allowed"] != true {
		s.t.Errorf("explain: %v, expected allowed through owner", why)
	}
}

// needs skips the test if it is not root's, or if a program of one of these packages of
// Debian, given as PROGRAM=PACKAGE, is missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for users and mounts of its own")
	}
	for _, p := range programs {
		program, pack, _ := strings.Cut(p, "=")
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s of Debian: %v", pack, err)
		}
	}
}
