package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// shared is the name of the program that obeys orders.
const shared = "ostiary-commands"

// order is a command line, with its folder and variables.
type order struct {
	Folder    string
	Variables []string
	Args      []string
}

// outcome is what a command has written, and its exit code.
type outcome struct {
	Out, Err []byte
	Code     int
}

// obey runs commands that are orders in the standard input, one after the other, and
// writes their outcomes.
func obey() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		err := in.Decode(&o)
		if err == io.EOF {
			return
		}
		if err == nil {
			err = os.Chdir(o.Folder)
		}
		os.Clearenv()
		for _, variable := range o.Variables {
			if name, value, _ := strings.Cut(variable, "="); err == nil {
				err = os.Setenv(name, value)
			}
		}
		if err != nil {
			panic(err)
		}
		var stdout, stderr bytes.Buffer
		a := &cli.App{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Lookup: os.LookupEnv, Environ: os.Environ(), Logs: testLogs()}
		code := run(context.Background(), a, o.Args)
		if err := out.Encode(outcome{stdout.Bytes(), stderr.Bytes(), code}); err != nil {
			panic(err)
		}
	}
}

// commands is the process that the commands of a script share. It starts with the first one.
// A start of the program takes longer than most commands, and the scripts have more than a
// thousand. The process has the folder and the variables of the script. Each command has its
// own [cli.App], and ends before the next one begins.
type commands struct {
	variables []string // the names of the variables that a script may set
	in        *json.Encoder
	out       *json.Decoder
	end       func() // stops the process
}

// sharing is the key of the shared process among the values of a script.
type sharing struct{}

// share gives a script its shared process. A login may take long, because hashes have the
// lowest priority on a busy machine.
func share(e *testscript.Env) error {
	e.Setenv("OSTIARY_KEYSTONE_REQUEST_TIMEOUT", "5m")
	c := &commands{end: func() {}}
	for _, variable := range e.Vars {
		name, _, _ := strings.Cut(variable, "=")
		c.variables = append(c.variables, name)
	}
	e.Values[sharing{}] = c
	e.Defer(func() { c.end() })
	return nil
}

// named finds the variables that a script sets.
var named = regexp.MustCompile(`(?m)^env ([A-Z_]+)=`)

// start starts the process.
func (c *commands) start(ts *testscript.TestScript) {
	text, err := os.ReadFile(filepath.Join("testdata", ts.Name()+".txtar"))
	ts.Check(err)
	for _, found := range named.FindAllStringSubmatch(string(text), -1) {
		c.variables = append(c.variables, found[1])
	}
	cmd := exec.Command(shared)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	c.in, c.out = json.NewEncoder(in), json.NewDecoder(out)
	c.end = func() { _ = in.Close(); _ = cmd.Wait() }
}

// run runs a command of the program in the shared process of the script, and returns its
// exit code.
func (c *commands) run(ts *testscript.TestScript, args []string) int {
	if c.in == nil {
		c.start(ts)
	}
	o := order{Folder: ts.MkAbs("."), Args: args}
	for _, name := range c.variables {
		if value := ts.Getenv(name); value != "" {
			o.Variables = append(o.Variables, name+"="+value)
		}
	}
	var got outcome
	err := c.in.Encode(o)
	if err == nil {
		err = c.out.Decode(&got)
	}
	if err != nil {
		ts.Fatalf("the process of the commands has ended: %v", err)
	}
	_, _ = ts.Stdout().Write(got.Out)
	_, _ = ts.Stderr().Write(got.Err)
	return got.Code
}

// code runs a command and checks its exit code: code N ostiary …
// A command of this program runs in the shared process of the script if there is one.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program args…")
	}
	got := 0
	if c, ok := ts.Value(sharing{}).(*commands); ok && args[1] == "ostiary" {
		got = c.run(ts, args[2:])
	} else if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, expected %s", got, args[0])
	}
}
