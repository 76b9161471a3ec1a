package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/identity/password"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// TestNotifications makes the changes that Keystone notifies about, and compares the types
// of the events, who has caused them, and what they are about. conformance/keystone
// lets pycadf read such events.
func TestNotifications(t *testing.T) {
	t.Parallel()
	e := must(ostiary.Open(t.Context(), ostiary.Options{Conditions: cli.Conditions(cel.Options{}), SecretKey: &[32]byte{1}}))(t)
	t.Cleanup(func() { e.Close() })
	f := &DoorFlags{}
	f.keystone.Identity.Rounds = password.RoundsMin
	var lines []string
	f.keystone.Publisher = "host"
	f.keystone.NotifyOptOut = []string{"identity.region.created"}
	f.keystone.Notify = func(n []byte) { lines = append(lines, string(n)) }
	x := everyDoorOf(t, e, f)
	x.bootstrap()
	send := func(method, path string, in any) m {
		t.Helper()
		text, _ := json.Marshal(in)
		r := httptest.NewRequest(method, path, bytes.NewReader(text))
		r = r.WithContext(authz.WithAuthor(r.Context(), &authz.Author{Name: storage.CallerLocal}))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Auth-Token", x.identity)
		r.Header.Set("User-Agent", "walker")
		var p door.Params
		route, _ := x.ports["keystone"].Find(method, path, &p)
		rec := httptest.NewRecorder()
		route.Serve(rec, r, p)
		if rec.Code >= 300 && rec.Code != http.StatusUnauthorized && rec.Code != http.StatusNotFound {
			t.Fatalf("%s %s: %d %s", method, path, rec.Code, rec.Body)
		}
		var out m
		_ = json.Unmarshal(rec.Body.Bytes(), &out)
		return out
	}
	id := func(out m, name string) string { return out[name].(m)["id"].(string) }
	login := func(secret string) m {
		return m{"auth": m{"identity": m{"methods": []string{"password"}, "password": m{"user": m{"name": "admin", "domain": m{"id": "default"}, "password": secret}}}}}
	}
	lines = nil
	send("POST", "/v3/auth/tokens", login("secret"))
	send("POST", "/v3/auth/tokens", login("wrong"))
	project := id(send("POST", "/v3/projects", m{"project": m{"name": "p"}}), "project")
	user := id(send("POST", "/v3/users", m{"user": m{"name": "u", "password": "secret"}}), "user")
	group := id(send("POST", "/v3/groups", m{"group": m{"name": "g"}}), "group")
	role := id(send("POST", "/v3/roles", m{"role": m{"name": "r"}}), "role")
	send("PATCH", "/v3/users/"+user, m{"user": m{"description": "x"}})
	send("PUT", "/v3/groups/"+group+"/users/"+user, nil)
	send("PUT", "/v3/projects/"+project+"/users/"+user+"/roles/"+role, nil)
	send("DELETE", "/v3/projects/"+project+"/users/"+user+"/roles/"+role, nil)
	send("PUT", "/v3/domains/default/groups/"+group+"/roles/"+role, nil)
	send("POST", "/v3/regions", m{"region": m{"id": "out"}}) // opted out
	send("GET", "/v3/users/"+user, nil)                      // reads
	send("DELETE", "/v3/users/missing", nil)                 // changes nothing
	send("DELETE", "/v3/users/"+user, nil)
	type resource struct {
		TypeURI, ID string
		UserID      string `json:"user_id"`
		Name        string
		Host        struct{ Address, Agent string }
	}
	want := []string{"identity.authenticate success ", "identity.authenticate failure ", "identity.project.created success " + project,
		"identity.user.created success " + user, "identity.group.created success " + group, "identity.role.created success " + role,
		"identity.user.updated success " + user, "identity.group.updated success " + group, "identity.role_assignment.created success ",
		"identity.role_assignment.deleted success ", "identity.role_assignment.created success ", "identity.user.deleted success " + user}
	var got []string
	for i, line := range lines {
		var n struct {
			EventType string `json:"event_type"`
			Payload   struct {
				Outcome           string
				ResourceInfo      string `json:"resource_info"`
				Initiator, Target resource
				Project, Role     string
			}
		}
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatal(err)
		}
		p := &n.Payload
		got = append(got, n.EventType+" "+p.Outcome+" "+p.ResourceInfo)
		if i != 1 && (p.Initiator.UserID != x.user || p.Initiator.Name != "admin" || p.Initiator.Host.Agent != "walker") || p.Initiator.Host.Address == "" {
			t.Errorf("the initiator of %s is %+v", n.EventType, p.Initiator)
		}
		if p.ResourceInfo != "" && (p.Target.ID != p.ResourceInfo || !strings.HasPrefix(p.Target.TypeURI, "data/security/")) {
			t.Errorf("the target of %s is %+v", n.EventType, p.Target)
		}
		if i == 8 && (p.Project != project || p.Role != role) {
			t.Errorf("the grant is %s", line)
		}
		if strings.Contains(line, "secret") || strings.Contains(line, "wrong") {
			t.Errorf("a password is in %s", line)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
