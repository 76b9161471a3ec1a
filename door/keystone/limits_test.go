package keystone_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// registered makes a service and a registered limit of it, and returns the ids of
// both.
func (c *cloud) registered(resource string, limit int) (id, service string) {
	c.t.Helper()
	service = c.id("services", "service", `"type":"compute","name":"nova"`)
	return c.limits("registered_limits", fmt.Sprintf(`"service_id":%q,"resource_name":%q,"default_limit":%d`, service, resource, limit)), service
}

// limit makes one limit and returns its id.
func (c *cloud) limit(members string) string {
	c.t.Helper()
	return c.limits("limits", members)
}

func (c *cloud) limits(plural, members string) string {
	c.t.Helper()
	a := c.do("POST", "/v3/"+plural, c.admin, `{"`+plural+`":[{`+members+`}]}`)
	made, _ := a.body[plural].([]any)
	if a.status != 201 || len(made) != 1 {
		c.t.Fatalf("POST %s: %d %s", plural, a.status, a.text)
	}
	return made[0].(map[string]any)["id"].(string)
}

// play sends the requests of a script as the administrator. Each line is
// METHOD PATH [BODY] => STATUS [part of the response]. {x} is the value of x.
func (c *cloud) play(script string, values map[string]string) {
	c.t.Helper()
	for line := range strings.Lines(strings.TrimSpace(script)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		for name, value := range values {
			line = strings.ReplaceAll(line, "{"+name+"}", value)
		}
		request, want, _ := strings.Cut(line, " => ")
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		status, part, _ := strings.Cut(want, " ")
		a := c.do(method, path, c.admin, body)
		if fmt.Sprint(a.status) != status || !strings.Contains(a.text, part) {
			c.t.Errorf("%s: %d %s, want %s", request, a.status, a.text, want)
		}
	}
}

// limitCloud returns a deployment with the registered limit of 10 cores, a domain
// and projects.
func limitCloud(t *testing.T, model settings.LimitModel) (*cloud, map[string]string) {
	t.Helper()
	c := newCloudWith(t, settings.Deployment{Rounds: 4, Limits: model})
	v := map[string]string{"domain": c.id("domains", "domain", `"name":"d"`)}
	v["cores"], v["nova"] = c.registered("cores", 10)
	in := `,"domain_id":"` + v["domain"] + `"`
	v["p"], v["q"] = c.id("projects", "project", `"name":"p"`+in), c.id("projects", "project", `"name":"q"`+in)
	v["of"] = `"service_id":"` + v["nova"] + `","resource_name":"cores"`
	return c, v
}

