// Package rules holds the house rules as tests: who may import whom, what the
// library pulls in, how many files a Check passes. It has no code.
package rules

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ostiary/ostiary"

// rooms lists which of the project's own packages each room may import, tests
// aside. "." is the root package; a room that is not listed may not exist.
//
// The rooms are in floors: a room imports rooms of its own floor and of those
// further down. The last floor, [workshop], is apart: it imports any room, and no
// other floor imports it. After a change of this table, OSTIARY_REWRITE=1 go test
// ./internal/workshop/rules brings the rooms of ARCHITECTURE.md in line with it.
const rooms = `
# Programs: what people start
cmd/ostiary: *
cmd/ostiary-bench: cmd/internal/benchmark cmd/internal/cli
cmd/ostiary/internal/auditing: *
cmd/ostiary/internal/backups: *
cmd/ostiary/internal/keys: *
cmd/ostiary/internal/node: *
cmd/ostiary/internal/protocols: *
cmd/ostiary/internal/relations: *
cmd/ostiary/internal/serve: *
cmd/ostiary/internal/scenario: . door/permify internal/permifypb door/permify/language
cmd/internal/benchmark: . authz cluster cmd/internal/cli door/keystone expr/cel internal/identity/settings internal/identity internal/identity/password internal/workshop/bench internal/workshop/bench/databases internal/workshop/bench/geo internal/workshop/bench/geo/delay internal/workshop/bench/geo/page internal/workshop/bench/report internal/workshop/bench/servers storage storage/pebble
cmd/internal/cli: . authz acp cmd/internal/storetest cmd/internal/tuplefile door door/authzen door/keystone door/native door/native/client door/onap door/openfga door/openfga/language door/permify door/permify/language door/xacml expr expr/cel internal/identity/settings internal/callers internal/cluster/sharedlog internal/engine/documents internal/identity/token internal/tool/quote internal/tool/printable policy internal/engine/domain rel schema server storage storage/kv storage/pebble internal/tool/turns
cmd/internal/storetest: . door/openfga/language cmd/internal/tuplefile schema expr rel authz
cmd/internal/tuplefile: internal/tool/jsonread rel internal/tool/quote
examples/*: *
internal/workshop/bench: . acp door/openfga door/openfga/language internal/engine/graph/graphtest internal/identity internal/identity/password policy policy/language policy/message policy/value rel storage internal/tool/quote authz
internal/workshop/bench/databases: . internal/workshop/bench internal/workshop/bench/geo/delay rel schema internal/cluster/lease internal/cluster/mysql storage/pebble internal/cluster/postgres internal/cluster/replica internal/cluster/sharedlog internal/cluster/sqllog authz expr storage storage/kv
internal/workshop/bench/geo: internal/workshop/bench internal/workshop/bench/geo/delay internal/workshop/bench/servers
internal/workshop/bench/geo/delay: internal/workshop/bench/servers
internal/workshop/bench/geo/page: internal/workshop/bench internal/workshop/bench/geo internal/workshop/bench/report
internal/workshop/bench/report: internal/workshop/bench
internal/workshop/bench/servers:
# Cluster: several nodes that answer as one
cluster: . internal/cluster/lease internal/cluster/parts internal/trail/logins storage storage/pebble internal/cluster/raftlog internal/cluster/sharedlog
internal/cluster/parts: . internal/cluster/lease internal/cluster/certificate internal/cluster/link internal/cluster/quorum storage internal/cluster/replica internal/cluster/sharedlog
internal/cluster/link: internal/tool/addresses internal/cluster/forward internal/cluster/lease internal/cluster/certificate internal/cluster/link/wire storage internal/cluster/sharedlog
internal/cluster/move: . authz internal/cluster/replica internal/cluster/sharedlog storage storage/kv storage/pebble
internal/cluster/quorum: internal/cluster/certificate internal/cluster/link internal/cluster/quorum/wire storage internal/cluster/raftlog internal/cluster/sharedlog
internal/cluster/link/wire:
internal/cluster/quorum/wire:
internal/cluster/certificate:
internal/cluster/lease: storage internal/cluster/sharedlog internal/cluster/replica
internal/cluster/raftlog: storage internal/cluster/raftlog/wire internal/cluster/sharedlog
internal/cluster/raftlog/wire:
internal/cluster/mysql: internal/cluster/sharedlog internal/cluster/sqllog
internal/cluster/postgres: internal/cluster/sharedlog internal/cluster/sqllog
internal/cluster/sqllog: storage internal/trail/traces internal/cluster/sharedlog
internal/cluster/replica: storage internal/trail/traces storage/kv internal/cluster/sharedlog rel
internal/cluster/sharedlog: storage rel internal/tool/canonical
internal/cluster/sharedlog/memorylog: storage internal/cluster/sharedlog
# Doors: protocols, and the server that listens for them
door: . internal/tool/jsonread internal/tool/turns internal/tool/quote storage authz
console: door internal/identity/oidc
door/authzen: . door internal/tool/jsonread expr policy internal/engine/domain policy/status policy/value rel storage authz
door/keystone: . door internal/identity/settings internal/identity internal/identity/access internal/identity/ec2 internal/identity/mapping internal/identity/oidc internal/identity/token storage internal/identity/oauth1 internal/tool/turns internal/tool/quote internal/tool/derived internal/tool/jsonread authz internal/engine/journal internal/trail/logins internal/trail/decisions expr
door/native: . door internal/callers internal/tool/jsonread internal/trail/audit expr rel schema storage authz internal/engine/journal internal/tool/turns
door/native/client: door door/native rel schema internal/tool/turns
door/onap: . door door/onap/internal/catalog door/onap/internal/pdp door/onap/internal/tosca internal/tool/jsonread policy policy/message internal/trail/decisions expr
door/onap/internal/catalog: . door/onap/internal/tosca internal/tool/btree internal/engine/documents storage authz internal/engine/journal
door/onap/internal/pdp: door/onap/internal/tosca internal/tool/jsonread policy policy/function policy/language policy/status policy/value
door/onap/internal/tosca: internal/tool/jsonread
door/openfga: . door internal/tool/jsonread door/openfga/language door/openfga/internal/wire schema expr rel storage internal/tool/quote authz
door/openfga/language: internal/tool/jsonread schema expr internal/tool/quote
door/openfga/internal/wire: internal/tool/jsonread expr
door/permify: . door internal/tool/jsonread internal/permifypb door/permify/language internal/engine/eval schema expr rel storage authz internal/engine/journal
internal/permifypb:
internal/permifypb/generate:
door/permify/language: schema expr
internal/trail/decisions: authz door expr internal/trail/audit internal/tool/quote internal/tool/jsonread rel policy
door/xacml: . door internal/tool/jsonread policy internal/engine/domain policy/language policy/message policy/status policy/value storage authz internal/trail/decisions expr
server: . door expr internal/identity/oidc internal/cluster/forward server/internal/conn internal/callers internal/tool/quote internal/trail/logins internal/trail/traces internal/tool/turns internal/trail/audit storage authz internal/engine/journal
internal/cluster/forward: . internal/engine/journal door storage
server/internal/conn: door internal/tool/addresses
# Policies, identities, documents: other rules than those of tuples, for the doors
acp: . internal/tool/jsonread storage schema expr rel authz
internal/identity: . internal/identity/settings internal/tool/btree internal/engine/documents schema storage internal/identity/oauth1 internal/identity/mapping internal/identity/password internal/identity/token internal/identity/totp authz internal/tool/derived internal/tool/jsonread expr rel internal/engine/journal
internal/callers: . internal/tool/derived internal/engine/documents rel schema storage authz internal/engine/journal internal/tool/turns
internal/identity/access: internal/tool/quote
internal/identity/ec2: internal/identity/oauth1
internal/identity/keyring: . internal/identity/settings internal/identity/token internal/engine/documents storage authz
internal/identity/mapping: internal/tool/jsonread
internal/identity/migrate: internal/identity/settings internal/identity internal/identity/password internal/identity/token
internal/identity/oauth1:
internal/identity/oidc: internal/tool/jsonread internal/trail/traces
internal/identity/password: internal/tool/turns internal/trail/traces
internal/identity/token: internal/identity/settings
internal/identity/settings:
internal/identity/totp:
policy: internal/tool/quote policy/content policy/function policy/status policy/value internal/tool/turns
policy/content: policy/status internal/tool/xmlread policy/value internal/tool/turns
internal/engine/domain: . internal/engine/documents policy policy/content policy/function policy/language policy/message policy/status policy/value expr rel storage internal/tool/turns authz internal/engine/journal
policy/function: policy/content policy/internal/pattern policy/status policy/value internal/tool/turns
policy/language: policy policy/function policy/internal/literal policy/status policy/value internal/tool/jsonread internal/tool/quote internal/tool/xmlread internal/tool/turns
policy/internal/literal: policy/value internal/tool/jsonread internal/tool/xmlread internal/tool/quote
policy/message: policy policy/content policy/internal/literal policy/status policy/value internal/tool/jsonread internal/tool/xmlread internal/tool/quote
policy/internal/pattern: policy/status policy/value
policy/status: policy/value
policy/value: internal/tool/quote
# Engine: the library; it keeps stores, takes writes and answers questions
rows: authz expr rel schema storage internal/engine/errs internal/engine/eval
.: storage storage/memory schema expr rel internal/engine/errs internal/engine/snapshot internal/engine/document internal/engine/changelog internal/engine/query internal/engine/commit internal/engine/compare internal/tool/turns authz internal/engine/journal
internal/engine/errs: internal/engine/eval storage internal/engine/graph schema authz
internal/engine/journal: authz storage
internal/engine/admit: internal/engine/eval schema expr rel authz
internal/engine/snapshot: internal/engine/eval storage internal/engine/graph schema expr rel internal/engine/errs internal/tool/turns authz internal/engine/journal
internal/engine/document: storage internal/engine/errs internal/engine/snapshot authz
internal/engine/changelog: storage rel internal/engine/errs internal/engine/snapshot authz
internal/engine/query: internal/engine/eval storage internal/engine/graph expr rel internal/engine/errs internal/engine/admit internal/engine/snapshot internal/tool/turns authz
internal/engine/commit: storage internal/engine/graph schema rel internal/engine/errs internal/engine/admit internal/engine/document internal/engine/snapshot internal/tool/turns authz internal/engine/journal
internal/engine/compare: internal/engine/eval storage internal/engine/graph schema expr rel internal/engine/errs internal/engine/admit internal/engine/snapshot internal/engine/query internal/engine/commit internal/tool/turns authz
internal/engine/documents: . storage internal/tool/turns authz
# Relations: tuples, models, their evaluator and their storage
rel:
expr: rel
expr/cel: expr rel
schema: expr rel internal/tool/quote
authz: schema expr rel storage
internal/engine/graph: rel internal/tool/btree
internal/engine/graph/graphtest: rel
storage: rel internal/tool/canonical
storage/kv: storage rel
storage/memory: storage storage/kv internal/tool/btree
storage/pebble: storage storage/kv
internal/backup: rel storage storage/kv
internal/engine/eval: internal/engine/graph schema expr rel internal/tool/turns authz
# Tools: small tools that know nothing of authorization
internal/tool/addresses:
internal/trail/audit: internal/tool/quote internal/tool/jsonread internal/trail/logins internal/tool/printable
internal/tool/btree:
internal/tool/canonical:
internal/tool/quote:
internal/tool/jsonread:
internal/trail/logins:
internal/trail/traces:
internal/tool/derived:
internal/tool/turns:
internal/tool/xmlread: internal/tool/quote
internal/tool/printable:
# Workshop: tests and what only tests use
internal/workshop/oracle: . internal/engine/eval storage storage/memory storage/kv storage/pebble internal/engine/graph schema expr rel authz
internal/workshop/oracle/faults:
internal/workshop/oracle/policies: policy policy/content policy/function policy/status policy/value
internal/workshop/sim: . rel schema storage internal/cluster/lease internal/cluster/move internal/cluster/clustertest storage/kv storage/memory storage/pebble internal/cluster/replica internal/cluster/sharedlog internal/cluster/sharedlog/memorylog internal/workshop/history authz
internal/workshop/history: rel storage authz
internal/workshop/fleet: door/native/client internal/workshop/bench/geo/delay internal/workshop/bench/servers rel schema storage internal/workshop/history
internal/workshop/beside: internal/workshop/bench internal/workshop/bench/servers policy/language policy/message rel internal/workshop/fleet
internal/workshop/fleet/asone: internal/workshop/bench/servers internal/workshop/fleet
storage/storagetest: storage rel
internal/workshop/failing: storage storage/memory rel
internal/cluster/sharedlog/sharedlogtest: rel storage storage/kv storage/memory internal/cluster/certificate internal/cluster/clustertest internal/cluster/replica internal/cluster/sharedlog internal/cluster/sqllog internal/workshop/wait storage/storagetest
internal/cluster/clustertest: internal/cluster/lease storage internal/cluster/replica internal/cluster/sharedlog
internal/workshop/doortest: door internal/workshop/failing storage/memory internal/workshop/golden
internal/workshop/databases: internal/workshop/bench/servers
internal/workshop/enginetest:
internal/workshop/issuers:
internal/workshop/wait:
internal/workshop/golden:
internal/workshop/mutants: internal/workshop/oracle/faults
internal/workshop/rules/onecheck: . rel schema authz
internal/workshop/testrun: internal/workshop/bench/servers
internal/workshop/rules:
conformance/*: *
`

