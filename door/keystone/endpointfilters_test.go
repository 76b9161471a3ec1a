package keystone_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// catalogTypes returns the types of the services in the catalog of a new token of
// the administrator, each as often as it has endpoints and at least once.
func (c *cloud) catalogTypes(scope string) (types []string) {
	c.t.Helper()
	token, _ := c.login("admin", "secret", scope).body["token"].(map[string]any)
	for _, s := range token["catalog"].([]any) {
		s := s.(map[string]any)
		for range max(1, len(s["endpoints"].([]any))) {
			types = append(types, s["type"].(string))
		}
	}
	slices.Sort(types)
	return types
}

// TestFilteredCatalog associates endpoints and endpoint groups with a project, so
// that its catalog has those only.
func TestFilteredCatalog(t *testing.T) {
	c := newCloud(t)
	project := c.id("projects", "project", `"name":"p"`)
	users := c.do("GET", "/v3/users?name=admin", c.admin, "").body["users"].([]any)
	c.ok(204, "PUT", "/v3/projects/"+project+"/users/"+users[0].(map[string]any)["id"].(string)+"/roles/"+c.roles["admin"], "", "")
	compute, image := c.id("services", "service", `"type":"compute"`), c.id("services", "service", `"type":"image"`)
	endpoint := func(service, face string) string {
		return c.id("endpoints", "endpoint", fmt.Sprintf(`"interface":%q,"url":"http://x","service_id":%q`, face, service))
	}
	public, admin := endpoint(compute, "public"), endpoint(compute, "admin")
	endpoint(image, "public")
	group := c.id("OS-EP-FILTER/endpoint_groups", "endpoint_group", `"name":"g","filters":{"interface":"admin","service_id":"`+compute+`"}`)
	scope := `{"project":{"id":"` + project + `"}}`
	check := func(what string, want ...string) {
		t.Helper()
		if got := c.catalogTypes(scope); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("unfiltered", "compute", "compute", "identity", "image")
	for _, step := range []struct {
		call   string
		status int
		want   []string
	}{
		{"PUT /v3/OS-EP-FILTER/projects/P/endpoints/" + public, 204, []string{"compute"}},
		{"PUT /v3/OS-EP-FILTER/projects/P/endpoints/" + public, 409, []string{"compute"}},
		{"HEAD /v3/OS-EP-FILTER/projects/P/endpoints/" + public, 204, []string{"compute"}},
		{"PUT /v3/OS-EP-FILTER/endpoint_groups/" + group + "/projects/P", 204, []string{"compute", "compute"}},
		{"GET /v3/OS-EP-FILTER/endpoint_groups/" + group + "/projects/P", 200, []string{"compute", "compute"}},
		{"DELETE /v3/OS-EP-FILTER/projects/P/endpoints/" + public, 204, []string{"compute"}},
		{"DELETE /v3/OS-EP-FILTER/projects/P/endpoints/" + public, 404, []string{"compute"}},
		{"DELETE /v3/endpoints/" + admin, 204, []string{"compute", "identity", "image"}}, // the group selects nothing
		{"PUT /v3/OS-EP-FILTER/projects/default/endpoints/" + public, 404, []string{"compute", "identity", "image"}},
	} {
		method, path, _ := strings.Cut(step.call, " ")
		if a := c.do(method, strings.ReplaceAll(path, "/P", "/"+project), c.admin, ""); a.status != step.status {
			t.Errorf("%s: %d %s, want %d", step.call, a.status, a.text, step.status)
		}
		check(step.call, step.want...)
	}
	// Other projects are not filtered, and no other scope is.
	for _, other := range []string{`{"project":{"name":"admin","domain":{"id":"default"}}}`, `{"system":{"all":true}}`} {
		if got := c.catalogTypes(other); len(got) != 3 {
			t.Errorf("%s: %v", other, got)
		}
	}
}

func TestEndpointGroups(t *testing.T) {
	c := newCloud(t)
	post := func(members string) answer {
		return c.do("POST", "/v3/OS-EP-FILTER/endpoint_groups", c.admin, `{"endpoint_group":{`+members+`}}`)
	}
	for members, want := range map[string]string{
		`"name":"g"`: "'filters' is a required property", `"filters":{"interface":"public"}`: "'name' is a required property", `"name":"g","filters":{}`: "cannot be empty",
		`"name":"g","filters":[]`: "is not of type 'object'", `"name":"g","filters":{"x":"y"}`: "Expecting to find service_id or region_id or interface",
		`"name":"g","filters":{"service_id":7}`: "is not of type 'string'", `"name":"g","filters":{"interface":"x"}`: "is not one of", `"name":"g","filters":{"region_id":null}`: "is not of type 'string'",
		`"name":"g","filters":{"interface":"public"},"x":1`: "('x' was unexpected)", `"name":"` + strings.Repeat("x", 256) + `","filters":{"interface":"public"}`: "too long",
	} {
		if a := post(members); a.status != 400 || !strings.Contains(a.text, want) {
			t.Errorf("%s: %d %s, want 400 %q", members, a.status, a.text, want)
		}
	}
	group := c.ok(201, "POST", "/v3/OS-EP-FILTER/endpoint_groups", `{"endpoint_group":{"name":"g","filters":{"interface":"public"}}}`, "endpoint_group")
	path := "/v3/OS-EP-FILTER/endpoint_groups/" + group["id"].(string)
	if group["description"] != nil || group["links"].(map[string]any)["self"] != "http://keystone"+path {
		t.Error(group)
	}
	patched := c.ok(200, "PATCH", path, `{"endpoint_group":{"name":"h","description":"d","filters":{}}}`, "endpoint_group")
	if patched["name"] != "h" || patched["description"] != "d" || len(patched["filters"].(map[string]any)) != 0 {
		t.Error(patched)
	}
	for query, want := range map[string]int{"": 1, "?name=h": 1, "?name=g": 0} {
		if got := c.do("GET", "/v3/OS-EP-FILTER/endpoint_groups"+query, c.admin, "").body["endpoint_groups"].([]any); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	if a := c.do("GET", path+"/endpoints", c.admin, ""); a.status != 200 || len(a.body["endpoints"].([]any)) != 1 {
		t.Error(a.status, a.text)
	}
	c.ok(204, "DELETE", path, "", "")
	c.ok(404, "GET", path, "", "")
}

func TestPolicies(t *testing.T) {
	c := newCloud(t)
	for members, want := range map[string]string{`"type":"t"`: "'blob' is a required property", `"blob":{},"type":"t"`: "is not of type 'string'", `"blob":"b","type":null`: "is not of type 'string'",
		`"blob":"b","type":"` + strings.Repeat("x", 256) + `"`: "too long"} {
		if a := c.do("POST", "/v3/policies", c.admin, `{"policy":{`+members+`}}`); a.status != 400 || !strings.Contains(a.text, want) {
			t.Errorf("%s: %d %s, want 400 %q", members, a.status, a.text, want)
		}
	}
	p := c.ok(201, "POST", "/v3/policies", `{"policy":{"blob":"","type":"t","name":"n","domain_id":"nope","enabled":"yes","parent_id":7}}`, "policy")
	path := "/v3/policies/" + p["id"].(string)
	if p["blob"] != "" || p["name"] != "n" || p["domain_id"] != "nope" || p["enabled"] != "yes" || p["parent_id"] != 7.0 {
		t.Error(p)
	}
	if got := c.ok(200, "PATCH", path, `{"policy":{"blob":"b","name":null}}`, "policy"); got["blob"] != "b" || got["type"] != "t" || got["name"] != nil {
		t.Error(got)
	}
	service := c.id("services", "service", `"type":"compute"`)
	endpoint := c.id("endpoints", "endpoint", `"interface":"public","url":"http://x","region_id":"RegionOne","service_id":"`+service+`"`)
	for _, of := range []string{"/endpoints/" + endpoint, "/services/" + service, "/services/" + service + "/regions/RegionOne"} {
		at := path + "/OS-ENDPOINT-POLICY" + of
		for _, step := range []struct {
			method string
			status int
		}{{"GET", 404}, {"PUT", 204}, {"PUT", 204}, {"GET", 204}, {"HEAD", 204}} {
			c.ok(step.status, step.method, at, "", "")
		}
		if a := c.do("GET", path+"/OS-ENDPOINT-POLICY/endpoints", c.admin, ""); len(a.body["endpoints"].([]any)) != 1 {
			t.Error(of, a.text)
		}
		if got := c.ok(200, "GET", "/v3/endpoints/"+endpoint+"/OS-ENDPOINT-POLICY/policy", "", "policy"); got["id"] != p["id"] {
			t.Error(of, got)
		}
		c.ok(204, "DELETE", at, "", "")
		c.ok(204, "DELETE", at, "", "")
		c.ok(404, "GET", at, "", "")
	}
	for _, of := range []string{"/endpoints/nope", "/services/nope", "/services/" + service + "/regions/nope", "/services/nope/regions/RegionOne"} {
		c.ok(404, "PUT", path+"/OS-ENDPOINT-POLICY"+of, "", "")
	}
	c.ok(404, "PUT", "/v3/policies/nope/OS-ENDPOINT-POLICY/services/"+service, "", "")
	c.ok(204, "DELETE", path, "", "")
}
