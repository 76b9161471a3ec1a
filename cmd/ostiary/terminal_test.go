package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// hiddenText is a name that clears the screen, begins a line and a column, and has
// characters that change the direction of text or have no width.
const hiddenText = "a\x1b[2J\r\nFORGED\tb\u202ec\u0085d\u009b31me\u200bf\u2028g\U000e0041\ufeff"

// hiddenID is what an id may have of it: no control character and no blank.
const hiddenID = "a\u202ec\u200bf\u2066g\U000e0041\ufeff"

// checkShown fails if an output has a character that a terminal does not show, or a line or a
// column that hiddenText begins.
func checkShown(t *testing.T, command []string, output string) {
	t.Helper()
	for _, r := range output {
		if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			t.Errorf("%+q: the output has %U:\n%+q", command, r, output)
			return
		}
	}
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("%+q: the output has a forged line:\n%s", command, output)
		}
	}
}

// No command prints what stored names have besides letters, marks, digits, symbols and blanks.
func TestTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"model.fga": "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n",
		"other.fga": "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define banned: [user]\n    define viewer: [user] but not banned\n",
		"wrong.fga": "model\n  schema 1.1\ntype \x1b[31m\u202e\n",
		"wrong.csv": "user_type,user_id,relation,object_type,object_id\nuser,\x1b\u202e x,viewer,doc,1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	user, doc := "user:"+hiddenID, "doc:"+hiddenID
	onFolderAndServer(t, func(t *testing.T, target []string) {
		for _, step := range []struct {
			code int
			args []string
		}{
			{0, []string{"store", "create", hiddenText}},
			{0, []string{"store", "create", "Zoë 田中 🙂"}},
			{0, []string{"store", "list"}},
			{0, []string{"store", "list", "--json"}},
			{0, []string{"store", "get", hiddenText}},
			{0, []string{"store", "alias", hiddenText, "permify", hiddenID}},
			{0, []string{"store", "alias", hiddenText, "permify"}},
			{2, []string{"store", "get", "nothing"}},
			{2, []string{"store", "get", hiddenText + "x"}},
			{2, []string{"store", "create", hiddenText}},
			{2, []string{"store", "get", "nothing", "--json"}},
			{2, []string{"check", "user:1", "viewer", "doc:1"}},
			{2, []string{"check", "user:1", "viewer", "doc:1", "--store", hiddenText + "x"}},
			{0, []string{"schema", "write", file("model.fga"), "--store", hiddenText}},
			{2, []string{"schema", "write", file("wrong.fga"), "--store", hiddenText}},
			{2, []string{"tuple", "import", file("wrong.csv"), "--store", hiddenText}},
			{2, []string{"tuple", "import", file(hiddenID), "--store", hiddenText}},
			{0, []string{"tuple", "write", user, "viewer", doc, "--store", hiddenText}},
			{2, []string{"tuple", "write", user, "viewer", doc, "--store", hiddenText}},
			{2, []string{"tuple", "write", user, hiddenID, doc, "--store", hiddenText}},
			{0, []string{"tuple", "read", "--store", hiddenText}},
			{0, []string{"tuple", "read", "--store", hiddenText, "--json"}},
			{0, []string{"check", user, "viewer", doc, "--store", hiddenText}},
			{0, []string{"list", "objects", user, "viewer", "doc", "--store", hiddenText}},
			{0, []string{"list", "subjects", "user", "viewer", doc, "--store", hiddenText}},
			{0, []string{"explain", user, "viewer", doc, "--store", hiddenText, "--origins"}},
			{0, []string{"explain", user, "viewer", doc, "--store", hiddenText, "--json"}},
			{0, []string{"expand", "viewer", doc, "--store", hiddenText}},
			{0, []string{"entitlements", user, doc, "--store", hiddenText}},
			{0, []string{"changes", "--store", hiddenText}},
			{0, []string{"changes", "--store", hiddenText, "--json"}},
			{0, []string{"diff", "user", "viewer", "doc", "--from", "1", "--to", "1", "--store", hiddenText}},
			{0, []string{"what-if", "--proposed", file("other.fga"), "--add", user + " banned " + doc, "--question", user + " viewer " + doc, "--store", hiddenText}},
			{0, []string{"schema", "list", "--store", hiddenText}},
			{2, []string{hiddenText}},
			{2, []string{"store", hiddenText}},
			{2, []string{"store", "list", "--" + hiddenID}},
			{2, []string{"store", "create", "x", "--id", hiddenText}},
			{2, []string{"key", "revoke", hiddenText}},
			{2, []string{"import", "--from", hiddenText}},
			{2, []string{"import", "--from", "http://127.0.0.1:1/" + hiddenID}},
			{2, []string{"migrate", hiddenText, "postgres://127.0.0.1:1/x"}},
			{2, []string{"xacml", "validate", file(hiddenID)}},
			{2, []string{"audit", "verify", "--key", file(hiddenID), file(hiddenID)}},
			{0, []string{"store", "rename", hiddenText, hiddenText + "2"}},
			{0, []string{"store", "delete", hiddenText + "2", "--yes"}},
		} {
			code, stdout, stderr := runOn(t, target, step.args...)
			if code != step.code {
				t.Errorf("%+q: exit code %d, expected %d:\n%+q", step.args, code, step.code, stderr)
			}
			checkShown(t, step.args, stdout)
			checkShown(t, step.args, stderr)
		}
		code, stdout, stderr := runOn(t, target, "store", "list")
		if code != cli.ExitOK || !strings.Contains(stdout, "Zoë 田中 🙂 ") {
			t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
		}
	})
}
