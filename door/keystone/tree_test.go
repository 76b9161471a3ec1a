package keystone_test

import "testing"

// TestProjectTree reads projects with those above and below them. The administrator
// has a role in one of them only.
func TestProjectTree(t *testing.T) {
	c := newCloud(t)
	v := map[string]string{"a": c.id("projects", "project", `"name":"a"`), "admin": c.roles["admin"]}
	v["b"] = c.id("projects", "project", `"name":"b","parent_id":"`+v["a"]+`"`)
	v["c"] = c.id("projects", "project", `"name":"c","parent_id":"`+v["b"]+`"`)
	users := c.do("GET", "/v3/users?name=admin", c.admin, "").body["users"].([]any)
	v["user"] = users[0].(map[string]any)["id"].(string)
	c.play(`
PUT /v3/projects/{b}/users/{user}/roles/{admin} => 204
GET /v3/projects/{c}?parents_as_ids => 200 "parents":{"{b}":{"{a}":{"default":null}}}}}
GET /v3/projects/{a}?parents_as_ids => 200 "parents":{"default":null}}}
GET /v3/projects/default?parents_as_ids => 200 "parents":null}}
GET /v3/projects/{a}?subtree_as_ids => 200 "subtree":{"{b}":{"{c}":null}}}}
GET /v3/projects/{c}?subtree_as_ids => 200 "subtree":null}}
GET /v3/projects/{c}?parents_as_list => 200 "parents":[{"project":{"id":"{b}","name":"b"
GET /v3/projects/{a}?subtree_as_list => 200 "subtree":[{"project":{"id":"{b}","name":"b"
GET /v3/projects/{b}?subtree_as_list => 200 "subtree":[]}}
GET /v3/projects/{b}?subtree_as_list&parents_as_ids => 200 "parents":{"{a}":{"default":null}},"subtree":[]}}
GET /v3/projects/{b}?parents_as_list=false => 200 "links":{"self":"http://keystone/v3/projects/{b}"}}}
GET /v3/projects/{b}?parents_as_list&parents_as_ids => 400 Cannot use parents_as_list and parents_as_ids
GET /v3/projects/{b}?subtree_as_list&subtree_as_ids => 400 Cannot use subtree_as_list and subtree_as_ids
GET /v3/projects/nope?subtree_as_ids => 404
`, v)
}
