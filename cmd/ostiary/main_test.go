package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/storage/pebble"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ostiary": func() { start(testLogs()) }, "ostiary-bench": measure, shared: obey})
}

// TestScripts runs testdata/*.txtar, each in a new folder, with the real program.
// What a script starts with exec is a process; its other commands share one, see
// [commands]. OSTIARY_REWRITE=1 rewrites the files that "cmp" compares with.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       golden.Rewrite(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               share,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"served": served, "certificates": certificates(t), "many": many, "terminate": terminate, "hangup": hangup, "await": await, "ask": ask, "drill": drill, "hostile": hostile, "hold": hold, "occupy": occupy, "flip": flip, "blank": blank, "marker": marker, "code": code, "login": login, "pick": pick, "interrupt-import": interruptImport,
		},
	})
}

// hold opens a data folder in this process until the script ends.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	d, err := pebble.Open(ts.MkAbs(args[0]), pebble.Options{})
	ts.Check(err)
	ts.Defer(func() { d.Close() })
}

// occupy listens on a free port until the script ends, and sets PORT to it.
func occupy(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv("PORT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// flip changes one bit in the middle of every file that matches a pattern.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("no file matches %s", args[0])
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		ts.Check(err)
		if len(text) > 0 {
			text[len(text)/2] ^= 0x10
		}
		ts.Check(os.WriteFile(f, text, 0o600))
	}
}

// blank replaces the content of every file that matches a pattern with zeros.
func blank(ts *testscript.TestScript, neg bool, args []string) {
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("no file matches %s", args[0])
	}
	for _, f := range files {
		info, err := os.Stat(f)
		ts.Check(err)
		ts.Check(os.WriteFile(f, make([]byte, info.Size()), 0o600))
	}
}

// marker changes a text in a data folder's marker: marker DIR OLD NEW.
func marker(ts *testscript.TestScript, neg bool, args []string) {
	name := filepath.Join(ts.MkAbs(args[0]), "OSTIARY")
	text, err := os.ReadFile(name)
	ts.Check(err)
	changed := bytes.Replace(text, []byte(args[1]), []byte(args[2]), 1)
	if bytes.Equal(changed, text) {
		ts.Fatalf("the marker does not hold %q:\n%s", args[1], text)
	}
	ts.Check(os.WriteFile(name, changed, 0o600))
}

// hostile writes files that exceed the limits of the parsers.
func hostile(ts *testscript.TestScript, neg bool, args []string) {
	const deep = 100_000
	head := "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define a: [user]\n    define b: "
	doc := `{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc","relations":{"a":`
	var types strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&types, "type t%d\n", i)
	}
	for name, text := range map[string]string{
		"deep.fga":     head + strings.Repeat("(", deep) + "a" + strings.Repeat(")", deep) + "\n",
		"deep.json":    doc + strings.Repeat(`{"union":{"child":[`, deep) + `{"this":{}}` + strings.Repeat(`]}}`, deep) + "}}]}",
		"depth.json":   doc + strings.Repeat(`{"union":{"child":[{"this":{}},`, 120) + `{"this":{}}` + strings.Repeat(`]}}`, 120) + "}}]}",
		"union.fga":    head + "a" + strings.Repeat(" or a", 10_000) + "\n",
		"types.fga":    "model\n  schema 1.1\n" + types.String(),
		"long.fga":     head + strings.Repeat("a", 1<<20) + "\n",
		"big.fga":      head + "a\n" + strings.Repeat("#\n", 1<<20),
		"braces.fga":   head + "a\ncondition c(x: int) {\n" + strings.Repeat("{", deep) + "\n}\n",
		"open.fga":     head + "a\ncondition c(x: int) {\n  x < 1\n" + types.String(),
		"costly.fga":   "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define a: [user with c]\ncondition c(x: list<int>) {\n  x.all(a, x.all(b, x.all(c, x.all(d, a + b + c + d >= 0))))\n}\n",
		"deep.yaml":    strings.Repeat("[", deep),
		"bomb.yaml":    "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\n",
		"deep.jsonl":   `{"user":"user:a","relation":"a","object":"doc:1","condition":{"name":"c","context":{"x":` + strings.Repeat("[", deep) + "}}}",
		"long.csv":     "user_type,user_id,relation,object_type,object_id\nuser," + strings.Repeat("x", 1<<20) + ",a,doc,1\n",
		"quote.csv":    "user_type,user_id,relation,object_type,object_id\nuser,\"" + strings.Repeat("\n", 1<<20),
		"numbers.json": `{"x":[` + strings.Repeat("1,", 2_000) + "1]}",
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// The beginnings of the paths of the native API.
const (
	nativePrefix = "/ostiary/v1"
	nativePath   = nativePrefix + "/stores/"
)
