package keystone_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// TestHome compares the home documents with that of Keystone, in testdata/home.json, and
// checks which Accept headers ask for them.
func TestHome(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	text, err := os.ReadFile("testdata/home.json")
	if err != nil {
		t.Fatal(err)
	}
	below := strings.NewReplacer(`"href": "/`, `"href": "/v3/`, `"href-template": "/`, `"href-template": "/v3/`).Replace(string(text))
	for path, want := range map[string]string{"/v3": string(text), "/": below} {
		var document map[string]any
		if err := json.Unmarshal([]byte(want), &document); err != nil {
			t.Fatal(err)
		}
		for accept, home := range map[string]bool{
			"application/json-home": true, "application/json-home, application/json;q=0.5": true, "application/json;q=0.1, application/*": true,
			"": false, "*/*": false, "application/*": false, "text/html": false, "application/json": false, "application/json-home, application/json": false,
		} {
			var headers []string
			if accept != "" {
				headers = []string{"Accept", accept}
			}
			a := c.do("GET", path, "", "", headers...)
			if is := a.header.Get("Content-Type") == "application/json-home"; is != home {
				t.Errorf("%s with Accept %q: %d %s", path, accept, a.status, a.header)
				continue
			}
			if home && (a.status != 200 || !reflect.DeepEqual(a.body, document)) {
				t.Errorf("%s: the document differs from that of Keystone: %d %.300s", path, a.status, a.text)
			}
		}
	}
	var document struct {
		Resources map[string]struct {
			Path     string `json:"href"`
			Template string `json:"href-template"`
		}
	}
	if err := json.Unmarshal([]byte(below), &document); err != nil {
		t.Fatal(err)
	}
	for relation, r := range document.Resources {
		var p door.Params
		if route, methods := c.router.Find("TRACE", r.Path+r.Template, &p); route == nil && len(methods) == 0 {
			t.Errorf("%s: this door has no route for %s", relation, r.Path+r.Template)
		}
	}
}

// TestRevokeTokensOfUser requires that a user can make all own tokens invalid, and no
// token of another user.
func TestRevokeTokensOfUser(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	user := func(name string) (id, token string) {
		a := c.do("POST", "/v3/users", c.admin, `{"user":{"name":"`+name+`","password":"x"}}`)
		id = a.body["user"].(map[string]any)["id"].(string)
		return id, c.token(name, "x", `{"unscoped":{}}`)
	}
	anne, first := user("anne")
	_, second := user("bob")
	third := c.token("anne", "x", `{"unscoped":{}}`)
	if a := c.do("DELETE", "/v3/users/"+anne+"/tokens", second, ""); a.status != 403 {
		t.Errorf("by another user: %d %s", a.status, a.text)
	}
	if a := c.do("DELETE", "/v3/users/"+anne+"/tokens", first, ""); a.status != 204 {
		t.Errorf("by the user: %d %s", a.status, a.text)
	}
	for token, want := range map[string]int{first: 404, third: 404, second: 200} {
		if a := c.do("GET", "/v3/auth/tokens", c.admin, "", "X-Subject-Token", token); a.status != want {
			t.Errorf("%d %s, want %d", a.status, a.text, want)
		}
	}
}
