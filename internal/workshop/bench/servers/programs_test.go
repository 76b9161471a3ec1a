package servers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFind finds programs in PATH and by a pattern, and with TEST_SERVERS=none finds none.
// Its error names the package, and [Needed] reads it.
func TestFind(t *testing.T) {
	folder := t.TempDir()
	curl := filepath.Join(folder, "curl")
	if err := os.WriteFile(curl, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	t.Setenv("TEST_SERVERS", "")
	if found, err := Find("curl"); found != curl || err != nil {
		t.Errorf("curl: %q, %v", found, err)
	}
	if _, err := Find("unlisted"); err == nil || !strings.Contains(err.Error(), `program "unlisted": expected one of programs.txt`) {
		t.Errorf("a program that is not in the list: %v", err)
	}
	t.Setenv("TEST_SERVERS", "none")
	for line := range strings.Lines(programs) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		if len(words) != 3 && len(words) != 4 || words[2] != "test" && words[2] != "conformance" {
			t.Errorf("the line %q", line)
			continue
		}
		_, err := Find(words[0])
		if m, ok := errors.AsType[*Missing](err); !ok || *m != (Missing{words[0], words[1]}) {
			t.Errorf("%s: %v", words[0], err)
			continue
		}
		pkg, registry, ok := Needed("databases_test.go:7: " + err.Error())
		if pkg != words[1] || registry != "Debian" || !ok {
			t.Errorf("%q: package %q of %q, %t", err, pkg, registry, ok)
		}
	}
	for name, find := range map[string]func() (string, error){"PostgreSQL": PostgreSQL, "Galera": Galera} {
		if _, err := find(); err == nil {
			t.Errorf("%s is found", name)
		}
	}
	if _, _, ok := Needed("this needs root of the machine"); ok {
		t.Error("a reason without a registry names a package")
	}
}

// TestInstall runs install.sh with an apt-get of the test: it installs the packages of
// what is missing, fetches the lists only if that fails, and names what stays missing.
func TestInstall(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root installs packages")
	}
	script, err := filepath.Abs("install.sh")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"install.sh":   "",
		"programs.txt": "# a comment\nthere-is-none a,b test\nneither c test " + folder + "/*/library\nlater d conformance\nbash bash test\n",
		// The first installation fails for want of lists.
		"apt-get": "#!/bin/bash\ncd " + folder + "\necho \"$*\" >>calls\n" +
			"[ \"$1\" = update ] && touch lists && exit\n[ -f lists ] || exit 100\n[[ \" $* \" != *' d ' ]] || { echo 'E: no package d'; exit 100; }\n" +
			"printf '#!/bin/sh\\n' >there-is-none && chmod +x there-is-none && mkdir -p x && touch x/library\n",
	} {
		if name == "install.sh" {
			whole, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			text = string(whole)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	install := func(names ...string) (string, error) {
		run := exec.Command("bash", append([]string{filepath.Join(folder, "install.sh")}, names...)...)
		run.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		out, err := run.Output()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := install("later"); err == nil || out != "needs d of Debian: later is not installed, and apt-get cannot install it: E: no package d" {
		t.Errorf("a package that cannot be installed: %q, %v", out, err)
	}
	if err := os.Remove(filepath.Join(folder, "lists")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call has nothing to do
		if out, err := install(); err != nil || out != "" {
			t.Errorf("what tests need: %q, %v", out, err)
		}
	}
	if out, err := install("bash", "unlisted"); err == nil || out != "program unlisted: expected one of programs.txt" {
		t.Errorf("a program that is not in the list: %q, %v", out, err)
	}
	calls, err := os.ReadFile(filepath.Join(folder, "calls"))
	const get = "install -y -q --no-install-recommends "
	if want := get + "d\nupdate -q\n" + get + "d\n" + get + "a b c\nupdate -q\n" + get + "a b c\n"; err != nil || !strings.HasPrefix(string(calls), want) {
		t.Errorf("apt-get was called with\n%swant\n%s", calls, want)
	}
}
