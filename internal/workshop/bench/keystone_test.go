package bench_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// identityTarget returns a bootstrapped deployment and a server of its API.
func identityTarget(t *testing.T) (*identity.Service, bench.Target) {
	t.Helper()
	return serveKeystone(t, &front{})
}

// TestKeystoneLarge measures a large deployment that is made over HTTP, and one
// that is loaded. Both are the same, apart from the ids.
func TestKeystoneLarge(t *testing.T) {
	t.Parallel()
	size := bench.KeystoneSize{Users: 100}
	for _, load := range []bool{false, true} {
		s, target := identityTarget(t)
		bootstrapped := names(t, s)
		if load {
			if err := size.Load(t.Context(), s, func(int) {}); err != nil {
				t.Fatal(err)
			}
		}
		before := names(t, s)
		cells := map[string]int{}
		r := &bench.Runner{Sides: []bench.Side{{Peer: "ostiary", Target: target}}, Emit: func(r bench.Record) error {
			if r.Failed() > 0 || r.Size != 100 {
				t.Errorf("%s: %v, size %d; %s", r.Cell, r.Failures, r.Size, r.Notes)
			}
			cells[r.Cell] = r.N
			return nil
		}}
		if err := r.Keystone(t.Context(), bench.KeystoneOptions{Size: size, Password: "secret", Rounds: 4, Load: bench.Load{Duration: -1, Requests: 20}}); err != nil {
			t.Fatal(err)
		}
		for _, cell := range []string{"list users", "list users: first byte", "list role assignments", "list effective role assignments of a user on a project", "validate tokens of 16 users"} {
			if cells[cell] != 20 {
				t.Errorf("%s: %d, want 20", cell, cells[cell])
			}
		}
		if after := names(t, s); load && !slices.Equal(before, after) {
			t.Errorf("left: %v, before %v", after, before)
		}
		grants, err := s.Grants(t.Context(), "", "", "", "")
		if err != nil || len(names(t, s)) != len(bootstrapped)+100+10+3 || len(grants) != 2+5*100 {
			t.Errorf("%d users, projects and roles, %d grants, error %v", len(names(t, s)), len(grants), err)
		}
	}
}

// TestKeystone plays the seven scenarios on the door, and checks the names of the
// actions, the results in Rally's form, and that nothing is left.
func TestKeystone(t *testing.T) {
	t.Parallel()
	s, target := identityTarget(t)
	before := names(t, s)

	cells := map[string]int{}
	var results []bench.RallyResult
	r := &bench.Runner{Sides: []bench.Side{{Peer: "ostiary", Target: target}}, Emit: func(r bench.Record) error {
		if r.Failed() > 0 || r.Workload != "keystone, hash cost 4" {
			t.Errorf("%s: %v, %s; %s", r.Cell, r.Failures, r.Workload, r.Notes)
		}
		cells[r.Cell] = r.N
		return nil
	}}
	workloads := bench.RallySeven()
	for i := range workloads {
		workloads[i].Times, workloads[i].Concurrency = 3, 2
	}
	err := r.Keystone(t.Context(), bench.KeystoneOptions{Workloads: workloads, Instances: 2, Password: "secret", Rounds: 4, Load: bench.Load{Duration: -1, Requests: 20},
		Results: func(_ *bench.Side, x []bench.RallyResult) error { results = x; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for cell, n := range map[string]int{
		"authenticate_user_and_validate_token: fetch_token": 6, "create_add_and_list_user_roles: list_roles": 6, "create_and_list_tenants, logged in: list_projects": 6,
		"get_entities: get_services": 6, "create_user_update_password: update_user": 6, "create_user_set_enabled_and_delete: delete_user": 6,
		"create_and_list_users: iteration": 6, "create_and_list_users, logged in: sum of actions": 6, "validate": 20, "validate while 10 clients log in": 20, "one password hash": 10,
	} {
		if cells[cell] != n {
			t.Errorf("%s: %d, want %d", cell, cells[cell], n)
		}
	}
	if after := names(t, s); !slices.Equal(before, after) {
		t.Errorf("left: %v, before %v", after, before)
	}
	checkRally(t, results)
}

// checkRally checks the actions in the results in Rally's form.
func checkRally(t *testing.T, results []bench.RallyResult) {
	t.Helper()
	var b bytes.Buffer
	if err := bench.WriteRally(&b, "ostiary", results); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tasks []struct {
			Subtasks []struct {
				Title     string
				Workloads []struct{ Data []bench.Iteration }
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, a := range file.Tasks[0].Subtasks[3].Workloads[0].Data[0].Actions {
		actions = append(actions, strings.TrimPrefix(a.Name, "keystone_v3."))
		for _, c := range a.Children {
			actions = append(actions, "("+strings.TrimPrefix(c.Name, "keystone_v3.")+")")
		}
	}
	const want = "create_project create_user (list_roles) (add_role) create_role get_project get_user get_role list_services get_services"
	if got := strings.Join(actions, " "); got != want || file.Tasks[0].Subtasks[3].Title != "KeystoneBasic.get_entities" {
		t.Errorf("%s: %s, want %s", file.Tasks[0].Subtasks[3].Title, got, want)
	}
}

// names returns the names of all users, projects and roles.
func names(t *testing.T, s *identity.Service) (all []string) {
	t.Helper()
	for _, k := range []identity.Kind{identity.User, identity.Project, identity.Role} {
		records, _, err := s.List(t.Context(), identity.ListRequest{Kind: k})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			all = append(all, r.Name)
		}
	}
	return all
}

func TestParseRally(t *testing.T) {
	t.Parallel()
	text := `{"KeystoneBasic.create_user_set_enabled_and_delete":[{"args":{"enabled":false},"runner":{"type":"constant","times":100,"concurrency":10}}],
		"KeystoneBasic.create_add_and_list_user_roles":[{"runner":{"times":5},"context":{"users":{"tenants":3,"users_per_tenant":2}}}]}`
	got, err := bench.ParseRally([]byte(text))
	want := []bench.RallyWorkload{
		{Scenario: "create_add_and_list_user_roles", Enabled: true, Times: 5, Concurrency: 1, Tenants: 3, Users: 2},
		{Scenario: "create_user_set_enabled_and_delete", Times: 100, Concurrency: 10, Tenants: 1, Users: 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v and error %v, want %+v", got, err, want)
	}
	for text, expected := range map[string]string{
		`[]`: "invalid task file", `{}`: "no scenarios",
		`{"NovaServers.boot":[{"runner":{"times":1}}]}`:                                                          `unknown scenario "NovaServers.boot"`,
		`{"KeystoneBasic.get_entities":[{"runner":{"type":"rps","times":1}}]}`:                                   `unknown runner "rps"`,
		`{"KeystoneBasic.get_entities":[{"runner":{"times":0}}]}`:                                                "invalid times 0: expected 1 to 100000",
		`{"KeystoneBasic.get_entities":[{"runner":{"times":100001}}]}`:                                           "invalid times 100001",
		`{"KeystoneBasic.get_entities":[{"runner":{"times":1,"concurrency":1001}}]}`:                             "invalid concurrency 1001",
		`{"KeystoneBasic.get_entities":[{"runner":{"times":1},"context":{"users":{"tenants":1001}}}]}`:           "invalid tenants × users_per_tenant 1001",
		`{"KeystoneBasic.get_entities":[{"runner":{"times":100000,"concurrency":1000}}],"KeystoneBasic.x":[{}]}`: "unknown scenario",
	} {
		if _, err := bench.ParseRally([]byte(text)); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: %v, want %s", text, err, expected)
		}
	}
}
