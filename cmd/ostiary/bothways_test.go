package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// bothWays are command lines that run in this order, on a new data folder and on a
// new server. MODEL, NEXT and TUPLES are files, and OUT is a file that the commands
// may write. A command whose differs is not "" prints something else on a server,
// for that reason; all others print the same and end with the same exit code.
var bothWays = []struct{ line, differs string }{
	{line: "store create acme"},
	{line: "store create acme"},
	{line: "store create acme --same-name"},
	{line: "store rename OTHER spare"},
	{line: "store list --json"},
	{line: "store delete spare"},
	{line: "store delete spare --yes"},
	{line: "store alias acme permify t1"},
	{line: "store get acme"},
	{line: "store get acme --json"},
	{line: "store alias acme nodoor x"},
	{line: "store limit acme"},
	{line: "store limit acme --requests 1000000:2000000 --processor 250"},
	{line: "store limit acme --requests NaN"},
	{line: "store limit acme --processor none"},
	{line: "store get acme"},
	{line: "store limit acme --requests none"},
	{line: "store limit nothing --requests 1"},
	{line: "store get nothing"},
	{line: "store get 01ARZ3NDEKTSV4RRFFQ69G5FAV"},
	{line: "store create again --id 12"},
	{line: "store rename nothing new"},
	{line: "store delete nothing --yes"},
	{line: "schema get"},
	{line: "schema list"},
	{line: "check user:anne viewer doc:1"},
	{line: "tuple write user:anne owner doc:1"},
	{line: "schema write INVALID"},
	{line: "schema write TUPLES"},
	{line: "schema write MODEL"},
	{line: "schema write NEXT"},
	{line: "schema list"},
	{line: "schema get"},
	{line: "schema get --format dsl"},
	{line: "schema get --json"},
	{line: "schema get 01ARZ3NDEKTSV4RRFFQ69G5FAV"},
	{line: "schema assert TESTS"},
	{line: "schema assert WRONG"},
	{line: "tuple write user:anne owner doc:1"},
	{line: "tuple write user:anne owner doc:1 --on-duplicate ignore"},
	{line: "tuple write user:anne owner doc:1"},
	{line: "tuple write user:bob viewer doc:1 --expires 2100-01-01T00:00:00Z"},
	{line: "tuple write group:eng#member viewer doc:2 --json"},
	{line: "tuple import TUPLES"},
	{line: "tuple import TUPLES --on-duplicate ignore"},
	{line: "tuple import TUPLES --on-duplicate ignore --json"},
	{line: "tuple import BROKEN"},
	{line: "tuple import BROKEN --entry 1"},
	{line: "tuple import BROKEN --entry 1 --on-duplicate replace --json"},
	{line: "tuple import REFUSED"},
	{line: "tuple import REFUSED --entry 1"},
	{line: "tuple import TUPLES"},
	{line: "tuple import TUPLES --schema 01ARZ3NDEKTSV4RRFFQ69G5FAV"},
	{line: "tuple import nofile.csv"},
	{line: "tuple write user:bob viewer doc:1 --expires 2200-01-01T00:00:00Z --on-duplicate ignore"},
	{line: "tuple write user:bob viewer doc:1 --expires 2200-01-01T00:00:00Z --on-duplicate replace"},
	{line: "tuple write user:bob viewer doc:1 --on-duplicate later"},
	{line: "tuple write user:bob viewr doc:1"},
	{line: "tuple write doc:1 viewer user:bob"},
	{line: "tuple write user:bob viewer doc"},
	{line: "tuple write user:cy guest doc:1 --condition inside"},
	{line: "tuple write user:cy guest doc:1 --condition insid"},
	{line: "tuple write user:dan guest doc:1 --condition broken --context|{\"n\":0}"},
	{line: "tuple read"},
	{line: "tuple read --user user --relation viewer --json"},
	{line: "tuple read --at 4"},
	{line: "tuple read --at 400"},
	{line: "tuple read --at 1h"},
	{line: "tuple read --at 2026-11-24"},
	{line: "tuple read --object nothing"},
	{line: "tuple read --limit 1 --object doc"},
	{line: "tuple read --cursor nothing"},
	{line: "tuple export"},
	{line: "tuple export OUT"},
	{line: "tuple export --format jsonl --at 5"},
	{line: "tuple export --at 500"},
	{line: "tuple export OUT.txt"},
	{line: "tuple export /dev/null"},
	{line: "check user:anne viewer doc:1"},
	{line: "check user:zoe viewer doc:1 --json"},
	{line: "check user:bob viewer doc:1 --at 4"},
	{line: "check user:zoe viewer doc:1 --contextual-tuple|user:zoe viewer doc:1"},
	{line: "check usr:zoe viewer doc:1"},
	{line: "check user:anne viewr doc:1"},
	{line: "check doc:1 viewer user:anne"},
	{line: "check user:anne viewer doc:*"},
	{line: "check user:anne viewer"},
	{line: "check user:anne viewer doc:1 --schema 01ARZ3NDEKTSV4RRFFQ69G5FAV"},
	{line: "check user:anne viewer doc:1 --at 400"},
	{line: "check user:anne viewer doc:1 --at nothing"},
	{line: "check user:anne viewer doc:1 --context [1]"},
	{line: "check user:cy guest doc:1"},
	{line: "check user:cy guest doc:1 --json"},
	{line: "check user:cy guest doc:1 --at 400"},
	{line: "check user:cy guest doc:1 --context|{\"ip\":\"10.0.0.1\"}"},
	{line: "check user:cy guest doc:1 --context|{\"ip\":\"no address\"}"},
	{line: "check user:dan guest doc:1 --context|{\"m\":1}"},
	{line: "list objects user:cy guest doc"},
	{line: "list objects user:cy guest doc --json"},
	{line: "list subjects user guest doc:1"},
	{line: "list subjects user guest doc:1 --context|{\"ip\":\"10.0.0.1\"}"},
	{line: "list users viewer doc:1"},
	{line: "list objects doc viewer user:anne"},
	{line: "list subjects doc:1 viewer user"},
	{line: "list subjects user viewer doc:1 --cursor nothing"},
	{line: "list objects user:anne viewr doc"},
	{line: "expand viewr doc:1"},
	{line: "expand viewer doc:1 --limit 1"},
	{line: "explain user:cy guest doc:1"},
	{line: "explain user:anne viewr doc:1"},
	{line: "explain user:anne viewer doc:1 --at 400"},
	{line: "explain user:anne viewer doc:1 --origins"},
	{line: "entitlements doc:1 user:anne"},
	{line: "diff doc viewer user:anne"},
	{line: "diff doc viewer user"},
	{line: "watch doc viewer user --object 1", differs: "on a folder, a note says that no other process can write to it"},
	{line: "diff user viewer doc --from 400"},
	{line: "diff user viewer doc --to 1h"},
	{line: "explain user:anne viewer doc:1"},
	{line: "explain user:zoe viewer doc:2 --full"},
	{line: "expand viewer doc:1"},
	{line: "expand viewer doc:1 --levels 2 --json"},
	{line: "list objects user:anne viewer doc"},
	{line: "list objects user:anne viewer doc --limit 1 --json"},
	{line: "list objects user:anne viewer doc --at 4"},
	{line: "list subjects user viewer doc:1"},
	{line: "list subjects group#member viewer doc:2 --json"},
	{line: "entitlements user:anne doc:1 doc:2"},
	{line: "diff user viewer doc --from 3"},
	{line: "what-if --question|user:zoe viewer doc:1 --add|user:zoe viewer doc:1"},
	{line: "changes", differs: "a server without keys has the caller local for each request, also for those of an import"},
	{line: "changes --json --limit 2"},
	{line: "changes --from 400"},
	{line: "changes --from nothing"},
	{line: "changes --type nothing"},
	{line: "watch user viewer doc"},
	{line: "watch user viewer doc:1"},
	{line: "watch user viewr doc --object 1", differs: "on a folder, a note says that no other process can write to it"},
	{line: "watch user viewer doc --object 1 --from nothing"},
	{line: "tuple delete user:anne owner doc:1"},
	{line: "tuple delete user:anne owner doc:1 --on-missing ignore"},
	{line: "tuple delete user:anne owner doc:1"},
	{line: "tuple delete --object doc"},
	{line: "tuple delete --yes --object nothing"},
	{line: "tuple delete --yes --object doc"},
}