func TestLimits(t *testing.T) {
	c, v := limitCloud(t, "")
	v["limit"] = c.limit(v["of"] + `,"project_id":"` + v["p"] + `","resource_limit":99`)
	c.play(`
GET /v3/limits/model => 200 {"model":{"name":"flat","description":
GET /v3/registered_limits/{cores} => 200 "service_id":"{nova}","region_id":null,"resource_name":"cores","default_limit":10,"description":null,"links":{"self":"http://keystone/v3/registered_limits/{cores}"}
GET /v3/registered_limits?resource_name=cores => 200 {cores}
GET /v3/registered_limits?service_id=other => 200 {"registered_limits":[],"links"
GET /v3/registered_limits/nope => 404 Could not find registered limit for nope.
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"cores","default_limit":1}]} => 409 attempting to store registered_limit - Duplicate entry.
POST /v3/registered_limits {"registered_limits":[{"service_id":"nope","resource_name":"x","default_limit":1}]} => 400 service_id
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"x","region_id":"nope","default_limit":1}]} => 400 region_id
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"x","region_id":"","default_limit":1}]} => 400 region_id
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"x\u0000y","default_limit":1}]} => 400 NUL
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"x"}]} => 400 'default_limit' is a required property
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"x","default_limit":"1"}]} => 400 is not of type 'integer'
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"x","default_limit":-2}]} => 400 expected a number from -1
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"x","default_limit":2147483648}]} => 400 to 2147483647
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"x","default_limit":1,"color":1}]} => 400 'color' was unexpected
POST /v3/registered_limits {"registered_limits":[]} => 400 non-empty
POST /v3/registered_limits {"registered_limits":{}} => 400 is not of type 'array'
POST /v3/registered_limits {"registered_limits":[1]} => 400 expected an object
POST /v3/registered_limits {"registered_limit":{}} => 400 'registered_limit' was unexpected
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"max","default_limit":2147483647},{"service_id":"{nova}","resource_name":"none","default_limit":-1}]} => 201 "default_limit":-1
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"new","default_limit":1},{"service_id":"{nova}","resource_name":"max","default_limit":1}]} => 409 Duplicate
POST /v3/registered_limits {"registered_limits":[{"service_id":"{nova}","resource_name":"new","default_limit":1},{"service_id":"{nova}","resource_name":"new","default_limit":2}]} => 409 Duplicate
GET /v3/registered_limits?resource_name=new => 200 {"registered_limits":[],"links"

GET /v3/limits/{limit} => 200 "project_id":"{p}","domain_id":null,"id":"{limit}","service_id":"{nova}","region_id":null,"resource_name":"cores","resource_limit":99
GET /v3/limits?project_id={p} => 200 {limit}
GET /v3/limits?domain_id={domain} => 200 {"limits":[],"links"
GET /v3/limits/nope => 404 Could not find limit for nope.
POST /v3/limits {"limits":[{{of},"project_id":"{p}","resource_limit":5}]} => 409 attempting to store limit - Duplicate entry.
POST /v3/limits {"limits":[{{of},"resource_limit":5}]} => 400 exactly one of project_id and domain_id
POST /v3/limits {"limits":[{{of},"resource_limit":5,"project_id":"{q}","domain_id":"{domain}"}]} => 400 exactly one of project_id and domain_id
POST /v3/limits {"limits":[{{of},"resource_limit":5,"project_id":"nope"}]} => 400 project_id
POST /v3/limits {"limits":[{{of},"resource_limit":5,"domain_id":"{p}"}]} => 404 Could not find domain
POST /v3/limits {"limits":[{"service_id":"{nova}","resource_name":"gold","project_id":"{q}","resource_limit":5}]} => 403 no corresponding registered limit
POST /v3/limits {"limits":[{{of},"region_id":"RegionOne","project_id":"{q}","resource_limit":5}]} => 403 no corresponding registered limit
POST /v3/limits {"limits":[{{of},"project_id":"{domain}","resource_limit":5}]} => 201 "project_id":null,"domain_id":"{domain}"
GET /v3/limits?domain_id={domain} => 200 "domain_id":"{domain}"
PATCH /v3/limits/{limit} {"limit":{"resource_limit":0}} => 200 "resource_limit":0
PATCH /v3/limits/{limit} {"limit":{"project_id":"{q}"}} => 400 'project_id' was unexpected
PATCH /v3/limits/{limit} {"limit":{"description":"d"}} => 200 "resource_limit":0,"description":"d"
PATCH /v3/registered_limits/{cores} {"registered_limit":{"resource_name":"x"}} => 403 Unable to update or delete registered limit {cores}
DELETE /v3/registered_limits/{cores} => 403 Unable to update or delete registered limit {cores}
DELETE /v3/services/{nova} => 403 the registered limit
DELETE /v3/projects/{p} => 204
GET /v3/limits/{limit} => 404
PATCH /v3/domains/{domain} {"domain":{"enabled":false}} => 200
DELETE /v3/domains/{domain} => 204
GET /v3/limits => 200 {"limits":[],"links"
PATCH /v3/registered_limits/{cores} {"registered_limit":{"resource_name":"x","default_limit":7}} => 200 "resource_name":"x","default_limit":7
GET /v3/registered_limits?resource_name=x => 200 {cores}
DELETE /v3/registered_limits/{cores} => 204
`, v)
}

