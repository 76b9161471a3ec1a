// Package xacml runs AuthzForce, a decision point for XACML 3.0 in Java, in one run
// with package policy: both decide on the same policies and requests. It is a module
// of its own that nothing imports. Its files are those of peer, which Maven compiles
// against AuthzForce's own packages from Maven Central.
package xacml

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/policy/message"
)

// work is the ignored folder of what is downloaded and compiled.
const work = ".work"

// missing installs the programs that AuthzForce needs. If it cannot, it returns why.
func missing() string {
	out, err := exec.Command("bash", "../../internal/workshop/bench/servers/install.sh", "java", "javac", "mvn").Output()
	if err != nil {
		return strings.TrimSpace(string(out))
	}
	return ""
}

// build downloads AuthzForce and compiles the peer, unless that is done. It returns
// the class path.
func build() (string, error) {
	jars, classes := filepath.Join(work, "jars"), filepath.Join(work, "classes")
	if _, err := os.Stat(jars); err != nil {
		fresh := filepath.Join(work, "download")
		if err := os.RemoveAll(fresh); err != nil {
			return "", err
		}
		full, err := filepath.Abs(fresh)
		if err != nil {
			return "", err
		}
		const plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.7.1:copy-dependencies"
		if err := run("mvn", "-q", "-B", "-f", "pom.xml", plugin, "-DincludeScope=runtime", "-DoutputDirectory="+full); err != nil {
			return "", err
		}
		if err := os.Rename(fresh, jars); err != nil {
			return "", err
		}
	}
	path := filepath.Join(jars, "*")
	if err := os.MkdirAll(classes, 0o755); err != nil {
		return "", err
	}
	if err := run("javac", "-cp", path, "-d", classes, filepath.Join("peer", "Peer.java")); err != nil {
		return "", err
	}
	return classes + string(os.PathListSeparator) + path, nil
}

// run runs a program. The error has what it printed.
func run(name string, arguments ...string) error {
	if out, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// authzForce is a running peer with a folder for its files.
type authzForce struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	folder  string
}

// start starts the peer with a bound on its memory. The folder must exist.
func start(folder string) (*authzForce, error) {
	classes, err := build()
	if err != nil {
		return nil, err
	}
	a := &authzForce{process: exec.Command("java", "-Xmx3g", "-cp", classes, "Peer"), folder: folder}
	if a.in, err = a.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	return a, a.process.Start()
}

// stop ends the peer.
func (a *authzForce) stop() error {
	if err := a.in.Close(); err != nil {
		return err
	}
	return a.process.Wait()
}

// refusal is an error that the peer answers.
type refusal string

// Error returns the text of the peer.
func (r refusal) Error() string { return "authzforce: " + string(r) }

// command sends a command and returns the words of the answer.
func (a *authzForce) command(words ...string) ([]string, error) {
	if _, err := fmt.Fprintln(a.in, strings.Join(words, "\t")); err != nil {
		return nil, err
	}
	line, err := a.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("authzforce ended: %w", err)
	}
	result, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if result != "ok" {
		return nil, refusal(text)
	}
	return strings.Fields(text), nil
}

// configuration is the configuration of the peer: the locations of the policies, the
// kind of the root and its id.
const configuration = `<pdp xmlns="http://authzforce.github.io/core/xmlns/pdp/8" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" version="8.1" xPathEnabled="true" maxIntegerValue="9999999999999999999999" clientRequestErrorVerbosityLevel="10">
<policyProvider id="policies" xsi:type="StaticPolicyProvider">%s</policyProvider>
<rootPolicyRef policySet="%t">%s</rootPolicyRef>
<ioProcChain>
<requestPreproc>urn:ow2:authzforce:feature:pdp:request-preproc:xacml-xml:multiple:repeated-attribute-categories-lax</requestPreproc>
<resultPostproc>urn:ow2:authzforce:feature:pdp:result-postproc:xacml-xml:default</resultPostproc>
</ioProcChain>
</pdp>
`

// load makes the peer decide with a root and the elements that it refers to, each of
// which refers only to elements before it. It returns the time that the peer needed.
func (a *authzForce) load(root policy.Element, library ...policy.Element) (time.Duration, error) {
	var locations strings.Builder
	for i, e := range append(library[:len(library):len(library)], root) {
		text, err := language.PrintXML(e)
		if err != nil {
			return 0, err
		}
		file := filepath.Join(a.folder, fmt.Sprintf("policy-%d.xml", i))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return 0, err
		}
		fmt.Fprintf(&locations, "<policyLocation>file:%s</policyLocation>", file)
	}
	id, isSet := "", false
	switch root := root.(type) {
	case *policy.Policy:
		id = root.ID
	case *policy.PolicySet:
		id, isSet = root.ID, true
	}
	file := filepath.Join(a.folder, "pdp.xml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, locations.String(), isSet, id), 0o600); err != nil {
		return 0, err
	}
	words, err := a.command("load", file)
	if err != nil {
		return 0, err
	}
	nanos, err := strconv.ParseInt(words[0], 10, 64)
	return time.Duration(nanos), err
}

// request writes a request into a file and returns its path.
func (a *authzForce) request(r *policy.Request) (string, error) {
	file := filepath.Join(a.folder, "request.xml")
	return file, os.WriteFile(file, message.PrintXMLRequest(r), 0o600)
}

// decide returns the peer's response to a request.
func (a *authzForce) decide(r *policy.Request) ([]policy.Result, error) {
	file, err := a.request(r)
	if err != nil {
		return nil, err
	}
	words, err := a.command("decide", file)
	if err != nil {
		return nil, err
	}
	text, err := base64.StdEncoding.DecodeString(words[0])
	if err != nil {
		return nil, err
	}
	return message.ParseXMLResponse(text)
}

// measure returns how many decisions a second the peer makes on a request, with a
// number of threads for a time. The mode is "object" or "xml".
func (a *authzForce) measure(mode string, r *policy.Request, threads int, duration time.Duration) (perSecond float64, err error) {
	file, err := a.request(r)
	if err != nil {
		return 0, err
	}
	words, err := a.command("bench", mode, file, strconv.Itoa(threads), strconv.FormatInt(duration.Milliseconds(), 10))
	if err != nil {
		return 0, err
	}
	var numbers [2]float64
	for i := range numbers {
		if numbers[i], err = strconv.ParseFloat(words[i], 64); err != nil {
			return 0, err
		}
	}
	return numbers[0] / numbers[1] * 1e9, nil
}
