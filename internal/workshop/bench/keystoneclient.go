package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// identityClient sends requests of the Identity API over one connection, as one
// client of Rally does.
type identityClient struct {
	conn  conn
	paths string // beginning of all paths, "/v3"
	user  string // name of the user, in the default domain
	pass  string
	scope string // name of the project
	token string
	sent  int // number of requests
}

// send sends a request and returns the body of the response, which is valid until
// the next call. It returns a [*Failure] unless the status is the expected one.
func (c *identityClient) send(ctx context.Context, method, path string, status int, body any, headers ...string) ([]byte, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\nContent-Length: %d\r\n", method, c.paths, path, c.conn.address, len(text))
	if text != nil {
		b.WriteString("Content-Type: application/json\r\n")
	}
	for i := 0; i < len(headers); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", headers[i], headers[i+1])
	}
	b.WriteString("\r\n")
	b.Write(text)
	c.sent++
	got, response, err := c.conn.do(ctx, []byte(b.String()))
	if err == nil && got != status {
		err = &Failure{What: fmt.Sprintf("status %d", got), Err: fmt.Errorf("%s %s: %s", method, path, clip(string(response)))}
	}
	return response, err
}

// call sends a request with the token.
func (c *identityClient) call(ctx context.Context, method, path string, status int, body any) ([]byte, error) {
	return c.send(ctx, method, path, status, body, "X-Auth-Token", c.token)
}

// made sends a request that creates a record and returns its id.
func (c *identityClient) made(ctx context.Context, kind, path string, members map[string]any) (string, error) {
	text, err := c.call(ctx, http.MethodPost, path, http.StatusCreated, map[string]any{kind: members})
	if err != nil {
		return "", err
	}
	var answer map[string]struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer[kind].ID == "" {
		return "", &Failure{What: "wrong answer", Err: fmt.Errorf("POST %s: no id of a %s", path, kind)}
	}
	return answer[kind].ID, nil
}

// listed sends a request for a list and returns the ids by name.
func (c *identityClient) listed(ctx context.Context, plural, path string) (map[string]string, error) {
	text, err := c.call(ctx, http.MethodGet, path, http.StatusOK, nil)
	if err != nil {
		return nil, err
	}
	var answer map[string]json.RawMessage
	var rows []struct{ ID, Name string }
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer[plural], &rows); err != nil {
		return nil, &Failure{What: "wrong answer", Err: err}
	}
	ids := map[string]string{}
	for _, r := range rows {
		ids[r.Name] = r.ID
	}
	return ids, nil
}

// login gets a token by password, with the scope of the project. As keystoneauth,
// it asks for the versions first.
func (c *identityClient) login(ctx context.Context) error {
	if _, err := c.send(ctx, http.MethodGet, "", http.StatusOK, nil); err != nil {
		return err
	}
	domain := map[string]string{"id": "default"}
	body := map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{"name": c.user, "domain": domain, "password": c.pass}}},
		"scope":    map[string]any{"project": map[string]any{"name": c.scope, "domain": domain}}}}
	if _, err := c.send(ctx, http.MethodPost, "/auth/tokens", http.StatusCreated, body); err != nil {
		return err
	}
	if c.token = string(c.conn.subject); c.token == "" {
		return &Failure{What: "wrong answer", Err: fmt.Errorf("POST /auth/tokens: no X-Subject-Token")}
	}
	return nil
}

// validate asks for the token subject.
func (c *identityClient) validate(ctx context.Context, subject string) error {
	_, err := c.send(ctx, http.MethodGet, "/auth/tokens", http.StatusOK, nil, "X-Auth-Token", c.token, "X-Subject-Token", subject)
	return err
}

// iteration is a running iteration of a scenario.
type iteration struct {
	*identityClient
	ctx context.Context
	// each makes every client log in by password, as Rally does. Otherwise the client
	// has a token.
	each bool
	// user and project are those of the context.
	user, project string
	enabled       bool

	actions []Action
	fresh   bool  // the client of the actions has not logged in yet
	made    *junk // what the iteration has created
	failed  error
}

// junk is what must be deleted at the end.
type junk struct{ users, projects, roles []string }

func (j *junk) add(o junk) {
	j.users, j.projects, j.roles = append(j.users, o.users...), append(j.projects, o.projects...), append(j.roles, o.roles...)
}

// action measures an action. The first one of an iteration contains the login of
// its client. After a failure it does nothing.
func (i *iteration) action(name string, run func() error) {
	if i.failed != nil {
		return
	}
	outer := i.actions
	i.actions = nil
	begin := time.Now()
	if i.fresh && i.each {
		i.failed = i.login(i.ctx)
	}
	i.fresh = false
	if i.failed == nil {
		if err := run(); i.failed == nil { // an inner action may have failed
			i.failed = err
		}
	}
	children := i.actions
	if children == nil {
		children = []Action{}
	}
	i.actions = append(outer, Action{Name: "keystone_v3." + name, Children: children, Started: seconds(begin), Finished: seconds(time.Now())})
}

// seconds returns a time in seconds since 1970.
func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// randomName returns a name in the form of Rally's.
func randomName() string { return "s_rally_" + rand.Text()[:8] + "_" + rand.Text()[:8] }

