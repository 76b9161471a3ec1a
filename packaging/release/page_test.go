package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The programs sudo and systemctl of a space, which has neither. The second one starts what
// the unit of the package starts, as its user.
const (
	sudo = `#!/bin/bash
if [ "$1" = -u ]; then user=$2; shift 2; exec env -i PATH="$PATH" runuser -u "$user" -- "$@"; fi
exec env -i PATH="$PATH" HOME=/root "$@"
`
	systemctl = `#!/bin/bash
unit=/usr/lib/systemd/system/ostiary.service pid=/run/ostiary.pid
of() { sed -n "s/^$1=//p" $unit; }
case $1 in
stop) if [ -f $pid ]; then kill "$(cat $pid)"; while kill -0 "$(cat $pid)" 2>/dev/null; do sleep 0.1; done; rm $pid; fi ;;
start) setpriv --reuid "$(of User)" --regid "$(of Group)" --init-groups $(of ExecStart) >/run/ostiary.log 2>&1 </dev/null & echo $! >$pid ;;
enable) test -f $unit ;;
*) exit 1 ;;
esac
`
)

// played plays docs/operate/install.md, from zero to production, in a space with the Debian
// package of a release, and the command of README for the archive.
func played(t *testing.T, tree, dist string) {
	needs(t, "dpkg=dpkg", "openssl=openssl", "curl=curl", "ip=iproute2")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer("0.1.0", "0.999.0", "amd64", host().processor).Replace(string(text))
	}
	s := newSpace(t, filepath.Dir(dist), true)
	put := func(name, text string) {
		s.t.Helper()
		cmd := s.command("sh", "-c", `cat >"$1" && chmod 755 "$1"`, "sh", name)
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	put("/usr/bin/sudo", sudo)
	put("/usr/bin/systemctl", systemctl)
	begin := "set -e\nmkdir /home/reader\ncd /home/reader\nln -s " + dist + " dist\n"
	var script strings.Builder
	commands := 0
	for _, block := range regexp.MustCompile("(?s)```(\\w+)(?: ([\\w.]+))?\n(.*?)```").FindAllStringSubmatch(read("docs/operate/install.md"), -1) {
		if block[2] != "" {
			script.WriteString("cat >" + block[2] + " <<'END OF FILE'\n" + block[3] + "END OF FILE\n")
		} else if block[1] == "console" {
			for _, command := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(block[3], -1) {
				script.WriteString("echo \"line $LINENO\"\n" + command[1] + "\n")
				commands++
			}
		}
	}
	put("/tmp/page.sh", begin+script.String()+"echo played to the end\nsudo systemctl stop ostiary\n")
	out := s.run("timeout", "120", "bash", "/tmp/page.sh")
	if commands < 20 || !strings.Contains(out, "\nshop ") || !strings.HasSuffix(out, "played to the end\n") {
		t.Errorf("%d commands of docs/operate/install.md print\n%s", commands, out)
	}
	archive := regexp.MustCompile("\\| `(sudo tar [^`]*)` \\|").FindStringSubmatch(read("README.md"))
	if archive == nil {
		t.Fatal("README has no command for the archive")
	}
	put("/tmp/archive.sh", "set -e\ncd /home/reader\nrm /usr/bin/ostiary\n"+archive[1]+"\n/usr/local/bin/ostiary version\n")
	if out := s.run("bash", "/tmp/archive.sh"); !strings.Contains(out, "0.999.0") {
		t.Errorf("after %s, the version is\n%s", archive[1], out)
	}
}