// oneWay are the commands that bothWays does not run, with the reason.
var oneWay = map[string]string{
	"bench":            "names the program ostiary-bench",
	"serve":            "is the server",
	"console":          "serves a folder: the script console.txtar",
	"health":           "asks for the server itself: the script health.txtar",
	"demo":             "has a folder and a server of its own",
	"version":          "reads no data",
	"help":             "reads no data",
	"completion":       "reads no data",
	"permify":          "reads files and runs in memory",
	"schema test":      "runs in memory",
	"schema validate":  "reads files",
	"acp":              "refuses --server: the script remote.txtar",
	"migrate":          "refuses --server: the script nodeflags.txtar",
	"node":             "refuses --server: the script nodeflags.txtar",
	"audit":            "reads files",
	"backup":           "refuses --server: the script backup.txtar",
	"verify":           "refuses --server: the script backup.txtar",
	"restore":          "refuses --server: the script backup.txtar",
	"key":              "makes random keys: the script keys.txtar",
	"keystone":         "refuses --server: it makes the keys of the server itself",
	"xacml":            "reads files; load is in the script xacml.txtar",
	"import":           "TestImportContinues and the script import_from.txtar",
	"__complete":       "reads no data",
	"__completeNoDesc": "reads no data",
}

// changing matches what differs in each run: ids, tokens, cursors and times.
var changing = regexp.MustCompile(`\b0[0-9A-HJKMNP-TV-Z]{25}\b|\b[oc]1\.[\w-]+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// TestBothWays runs commands on a folder and on a server and compares the results.
// Every command that works on a store must be in bothWays.
func TestBothWays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := []string{"MODEL", filepath.Join(dir, "model.fga"), "NEXT", filepath.Join(dir, "next.fga"), "TUPLES", filepath.Join(dir, "tuples.csv"), "TESTS", filepath.Join(dir, "tests.fga.yaml"), "WRONG", filepath.Join(dir, "wrong.fga.yaml"), "OUT", filepath.Join(dir, "out.csv"),
		"INVALID", filepath.Join(dir, "invalid.fga"), "BROKEN", filepath.Join(dir, "broken.csv"), "REFUSED", filepath.Join(dir, "refused.csv")}
	const model = "model\n  schema 1.1\ntype user\ntype group\n  relations\n    define member: [user]\ntype doc\n  relations\n    define owner: [user]\n    define viewer: [user, group#member] or owner\n    define guest: [user with inside, user with broken]\n" +
		"condition inside(ip: ipaddress) {\n  ip.in_cidr(\"10.0.0.0/8\")\n}\ncondition broken(m: int, n: int) {\n  m / n > 0\n}\n"
	for name, text := range map[string]string{
		files[1]: model, files[3]: model + "condition more(x: int) {\n  x > 0\n}\n",
		files[7]:  "model_file: model.fga\ntests:\n  - name: t\n    check:\n      - user: user:anne\n        object: doc:1\n        assertions:\n          viewer: true\n",
		files[9]:  "model_file: model.fga\ntests:\n  - name: t\n    check:\n      - user: user:anne\n        object: doc:1\n        assertions:\n          nothing: true\n",
		files[5]:  "user_type,user_id,user_relation,relation,object_type,object_id\nuser,anne,,member,group,eng\nuser,carl,,owner,doc,3\n",
		files[13]: "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [person]\n",
		files[15]: "user_type,user_id,user_relation,relation,object_type,object_id\nuser,eve,,owner,doc,4\nuser,,,owner,doc,5\n",
		files[17]: "user_type,user_id,user_relation,relation,object_type,object_id\nuser,fay,,owner,doc,6\nuser,fay,,nothing,doc,6\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder, remote := []string{"--data", filepath.Join(dir, "data")}, []string{"--server", serveMemory(t)}
	run := map[string]bool{}
	other := map[string]string{} // the id of the second store, for each target
	for _, c := range bothWays {
		type result struct {
			code int
			text string
		}
		var got [2]result
		for i, target := range [][]string{folder, remote} {
			args := strings.Fields(strings.NewReplacer(append(files, "OTHER", other[target[0]])...).Replace(c.line))
			args = splitBars(c.line, args)
			code, out, stderr := runOn(t, target, args...)
			if id := changing.FindString(out); strings.HasPrefix(c.line, "store create") {
				other[target[0]] = id
			}
			got[i] = result{code, lines(changing.ReplaceAllString(out+stderr, "…"))}
			if got[i].text == "" {
				t.Errorf("%s %s prints nothing", c.line, target[0])
			}
		}
		run[commandName(c.line)] = true
		if got[0].code != got[1].code || (got[0].text != got[1].text) != (c.differs != "") {
			t.Errorf("ostiary %s\nfolder: exit code %d\n%s\nserver: exit code %d\n%s\nexpected difference: %q", c.line, got[0].code, got[0].text, got[1].code, got[1].text, c.differs)
		}
	}
	root := root(&cli.App{Lookup: func(string) (string, bool) { return "", false }})
	eachCommand(root, func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "ostiary ")
		top, _, _ := strings.Cut(path, " ")
		if run[path] == (oneWay[path]+oneWay[top] != "") {
			t.Errorf("ostiary %s is in bothWays: %v, and has a reason not to be: %q", path, run[path], oneWay[path]+oneWay[top])
		}
	})
}

// eachCommand calls f with every command without subcommands.
func eachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		eachCommand(sub, f)
	}
	if !cmd.HasSubCommands() {
		f(cmd)
	}
}

// commandName returns the name of the command of a line of bothWays.
func commandName(line string) string {
	words := strings.Fields(line)
	switch words[0] {
	case "store", "schema", "tuple", "list":
		return words[0] + " " + words[1]
	}
	return words[0]
}

// splitBars returns the arguments of a line. A flag whose value has blanks is
// written as --flag|value, and ends at the next flag.
func splitBars(line string, args []string) []string {
	if !strings.Contains(line, "|") {
		return args
	}
	var out []string
	for _, part := range strings.SplitAfter(" "+strings.Join(args, " "), " --") {
		part = strings.TrimSuffix(part, " --")
		if name, value, ok := strings.Cut(part, "|"); ok {
			out = append(out, "--"+name, strings.TrimSpace(value))
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// lines removes blanks at the ends of lines.
func lines(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(out, "\n")
}