func rules(t *testing.T) map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(rooms)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		room, may, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			t.Fatalf("rule %q", line)
		}
		out[room] = strings.Fields(may)
	}
	return out
}

// sources calls f for each Go file of the main module with its room.
func sources(t *testing.T, f func(room, file string)) {
	t.Helper()
	root := "../../.."
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.IsDir() {
			if name := d.Name(); rel != "." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(rel, "conformance") || rel == "packaging") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") {
			f(filepath.ToSlash(filepath.Dir(rel)), p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range parsed.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

func TestImports(t *testing.T) {
	allowed := rules(t)
	sources(t, func(room, file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		may, ok := allowed[room]
		if !ok {
			may, ok = allowed[path.Dir(room)+"/*"]
		}
		if !ok {
			t.Errorf("%s: no rule for room %s: decide who may import it, and add it to rooms", file, room)
			return
		}
		for _, p := range imports(t, file) {
			own, found := strings.CutPrefix(p, module)
			if !found || own != "" && own[0] != '/' || slices.Contains(may, "*") {
				continue
			}
			if own = strings.TrimPrefix(own, "/"); own == "" {
				own = "."
			}
			if !slices.Contains(may, own) {
				t.Errorf("%s: %s may not import %s", file, room, own)
			}
		}
	})
}

// TestNobodyImportsTheOracle also holds for tests of the rooms it judges: an
// evaluator tested only by its own judge would not be tested at all.
func TestNobodyImportsTheOracle(t *testing.T) {
	sources(t, func(room, file string) {
		if room == "internal/workshop/oracle" || strings.HasPrefix(room, "cmd/") || strings.HasSuffix(file, "_test.go") {
			return
		}
		if slices.Contains(imports(t, file), module+"/internal/workshop/oracle") {
			t.Errorf("%s imports internal/workshop/oracle", file)
		}
	})
}

func TestNames(t *testing.T) {
	vague := []string{"util", "utils", "common", "helpers", "misc", "shared", "base", "manager"}
	sources(t, func(room, file string) {
		if slices.Contains(vague, path.Base(room)) || slices.Contains(vague, strings.TrimSuffix(filepath.Base(file), ".go")) {
			t.Errorf("%s: a room or file is named by what it knows", file)
		}
	})
}

func TestNoInit(t *testing.T) {
	sources(t, func(_, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc init"+"() {") && !strings.Contains("\n"+string(text), "\n// Code generated ") {
			t.Errorf("%s has an init function", file)
		}
	})
}
