package keystone_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestPagesOfOne reads the lists of one user and one group in pages, and filters them.
func TestPagesOfOne(t *testing.T) {
	c := newCloud(t)
	user, group := c.id("users", "user", `"name":"bob"`), c.id("groups", "group", `"name":"of bob"`)
	c.play("PUT /v3/groups/{g}/users/{u} => 204", map[string]string{"g": group, "u": user})
	var made []string
	for i := range 5 {
		project := c.id("projects", "project", fmt.Sprintf(`"name":"p%d"`, i))
		made = append(made, project)
		c.play("PUT /v3/projects/{p}/users/{u}/roles/{r} => 204", map[string]string{"p": project, "u": user, "r": c.roles["reader"]})
		c.play("PUT /v3/groups/{g}/users/{u} => 204\nPUT /v3/groups/{og}/users/{o} => 204", map[string]string{
			"g": c.id("groups", "group", fmt.Sprintf(`"name":"g%d"`, i)), "u": user, "og": group, "o": c.id("users", "user", fmt.Sprintf(`"name":"u%d"`, i))})
	}
	list := func(path, member string) (ids []string, next string, truncated bool) {
		t.Helper()
		a := c.do("GET", path, c.admin, "")
		if a.status != 200 {
			t.Fatalf("%s: %d %s", path, a.status, a.text)
		}
		for _, r := range a.body[member].([]any) {
			ids = append(ids, r.(map[string]any)["id"].(string))
		}
		next, _ = a.body["links"].(map[string]any)["next"].(string)
		truncated, _ = a.body["truncated"].(bool)
		return ids, next, truncated
	}
	for path, member := range map[string]string{"/v3/users/" + user + "/projects": "projects", "/v3/users/" + user + "/groups": "groups", "/v3/groups/" + group + "/users": "users"} {
		all, next, truncated := list(path, member)
		if len(all) < 5 || next != "" || truncated {
			t.Errorf("%s: %d records, next %q, truncated %t", path, len(all), next, truncated)
		}
		if got, _, truncated := list(fmt.Sprintf("%s?limit=%d", path, len(all)), member); len(got) != len(all) || truncated {
			t.Errorf("%s: a limit of as many records: %d, truncated %t", path, len(got), truncated)
		}
		var got []string
		for at, pages := path+"?limit=2", 1; at != ""; pages++ {
			ids, next, truncated := list(at, member)
			if len(ids) > 2 || truncated != (next != "") || pages > 4 {
				t.Fatalf("%s: %d records, next %q, truncated %t", at, len(ids), next, truncated)
			}
			got = append(got, ids...)
			if at = ""; next != "" {
				u, err := url.Parse(next)
				if err != nil || u.Path != path || u.Query().Get("limit") != "2" {
					t.Fatalf("next of %s: %s, error %v", path, next, err)
				}
				at = u.RequestURI()
			}
		}
		slices.Sort(all)
		if !slices.Equal(got, all) {
			t.Errorf("%s in pages: %s, want %s", path, strings.Join(got, " "), strings.Join(all, " "))
		}
		for query, want := range map[string]int{"?limit=x": 400, "?limit=-1": 400, "?marker=nope": 404} {
			if a := c.do("GET", path+query, c.admin, ""); a.status != want {
				t.Errorf("%s%s: %d %s, want %d", path, query, a.status, a.text, want)
			}
		}
	}
	for query, want := range map[string]int{"?name=p1": 1, "?name=P1": 0, "?name__startswith=p": 5, "?domain_id=default": 5, "?domain_id=x": 0, "?enabled=false": 0, "?is_domain=true": 5, "?parent_id=x": 5} {
		if ids, _, _ := list("/v3/users/"+user+"/projects"+query, "projects"); len(ids) != want {
			t.Errorf("%s: %d of the projects %v, want %d", query, len(ids), made, want)
		}
	}
}