// domain finds the domain Default as Rally does: by id first, then by name.
func (i *iteration) domain() (string, error) {
	if _, err := i.call(i.ctx, http.MethodGet, "/domains/Default", http.StatusNotFound, nil); err != nil {
		return "", err
	}
	ids, err := i.listed(i.ctx, "domains", "/domains?name=Default")
	return ids["Default"], err
}

func (i *iteration) createProject() (id string) {
	i.action("create_project", func() (err error) {
		domain, err := i.domain()
		if err != nil {
			return err
		}
		if id, err = i.identityClient.made(i.ctx, "project", "/projects", map[string]any{"name": randomName(), "domain_id": domain, "enabled": true}); err == nil {
			i.made.projects = append(i.made.projects, id)
		}
		return err
	})
	return id
}

// createUser creates a user, with the role member on a project unless that is "".
func (i *iteration) createUser(project string, enabled bool) (id string) {
	i.action("create_user", func() (err error) {
		domain, err := i.domain()
		if err != nil {
			return err
		}
		members := map[string]any{"name": randomName(), "domain_id": domain, "enabled": enabled}
		if project != "" {
			members["default_project_id"] = project
		}
		if id, err = i.identityClient.made(i.ctx, "user", "/users", members); err != nil || project == "" {
			if err == nil {
				i.made.users = append(i.made.users, id)
			}
			return err
		}
		i.made.users = append(i.made.users, id)
		var roles map[string]string
		i.action("list_roles", func() error {
			roles, err = i.listed(i.ctx, "roles", "/roles")
			return err
		})
		i.addRole(project, id, roles["member"])
		return nil
	})
	return id
}

func (i *iteration) createRole() (id string) {
	i.action("create_role", func() (err error) {
		if id, err = i.identityClient.made(i.ctx, "role", "/roles", map[string]any{"name": randomName()}); err == nil {
			i.made.roles = append(i.made.roles, id)
		}
		return err
	})
	return id
}

func (i *iteration) addRole(project, user, role string) {
	i.action("add_role", func() error {
		_, err := i.call(i.ctx, http.MethodPut, "/projects/"+project+"/users/"+user+"/roles/"+role, http.StatusNoContent, nil)
		return err
	})
}

// get is an action that reads a record or a list.
func (i *iteration) get(name, path string) {
	i.action(name, func() error {
		_, err := i.call(i.ctx, http.MethodGet, path, http.StatusOK, nil)
		return err
	})
}

// updateUser is an action that changes one member of a user.
func (i *iteration) updateUser(id, member string, value any) {
	i.action("update_user", func() error {
		_, err := i.call(i.ctx, http.MethodPatch, "/users/"+id, http.StatusOK, map[string]any{"user": map[string]any{member: value}})
		return err
	})
}

// scenarioEnabled is the scenario that has an argument.
const scenarioEnabled = "create_user_set_enabled_and_delete"

// scenarios are the actions of Rally's scenarios, by name.
var scenarios = map[string]func(*iteration){
	"authenticate_user_and_validate_token": func(i *iteration) {
		subject := ""
		i.fresh = false
		i.action("fetch_token", func() error {
			err := i.login(i.ctx)
			subject = i.token
			return err
		})
		i.fresh = true
		i.action("validate_token", func() error { return i.validate(i.ctx, subject) })
	},
	"create_add_and_list_user_roles": func(i *iteration) {
		role := i.createRole()
		i.addRole(i.project, i.user, role)
		i.get("list_roles", "/projects/"+i.project+"/users/"+i.user+"/roles")
	},
	"create_and_list_tenants": func(i *iteration) {
		i.createProject()
		i.get("list_projects", "/projects")
	},
	"get_entities": func(i *iteration) {
		project := i.createProject()
		user := i.createUser(project, true)
		role := i.createRole()
		i.get("get_project", "/projects/"+project)
		i.get("get_user", "/users/"+user)
		i.get("get_role", "/roles/"+role)
		service := ""
		i.action("list_services", func() error {
			ids, err := i.listed(i.ctx, "services", "/services")
			service = ids["keystone"]
			return err
		})
		i.get("get_services", "/services/"+service)
	},
	"create_user_update_password": func(i *iteration) {
		user := i.createUser("", true)
		i.updateUser(user, "password", randomName())
	},
	scenarioEnabled: func(i *iteration) {
		user := i.createUser("", i.enabled)
		i.updateUser(user, "enabled", !i.enabled)
		i.action("delete_user", func() error {
			_, err := i.call(i.ctx, http.MethodDelete, "/users/"+user, http.StatusNoContent, nil)
			if err == nil {
				i.made.users = slices.DeleteFunc(i.made.users, func(id string) bool { return id == user })
			}
			return err
		})
	},
	"create_and_list_users": func(i *iteration) {
		i.createUser("", true)
		i.get("list_users", "/users")
	},
}

// run plays the iteration and returns it in the form of Rally's results.
func (i *iteration) run(scenario string) Iteration {
	begin := time.Now()
	// Rally logs in twice by password before the first action, with other clients.
	for range 2 {
		if i.each && i.failed == nil {
			i.failed = i.login(i.ctx)
		}
	}
	i.fresh = true
	scenarios[scenario](i)
	out := Iteration{Timestamp: seconds(begin), Duration: time.Since(begin).Seconds(), Error: []string{}, Actions: i.actions,
		Output: rallyOutput{Additive: []string{}, Complete: []string{}}}
	if i.failed != nil {
		out.Error = []string{nameOf(i.failed), i.failed.Error()}
	}
	return out
}
