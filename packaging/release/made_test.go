package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/nfpm/v2/deb"
)

// TestMade makes a release twice, in two clones in two folders, and looks at what it has
// made: the archive, the signature, the packages from installation to purge, the pages that
// install them, and the image as it runs. It takes the newest commit of this clone.
func TestMade(t *testing.T) {
	needs(t)
	public := newKey(t)
	top := t.TempDir()
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	here, err := git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		t.Fatal(err)
	}
	one := clone{t, filepath.Join(top, "one")}
	two := clone{t, filepath.Join(top, "another", "folder", "two")}
	clone{t, top}.git("clone", "-q", here, one.dir)
	text, err := os.ReadFile(filepath.Join(one.dir, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	one.write("CHANGELOG.md", regexp.MustCompile(`(?m)^## .*$`).ReplaceAllString(strings.Replace(string(text), heading(entries(string(text))), "#! v0.999.0", 1), "## v0.0.1"))
	text, _ = os.ReadFile(filepath.Join(one.dir, "CHANGELOG.md"))
	one.write("CHANGELOG.md", strings.Replace(string(text), "#! ", "## ", 1))
	one.commit("v0.999.0")
	clone{t, top}.git("clone", "-q", one.dir, two.dir)

	dist := filepath.Join(top, "dist")
	for c, out := range map[clone]string{one: dist, two: filepath.Join(top, "again")} {
		if err := run(t.Context(), c.dir, []string{"-version", "v0.999.0", "-targets", host().String(), "-out", out}, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	processor := host().processor
	rpmProcessor := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[processor]
	chart := "ostiary-0.999.0.tgz"
	tgz, img, cdx := "ostiary-0.999.0-linux-"+processor+".tar.gz", "ostiary-0.999.0-image-"+processor+".tar", "ostiary-0.999.0.cdx.json"
	debName, rpmName := "ostiary_0.999.0_"+processor+".deb", "ostiary-0.999.0."+rpmProcessor+".rpm"
	want := slices.Sorted(slices.Values([]string{"RELEASE_NOTES.md", sumsName, signatureName, chart, tgz, img, cdx, debName, rpmName}))
	if got := folder(t, dist); !slices.Equal(got, want) {
		t.Errorf("dist has %v, expected %v", got, want)
	}
	in := func(name string) string { return filepath.Join(dist, name) }
	for _, name := range want {
		a, errA := os.ReadFile(in(name))
		b, errB := os.ReadFile(filepath.Join(top, "again", name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s of two clones differs: %d and %d bytes, %v %v", name, len(a), len(b), errA, errB)
		}
	}
	refused(t, run(t.Context(), one.dir, []string{"-version", "v0.999.0", "-out", dist}, io.Discard), "v0.999.0 is already in")

	t.Run("signature", func(t *testing.T) { signature(t, dist, public) })
	t.Run("archive", func(t *testing.T) { archive(t, in(tgz)) })
	t.Run("notes", func(t *testing.T) { notes(t, in("RELEASE_NOTES.md")) })
	t.Run("chart", func(t *testing.T) { chartPackage(t, one.dir, in(chart)) })
	t.Run("modules", func(t *testing.T) { modules(t, in(cdx)) })
	t.Run("deb", func(t *testing.T) { debian(t, one.dir, top, in(debName)) })
	t.Run("rpm", func(t *testing.T) { red(t, top, in(rpmName)) })
	t.Run("page", func(t *testing.T) { played(t, one.dir, dist) })
	t.Run("image", func(t *testing.T) { container(t, top, in(img)) })
}

// folder returns the names in a folder, in order.
func folder(t *testing.T, dir string) (out []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}

// signature verifies the sums of a release with sha256sum and with the program minisign.
func signature(t *testing.T, dist, public string) {
	needs(t, "minisign=minisign")
	sums, err := os.ReadFile(filepath.Join(dist, sumsName))
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command("sha256sum", "--strict", "--check", sumsName)
	check.Dir = dist
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	key := strings.Split(public, "\n")[1]
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, append(bytes.Clone(sums), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, valid := range map[string]bool{filepath.Join(dist, sumsName): true, other: false} {
		out, err := exec.Command("minisign", "-V", "-P", key, "-m", name, "-x", filepath.Join(dist, signatureName)).CombinedOutput()
		if (err == nil) != valid {
			t.Errorf("minisign on %s: %v, expected valid %t\n%s", name, err, valid, out)
		}
	}
}

// archive looks at the archive: its files, the program's version, and the pages.
func archive(t *testing.T, name string) {
	needs(t, "mandoc=mandoc")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(filepath.Base(name), ".tar.gz") + "/"
	dir := t.TempDir()
	has := map[string]bool{}
	pages := map[string]string{}
	var manual []string
	for _, f := range untar(t, data) {
		inside, ok := strings.CutPrefix(f.name, base)
		if !ok || f.header.Uid != 0 || f.header.ModTime.Year() != 2026 {
			t.Errorf("%s: %+v, expected the folder %s, root and the time of the commit", f.name, f.header, base)
		}
		has[inside] = true
		for dir := path.Dir(inside); dir != "."; dir = path.Dir(dir) {
			has[dir] = true
		}
		if path.Ext(inside) == ".md" {
			pages[inside] = string(f.data)
		}
		to := filepath.Join(dir, filepath.Base(inside))
		if err := os.WriteFile(to, f.data, os.FileMode(f.header.Mode)); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(inside, "man/") {
			manual = append(manual, to)
		}
	}
	for _, file := range []string{"ostiary", "LICENSE", "README.md", "CHANGELOG.md", "packaging/files/ostiary.service", "packaging/files/ostiary-backup.service",
		"packaging/files/ostiary-backup.timer", "packaging/files/ostiary.yaml",
		"docs/start.md", "docs/operate/install.md", "docs/explain.svg", "examples/demo/model.fga", "examples/production/prometheus.yml", "packaging/compose/one.yaml",
		"completions/bash/ostiary", "completions/zsh/_ostiary", "completions/fish/ostiary.fish", "completions/powershell/ostiary.ps1",
		"man/man1/ostiary.1", "man/man1/ostiary-serve.1", "man/man1/ostiary-key-create.1"} {
		if !has[file] {
			t.Errorf("the archive lacks %s", file)
		}
	}
	if notes := pages["CHANGELOG.md"]; !strings.HasPrefix(notes, "## v0.999.0\n") || strings.Count(notes, "\n## ") > 0 {
		t.Errorf("CHANGELOG.md is not the entry of the version: %.200q", notes)
	}
	for name, text := range pages {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if target := l[1]; !strings.HasPrefix(target, "https://") && !has[path.Join(path.Dir(name), target)] {
				t.Errorf("%s of the archive links to %s, which is not in it", name, target)
			}
		}
	}
	if out, err := exec.Command("mandoc", append([]string{"-T", "lint", "-W", "error"}, manual...)...).CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
	page, err := exec.Command("mandoc", "-T", "utf8", filepath.Join(dir, "ostiary-serve.1")).Output()
	if text := regexp.MustCompile(".\b").ReplaceAllString(string(page), ""); err != nil || !strings.Contains(text, "--http string") || !strings.Contains(text, "ostiary-serve - Serve the data over HTTP and gRPC") {
		t.Errorf("the page of serve: %v\n%.2000s", err, text)
	}
}

// notes looks at the notes of the release: each link leads to a site.
func notes(t *testing.T, name string) {
	text, err := os.ReadFile(name)
	if err != nil || !strings.HasPrefix(string(text), "## v0.999.0\n") {
		t.Fatalf("the notes are not the entry of the version: %v %.200q", err, text)
	}
	for _, l := range link.FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(l[1], "https://") {
			t.Errorf("the notes link to %s, which is not beside them", l[1])
		}
	}
}

// chartPackage compares the package of the chart with the chart of the clone.
func chartPackage(t *testing.T, root, name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range untar(t, data) {
		got[f.name] = string(f.data)
	}
	tracked, err := git(root, "ls-files", "--", chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(tracked, "\n")
	for _, name := range names {
		want, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		inside := "ostiary" + strings.TrimPrefix(name, chartFolder)
		text, ok := got[inside]
		switch path.Base(name) {
		case "Chart.yaml":
			ok = strings.Contains(text, "\nversion: 0.999.0\nappVersion: 0.999.0\n") && len(text) == len(want)+2*len("99")
		case "README.md":
			ok = strings.Contains(text, "("+site) && !strings.Contains(text, "](../")
		default:
			ok = ok && text == string(want)
		}
		if !ok {
			t.Errorf("%s of the package is\n%s\nexpected that of the clone, with the version", inside, text)
		}
	}
	if len(got) != len(names) {
		t.Errorf("the package has %d files, the chart %d", len(got), len(names))
	}
}

// modules looks at the list of modules.
func modules(t *testing.T, name string) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BomFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct {
			Name, Version, PURL string
			Hashes              []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal(data, &bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; bom.BomFormat != "CycloneDX" || c.Name != "github.com/ostiary/ostiary" || c.Version != "v0.999.0" {
		t.Errorf("the list is %q of %+v", bom.BomFormat, c)
	}
	found := map[string]bool{}
	for _, c := range bom.Components {
		found[c.Name] = c.Version != "" && strings.HasPrefix(c.PURL, "pkg:golang/")
	}
	for _, m := range []string{"std", "github.com/cockroachdb/pebble/v2", "google.golang.org/grpc"} {
		if !found[m] {
			t.Errorf("the list lacks %s: it has %v", m, found)
		}
	}
	if found["github.com/goreleaser/nfpm/v2"] {
		t.Error("the list has modules of the release program")
	}
}

// TestZip makes the archive for Windows.
func TestZip(t *testing.T) {
	c := newClone(t)
	c.write("LICENSE", "license")
	c.write("README.md", "readme")
	c.write("ostiary.exe", "program")
	c.git("add", "README.md")
	dir := t.TempDir()
	s := &source{root: c.dir, version: "0.1.0", notes: "notes"}
	name, err := archived(s, &built{target: target{"windows", "amd64"}, path: filepath.Join(c.dir, "ostiary.exe")}, &pages{powershell: map[string][]byte{"ostiary.ps1": nil}}, dir)
	if err != nil || name != "ostiary-0.1.0-windows-amd64.zip" {
		t.Fatalf("%s %v", name, err)
	}
	r, err := zip.OpenReader(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for _, f := range r.File {
		got = append(got, strings.TrimPrefix(f.Name, "ostiary-0.1.0-windows-amd64/"))
	}
	if want := []string{"CHANGELOG.md", "LICENSE", "README.md", "completions/powershell/ostiary.ps1", "ostiary.exe"}; !slices.Equal(got, want) {
		t.Errorf("the archive has %v, expected %v", got, want)
	}
}

// unit is the command of the unit, its user, and whether it notifies systemd.
func unit(t *testing.T, s *space) (command []string, user string, notifies bool) {
	t.Helper()
	text := s.run("cat", "/usr/lib/systemd/system/ostiary.service")
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ExecStart":
			command = strings.Fields(value)
		case "User":
			user = value
		case "Type":
			notifies = strings.HasPrefix(value, "notify")
		}
	}
	if len(command) == 0 || user == "" {
		t.Fatalf("the unit has no command or no user:\n%s", text)
	}
	return command, user, notifies
}

// as returns a command of a user without other variables than those given.
func (s *space) as(user string, variables []string, command ...string) *exec.Cmd {
	args := append([]string{"setpriv", "--reuid", user, "--regid", user, "--init-groups", "env", "-i", "-C", "/var/lib/ostiary"}, variables...)
	return s.command(append(args, command...)...)
}

// debian installs the package, serves, upgrades over settings that were changed, removes
// and purges it.
func debian(t *testing.T, root, top, name string) {
	needs(t, "dpkg=dpkg", "curl=curl", "ip=iproute2", "setpriv=util-linux")
	s := newSpace(t, top, true)
	out := s.run("dpkg", "-i", name)
	if !strings.Contains(out, "accepts no request before it has a key") {
		t.Errorf("the installation does not print what to do first:\n%s", out)
	}
	modes := func(want string, names ...string) {
		t.Helper()
		if got := s.run(append([]string{"stat", "-c", "%A %U:%G %n"}, names...)...); got != want {
			t.Errorf("the modes are\n%sexpected\n%s", got, want)
		}
	}
	modes("-rwxr-xr-x root:root /usr/bin/ostiary\n-rw-r----- root:ostiary /etc/ostiary/ostiary.yaml\ndrwx------ ostiary:ostiary /var/lib/ostiary\n-rw-r--r-- root:root /usr/lib/systemd/system/ostiary.service\n",
		"/usr/bin/ostiary", "/etc/ostiary/ostiary.yaml", "/var/lib/ostiary", "/usr/lib/systemd/system/ostiary.service")
	s.run("test", "-f", "/usr/share/man/man1/ostiary-serve.1.gz", "-a", "-f", "/usr/share/bash-completion/completions/ostiary")
	if got := s.run("ostiary", "version"); !regexp.MustCompile(`^ostiary v0\.999\.0 \(commit [0-9a-f]{12} of \d{4}-\d\d-\d\d, go1`).MatchString(got) {
		t.Errorf("version: %s", got)
	}

	command, user, notifies := unit(t, s)
	key := strings.TrimSpace(outputOf(t, s.as(user, nil, "/usr/bin/ostiary", "key", "create", "admin", "--data", "/var/lib/ostiary/data", "--stores", "*", "--rights", "admin", "--expires", "1h")))
	socket := filepath.Join(top, "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	serve := func() *exec.Cmd { return s.as(user, []string{"NOTIFY_SOCKET=" + socket}, command...) }
	p := s.start(serve())
	if notifies {
		text := make([]byte, 4096)
		n, err := listener.Read(text)
		if err != nil || !strings.Contains(string(text[:n]), "READY=1") {
			t.Errorf("the first notification is %q, %v, expected READY=1", text[:n], err)
		}
	}
	s.fails(s.command("curl", "-sS", "--fail-with-body", "http://127.0.0.1:8080/stores"), "401")
	s.fill(key)
	s.decides(key)

	// Another server cannot have its ports or its folder.
	s.fails(s.as(user, nil, "/usr/bin/ostiary", "serve", "--data", "memory"), "127.0.0.1:8080", "another process already listens on it")
	p.stop()

	// Settings that were changed stay, whether or not the new package has others.
	s.run("sh", "-c", "echo 'log-level: debug' >>/etc/ostiary/ostiary.yaml")
	for i, comment := range []string{"", "# new\n"} {
		version := fmt.Sprintf("0.999.%d", i+1)
		upgrade := upgraded(t, s, root, version, comment)
		s.run("dpkg", "--force-confdef", "--force-confold", "-i", upgrade)
		if got := s.run("cat", "/etc/ostiary/ostiary.yaml"); !strings.Contains(got, "log-level: debug") || strings.Contains(got, "# new") {
			t.Errorf("the upgrade to %s changes the settings:\n%s", version, got)
		}
		modes("-rw-r----- root:ostiary /etc/ostiary/ostiary.yaml\n", "/etc/ostiary/ostiary.yaml")
	}
	p = s.start(serve())
	s.decides(key)
	p.stop()

	// A wrong setting, and a folder that root has made.
	s.run("sh", "-c", "echo 'htpp: off' >>/etc/ostiary/ostiary.yaml")
	s.fails(serve(), "htpp", "/etc/ostiary/ostiary.yaml")
	s.run("sed", "-i", "/^htpp/d", "/etc/ostiary/ostiary.yaml")
	s.run("mv", "/var/lib/ostiary/data", "/var/lib/ostiary/kept")
	s.run("install", "-d", "-m", "700", "/var/lib/ostiary/data")
	s.fails(serve(), "/var/lib/ostiary/data", "permission denied", "the program runs as user")
	s.run("rmdir", "/var/lib/ostiary/data")
	s.run("mv", "/var/lib/ostiary/kept", "/var/lib/ostiary/data")

	if out := s.run("dpkg", "-r", "ostiary"); !strings.Contains(out, "the data stay in /var/lib/ostiary") {
		t.Errorf("the removal does not print what stays:\n%s", out)
	}
	s.fails(s.command("ls", "/usr/bin/ostiary"), "No such file")
	s.run("ls", "/etc/ostiary/ostiary.yaml", "/var/lib/ostiary/data/OSTIARY")
	if out := s.run("dpkg", "-P", "ostiary"); !strings.Contains(out, "removed the data in /var/lib/ostiary") {
		t.Errorf("the purge does not print what it removes:\n%s", out)
	}
	s.fails(s.command("ls", "/etc/ostiary", "/var/lib/ostiary"), "'/etc/ostiary'", "'/var/lib/ostiary'")
}

// outputOf returns the standard output of a command that must succeed.
func outputOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, errs.String())
	}
	return string(out)
}

// upgraded makes a package of a later version from the program that is installed, with
// settings that begin with a comment.
func upgraded(t *testing.T, s *space, root, version, comment string) string {
	t.Helper()
	settings := filepath.Join(root, "packaging", "files", "ostiary.yaml")
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, append([]byte(comment), text...), 0o644); err != nil {
		t.Fatal(err)
	}
	src, err := snapshot(root)
	if err != nil {
		t.Fatal(err)
	}
	src.version = version
	program := filepath.Join(filepath.Dir(root), "program-"+version)
	s.run("cp", "/usr/bin/ostiary", program)
	info, err := packageInfo(src, &built{target: host(), path: program}, &pages{}, "deb", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(filepath.Dir(root), "ostiary_"+version+".deb")
	if err := writePackage(deb.Default, info, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// red installs and erases the RPM package.
func red(t *testing.T, top, name string) {
	needs(t, "rpm=rpm", "ip=iproute2")
	s := newSpace(t, top, true)
	if got := s.run("rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{LICENSE} %{BUILDHOST}", name); got != "ostiary 0.999.0 Apache-2.0 localhost" {
		t.Errorf("the package is %q", got)
	}
	if got := s.run("rpm", "-qpc", name); got != "/etc/ostiary/ostiary.yaml\n" {
		t.Errorf("its settings are %q", got)
	}
	if got := s.run("rpm", "-qp", "--requires", name); !strings.Contains(got, "/usr/sbin/useradd") {
		t.Errorf("it requires %q", got)
	}
	s.run("rpm", "-i", "--nodeps", "--force-debian", name)
	if got := s.run("stat", "-c", "%A %U:%G %n", "/etc/ostiary/ostiary.yaml", "/var/lib/ostiary"); got != "-rw-r----- root:ostiary /etc/ostiary/ostiary.yaml\ndrwx------ ostiary:ostiary /var/lib/ostiary\n" {
		t.Errorf("the modes are\n%s", got)
	}
	if got := s.run("ostiary", "version"); !strings.Contains(got, "v0.999.0") {
		t.Errorf("version: %s", got)
	}
	s.run("touch", "/var/lib/ostiary/data")
	if out := s.run("rpm", "-e", "--nodeps", "--force-debian", "ostiary"); !strings.Contains(out, "the data stay in /var/lib/ostiary") {
		t.Errorf("the removal does not print what stays:\n%s", out)
	}
	s.fails(s.command("ls", "/usr/bin/ostiary"), "No such file")
	s.run("ls", "/var/lib/ostiary/data")
}
