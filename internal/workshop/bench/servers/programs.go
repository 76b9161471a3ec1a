package servers

import (
	_ "embed" // the list of programs
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// programs is the list of programs, which install.sh reads too.
//
//go:embed programs.txt
var programs string

// Missing is the error of [Find]: a program is not installed.
type Missing struct {
	Program string
	Package string // the package of Debian that has it
}

// Error names the program and its package. [Needed] reads this form.
func (m *Missing) Error() string {
	return fmt.Sprintf("needs %s of Debian: %s is not installed", m.Package, m.Program)
}

// needed is the form of a text that names a package which a registry has.
var needed = regexp.MustCompile(`\bneeds (.+?) of (Debian|npm|PyPI|Maven Central|the Go module proxy)\b`)

// Needed returns the package that a test lacks and the registry that has it, from the
// reason for which the test was skipped. ok is false if the reason names none.
func Needed(reason string) (pkg, registry string, ok bool) {
	found := needed.FindStringSubmatch(reason)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}

// Find returns the path of a program of programs.txt. The error is a [*Missing] if it is
// not installed. With TEST_SERVERS=none in the environment, no program is: so the tests
// run as on a machine that has none of them.
func Find(name string) (string, error) {
	for line := range strings.Lines(programs) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != name {
			continue
		}
		if os.Getenv("TEST_SERVERS") == "none" {
			return "", &Missing{name, words[1]}
		}
		if len(words) > 3 {
			if found, _ := filepath.Glob(words[3]); len(found) > 0 { // the pattern is correct
				return found[len(found)-1], nil
			}
			return "", &Missing{name, words[1]}
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		// Debian keeps servers there, which is not in the PATH of every user.
		if path, err := exec.LookPath("/usr/sbin/" + name); err == nil {
			return path, nil
		}
		return "", &Missing{name, words[1]}
	}
	return "", fmt.Errorf("program %q: expected one of programs.txt", name)
}

// FindAll returns the error of the first program that [Find] does not find.
func FindAll(names ...string) error {
	for _, name := range names {
		if _, err := Find(name); err != nil {
			return err
		}
	}
	return nil
}

// PostgreSQL returns the folder of PostgreSQL's programs. It fails as [Find] does.
func PostgreSQL() (string, error) {
	path, err := Find("postgres")
	if err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

// Galera returns the file of Galera's library, which MariaDB loads. It fails as [Find]
// does, also if a program is missing that Galera calls.
func Galera() (string, error) {
	if err := FindAll("mariadbd", "mariadb-install-db", "wsrep_sst_rsync", "rsync", "lsof"); err != nil {
		return "", err
	}
	return Find("libgalera_smm.so")
}