// TestTwoLevelLimits compares limits of projects with those of their domain.
func TestTwoLevelLimits(t *testing.T) {
	c, v := limitCloud(t, settings.TwoLevelLimits)
	c.play(`
GET /v3/limits/model => 200 "name":"strict_two_level"
POST /v3/projects {"project":{"name":"deep","parent_id":"{p}","domain_id":"{domain}"}} => 403 Max hierarchy depth reached
POST /v3/limits {"limits":[{{of},"project_id":"{p}","resource_limit":11}]} => 403 Invalid resource limit: The resource limit (project_id: {p}, resource_name: cores, resource_limit: 11, service_id: {nova}
POST /v3/limits {"limits":[{{of},"project_id":"{p}","resource_limit":-1}]} => 403 Invalid resource limit
POST /v3/limits {"limits":[{{of},"project_id":"{p}","resource_limit":11},{{of},"domain_id":"{domain}","resource_limit":20}]} => 201
POST /v3/limits {"limits":[{{of},"project_id":"{q}","resource_limit":21}]} => 403 Invalid resource limit
POST /v3/limits {"limits":[{{of},"project_id":"{q}","resource_limit":20}]} => 201
`, v)
	for _, r := range c.do("GET", "/v3/limits", c.admin, "").body["limits"].([]any) {
		r := r.(map[string]any)
		v[fmt.Sprint("limit of ", r["project_id"])] = r["id"].(string)
	}
	v["ofD"], v["ofP"] = v["limit of <nil>"], v["limit of "+v["p"]]
	c.play(`
PATCH /v3/limits/{ofP} {"limit":{"resource_limit":21}} => 403 Invalid resource limit
PATCH /v3/limits/{ofD} {"limit":{"resource_limit":19}} => 403 Invalid resource limit: The resource limit (domain_id: {domain}
PATCH /v3/limits/{ofD} {"limit":{"resource_limit":-1}} => 200
PATCH /v3/limits/{ofP} {"limit":{"resource_limit":-1}} => 200
PATCH /v3/limits/{ofD} {"limit":{"resource_limit":1000}} => 403 Invalid resource limit
`, v)
}

// TestTwoLevelLimitsNeedFlatProjects opens a deployment whose projects are too deep
// for the model of limits.
func TestTwoLevelLimitsNeedFlatProjects(t *testing.T) {
	c := newCloud(t)
	p := c.id("projects", "project", `"name":"p"`)
	c.id("projects", "project", `"name":"q","parent_id":"`+p+`"`)
	store, err := c.engine.StoreByAlias(t.Context(), "keystone", "default")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Open(t.Context(), store, settings.Deployment{Limits: settings.TwoLevelLimits}); err == nil || !strings.Contains(err.Error(), "2 levels below its domain") {
		t.Error(err)
	}
	if _, err := identity.Open(t.Context(), store, settings.Deployment{Limits: "three"}); err == nil || !strings.Contains(err.Error(), `unknown limit model "three"`) {
		t.Error(err)
	}
}

// TestLimitsSeen lists limits as users of a domain and of projects.
func TestLimitsSeen(t *testing.T) {
	w := newPersonaWorld(t)
	for _, p := range w.personas {
		if p == "unscoped" { // cannot list limits
			continue
		}
		a := w.do("GET", "/v3/limits", w.tokenOf(p), "")
		all := p[0] == 's' || strings.HasSuffix(p, "admin") || p == "p-service"
		for limit, want := range map[string]bool{"limitA": all || p[0] == 'd', "limita": true, "limitb": all} {
			if seen := strings.Contains(a.text, w.values[limit]); seen != want {
				t.Errorf("%s sees %s: %v, want %v", p, limit, seen, want)
			}
		}
	}
}
