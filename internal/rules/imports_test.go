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
// ./internal/rules brings the rooms of ARCHITECTURE.md in line with it.
const rooms = `
# Programs: what people start
cmd/ostiary: *
cmd/ostiary/internal/auditing: *
cmd/ostiary/internal/benchmark: *
cmd/ostiary/internal/cli: *
cmd/ostiary/internal/keys: *
cmd/ostiary/internal/node: *
cmd/ostiary/internal/protocols: *
cmd/ostiary/internal/relations: *
cmd/ostiary/internal/serve: *
cmd/ostiary/internal/scenario: . door/permify door/permify/basev1 door/permify/language
cmd/ostiary/internal/storetest: . door/openfga/language cmd/ostiary/internal/tuplefile schema expr rel authz
cmd/ostiary/internal/tuplefile: internal/jsonread rel internal/excerpt
examples/*: *
internal/bench: . acp door/openfga door/openfga/language internal/graph/graphtest internal/identity internal/identity/password policy policy/language policy/message policy/value rel storage internal/excerpt
internal/bench/databases: . internal/bench internal/bench/geo/delay rel schema storage/mysql storage/pebble storage/postgres storage/replica storage/sharedlog storage/sqllog
internal/bench/geo: internal/bench internal/bench/geo/delay internal/bench/servers
internal/bench/geo/delay: internal/bench/servers
internal/bench/geo/page: internal/bench internal/bench/geo internal/bench/report
internal/bench/report: internal/bench
internal/bench/servers:
# Cluster: several nodes that answer as one
cluster: . internal/cluster internal/cluster/parts internal/logins storage storage/pebble storage/raft storage/sharedlog
internal/cluster/parts: . internal/cluster internal/cluster/certificate internal/cluster/link internal/cluster/quorum storage storage/replica storage/sharedlog
internal/cluster/link: . internal/addresses internal/cluster internal/cluster/certificate internal/cluster/link/wire server storage storage/sharedlog
internal/cluster/quorum: internal/cluster/certificate internal/cluster/link internal/cluster/quorum/wire storage storage/raft storage/sharedlog
internal/cluster/link/wire:
internal/cluster/quorum/wire:
internal/cluster/certificate:
# Doors: protocols, and the server that listens for them
door: . internal/jsonread internal/turns internal/excerpt storage
door/authzen: . door internal/jsonread expr policy policy/domain policy/status policy/value rel schema storage authz
door/keystone: . door identity/settings internal/identity identity/access internal/identity/ec2 internal/identity/mapping identity/oidc internal/identity/token storage internal/identity/oauth1 internal/turns internal/excerpt internal/derived internal/jsonread
door/native: . door internal/callers internal/jsonread expr rel schema storage authz
door/native/client: door door/native rel schema
door/onap: . door door/onap/internal/catalog door/onap/internal/pdp door/onap/internal/preload door/onap/internal/tosca internal/jsonread policy policy/message
door/onap/internal/catalog: . door/onap/internal/tosca internal/btree internal/replica storage
door/onap/internal/pdp: door/onap/internal/tosca internal/jsonread policy policy/function policy/language policy/status policy/value
door/onap/internal/preload: door/onap/internal/tosca
door/onap/internal/tosca: internal/jsonread
door/openfga: . door internal/jsonread door/openfga/language door/openfga/internal/wire schema expr rel storage internal/excerpt authz
door/openfga/language: internal/jsonread schema expr internal/excerpt
door/openfga/internal/wire: internal/jsonread expr
door/permify: . door internal/jsonread door/permify/basev1 door/permify/language internal/eval schema expr rel storage authz
door/permify/basev1:
door/permify/basev1/generate:
door/permify/language: schema expr
internal/decisions: authz door expr internal/audit internal/excerpt internal/jsonread rel
door/xacml: . door internal/jsonread policy policy/domain policy/language policy/message policy/status policy/value rel storage
server: . door identity/oidc internal/addresses internal/callers internal/excerpt internal/logins internal/turns internal/audit storage
# Policies, identities, documents: other rules than those of tuples, for the doors
acp: . internal/jwtread storage schema expr rel
internal/identity: . identity/settings internal/btree internal/replica schema storage internal/identity/percent internal/identity/mapping internal/identity/password internal/identity/token internal/identity/totp internal/identity/oauth1 authz internal/derived internal/jsonread
internal/callers: . internal/derived internal/replica internal/system rel schema storage
identity/access: internal/nearest
internal/identity/ec2: internal/identity/percent
internal/identity/keyring: . identity/settings internal/identity/token internal/replica internal/system storage
internal/identity/mapping: internal/jsonread
internal/identity/migrate: identity/settings internal/identity internal/identity/password internal/identity/token
internal/identity/oauth1: internal/identity/percent
identity/oidc: internal/jsonread internal/jwtread
internal/identity/password: internal/turns
internal/identity/percent:
internal/identity/token: identity/settings
identity/settings:
internal/identity/totp:
policy: internal/nearest policy/content policy/function policy/status policy/value internal/turns
policy/content: policy/status internal/xmlread policy/value internal/turns
policy/domain: . internal/replica policy policy/content policy/function policy/language policy/message policy/status policy/value expr rel storage internal/turns
policy/function: policy/content policy/internal/pattern policy/status policy/value internal/turns
policy/language: policy policy/function policy/internal/literal policy/status policy/value internal/jsonread internal/nearest internal/xmlread internal/lines internal/turns internal/excerpt
policy/internal/literal: policy/value internal/jsonread internal/xmlread internal/excerpt
policy/message: policy policy/content policy/internal/literal policy/status policy/value internal/jsonread internal/xmlread internal/excerpt
policy/internal/pattern: policy/status policy/value
policy/status: policy/value
policy/value: internal/excerpt
# Engine: the library; it keeps stores, takes writes and answers questions
rows: authz expr rel schema storage internal/errs internal/eval
.: storage storage/memory schema expr rel internal/errs internal/limits internal/snapshot internal/document internal/changelog internal/query internal/commit internal/compare internal/turns authz
internal/errs: internal/eval storage internal/graph schema rel authz
internal/limits: storage internal/errs authz
internal/admit: internal/eval schema expr rel authz
internal/snapshot: internal/eval storage internal/graph schema expr rel internal/errs internal/turns authz
internal/document: storage internal/errs internal/snapshot authz
internal/changelog: storage rel internal/errs internal/snapshot internal/limits authz
internal/query: internal/eval storage internal/graph schema expr rel internal/errs internal/limits internal/admit internal/snapshot internal/turns authz
internal/commit: storage internal/graph schema rel internal/errs internal/admit internal/document internal/snapshot internal/turns authz
internal/compare: internal/eval storage internal/graph schema expr rel internal/errs internal/admit internal/snapshot internal/query internal/commit internal/turns internal/limits authz
internal/system: . internal/replica
internal/replica: . storage internal/turns
# Relations: tuples, models, their evaluator and their storage
rel:
expr: rel
expr/cel: expr rel internal/zones
schema: expr rel internal/nearest
authz: schema expr rel storage
internal/graph: rel internal/btree
internal/graph/graphtest: rel
storage: rel internal/canonical
storage/kv: storage rel
storage/memory: storage storage/kv rel internal/btree
storage/pebble: storage storage/kv rel
internal/cluster: storage storage/sharedlog storage/replica
storage/raft: storage storage/raft/wire storage/sharedlog
storage/raft/wire:
storage/mysql: storage/sharedlog storage/sqllog
storage/postgres: storage/sharedlog storage/sqllog
storage/sqllog: storage storage/sharedlog
storage/replica: storage storage/kv storage/sharedlog rel
storage/sharedlog: storage rel internal/canonical
storage/sharedlog/memorylog: storage storage/sharedlog
internal/eval: internal/graph schema expr rel internal/turns authz
# Tools: small tools that know nothing of authorization
internal/addresses:
internal/audit: internal/excerpt internal/jsonread internal/logins internal/printable
internal/audit/otlp:
internal/btree:
internal/canonical:
internal/excerpt:
internal/jwtread: internal/jsonread
internal/jsonread:
internal/lines:
internal/logins:
internal/derived:
internal/nearest:
internal/turns:
internal/zones:
internal/xmlread: internal/lines internal/excerpt
internal/printable:
# Workshop: tests and what only tests use
workshop/oracle: . internal/eval storage storage/memory storage/kv storage/pebble internal/graph schema expr rel authz
workshop/oracle/faults:
workshop/oracle/policies: policy policy/content policy/function policy/status policy/value
workshop/sim: . rel schema storage internal/cluster internal/cluster/clustertest storage/kv storage/memory storage/pebble storage/replica storage/sharedlog storage/sharedlog/memorylog workshop/history
workshop/history: . rel storage
workshop/fleet: door/native/client internal/bench/geo/delay internal/bench/servers rel schema storage workshop/history
workshop/beside: internal/bench internal/bench/servers policy/language policy/message rel workshop/fleet
workshop/fleet/asone: internal/bench/servers workshop/fleet
workshop/logserver: storage storage/sharedlog storage/sharedlog/memorylog
storage/storagetest: storage rel
workshop/failing: storage storage/memory rel
storage/sharedlog/sharedlogtest: storage storage/sharedlog
internal/cluster/clustertest: internal/cluster storage storage/sharedlog
workshop/doortest: door workshop/failing storage/memory internal/golden
storage/sqllog/sqllogtest: internal/cluster/certificate storage storage/sharedlog storage/sharedlog/sharedlogtest storage/sqllog workshop/wait
workshop/databases: internal/bench/servers
workshop/logtest: rel storage storage/kv storage/memory storage/replica storage/sharedlog storage/storagetest
workshop/enginetest:
workshop/certtest:
workshop/oidctest:
workshop/wait:
internal/golden:
workshop/mutants: workshop/oracle/faults
internal/rules/onecheck: . rel schema
internal/testrun: internal/bench/servers
internal/rules:
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
	root := "../.."
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.IsDir() {
			if name := d.Name(); rel != "." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(rel, "conformance")) {
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
		if room == "workshop/oracle" || strings.HasPrefix(room, "cmd/") || strings.HasSuffix(file, "_test.go") {
			return
		}
		if slices.Contains(imports(t, file), module+"/workshop/oracle") {
			t.Errorf("%s imports workshop/oracle", file)
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
