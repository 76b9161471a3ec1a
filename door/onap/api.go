package onap

import (
	"fmt"
	"iter"
	"net/http"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// latest is the version in a path that means the newest one.
const latest = "latest"

// apiDoor returns the door of the policy API.
func (s *service) apiDoor() *door.Door {
	route := func(method, pattern, name string, serve func(*call) error) door.Route {
		return door.Route{Method: method, Pattern: pattern, Name: name, Serve: s.handle(writeError, serve)}
	}
	writes := func(method, pattern, name string, serve func(*call) error) door.Route {
		r := route(method, pattern, name, serve)
		r.Writes = true
		return r
	}
	const typePath, policyPath = "/policytypes/{type}/versions/{version}", "/policies/{policy}/versions/{policy_version}"
	return s.newDoor(NameAPI, prefixAPI, writeError, []door.Route{
		route(http.MethodGet, "/healthcheck", "Health", (*call).apiHealth),
		route(http.MethodGet, "/policytypes", "PolicyTypes", (*call).policyTypes),
		writes(http.MethodPost, "/policytypes", "CreatePolicyTypes", (*call).createTypes),
		route(http.MethodGet, "/policytypes/{type}", "PolicyTypes", (*call).policyTypes),
		route(http.MethodGet, typePath, "PolicyType", (*call).policyTypes),
		writes(http.MethodDelete, typePath, "DeletePolicyType", (*call).deleteType),
		route(http.MethodGet, typePath+"/policies", "PoliciesOfType", (*call).policies),
		writes(http.MethodPost, typePath+"/policies", "CreatePolicies", (*call).createPolicies),
		route(http.MethodGet, typePath+"/policies/{policy}", "PoliciesOfType", (*call).policies),
		route(http.MethodGet, typePath+policyPath, "Policy", (*call).policies),
		writes(http.MethodDelete, typePath+policyPath, "DeletePolicy", (*call).deletePolicy),
		route(http.MethodGet, "/policies", "Policies", (*call).policies),
		writes(http.MethodPost, "/policies", "CreatePolicies", (*call).createPolicies),
		route(http.MethodGet, policyPath, "Policy", (*call).policies),
		writes(http.MethodDelete, policyPath, "DeletePolicy", (*call).deletePolicy),
		route(http.MethodGet, "/nodetemplates", "NodeTemplates", (*call).nodeTemplates),
		writes(http.MethodPost, "/nodetemplates", "CreateNodeTemplates", (*call).createNodeTemplates),
		writes(http.MethodPut, "/nodetemplates", "UpdateNodeTemplates", (*call).updateNodeTemplates),
		route(http.MethodGet, "/nodetemplates/{name}/versions/{version}", "NodeTemplate", (*call).nodeTemplates),
		writes(http.MethodDelete, "/nodetemplates/{name}/versions/{version}", "DeleteNodeTemplate", (*call).deleteNodeTemplate),
	})
}

// health is a health report of ONAP.
type health struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Healthy bool   `json:"healthy"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// health returns the health report of a component.
func (c *call) health(name string) health {
	if _, err := c.catalog.World(c.Context()); err != nil {
		c.options.Report(err)
		return health{name, "self", false, http.StatusServiceUnavailable, "the store of the policies cannot be read"}
	}
	return health{name, "self", true, http.StatusOK, "alive"}
}

func (c *call) apiHealth() error {
	h := c.health("Policy API")
	return c.answerAny(h.Code, h)
}

// version returns a version parameter of the path: "" for the newest one.
func (c *call) version(name string) string {
	if v := c.Params.Named(name); v != latest {
		return v
	}
	return ""
}

// list returns the entities of a section with a name and a version. An empty name
// means all. newest is true if the path asks for the newest version.
func list(w *catalog.World, s tosca.Section, name, version string, newest bool) iter.Seq[*tosca.Entity] {
	if name == "" {
		return w.All(s)
	}
	return func(yield func(*tosca.Entity) bool) {
		versions := w.Versions(s, name)
		for i, e := range versions {
			if (version == "" || e.Version == version) && (!newest || i == len(versions)-1) && !yield(e) {
				return
			}
		}
	}
}

// policyTypes answers with policy types, their ancestors and data types.
func (c *call) policyTypes() error {
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	name, version := c.Params.Named("type"), c.version("version")
	var found []*tosca.Entity
	for e := range list(w, tosca.PolicyTypeSection, name, version, c.Params.Named("version") == latest) {
		found = append(found, e)
	}
	if len(found) == 0 {
		return notFound("policy types", name, version)
	}
	v := tosca.Compose(w.Closure(found))
	return c.answer(http.StatusOK, &v)
}

// notFound returns the error for a filter that selects nothing.
func notFound(what, name, version string) error {
	return &requestError{http.StatusNotFound, fmt.Sprintf("%s for filter name=%.200s, version=%.200s do not exist", what, name, version)}
}

func (c *call) createTypes() error {
	t, err := c.template()
	if err != nil {
		return err
	}
	if err := c.catalog.AddTypes(c.Context(), t); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, &t.Root)
}

func (c *call) deleteType() error {
	e, err := c.catalog.RemoveType(c.Context(), catalog.ID{Name: c.Params.Named("type"), Version: c.Params.Named("version")})
	return c.answerRemoved(e, err)
}

// answerRemoved answers with the template of a removed entity.
func (c *call) answerRemoved(e *tosca.Entity, err error) error {
	if err != nil {
		return err
	}
	v := tosca.Compose([]*tosca.Entity{e})
	return c.answer(http.StatusOK, &v)
}

// policies answers with policies. With ?mode=referenced it adds their types.
func (c *call) policies() error {
	mode, given, err := c.parameter("mode")
	if err == nil && given && mode != "bare" && mode != "referenced" && mode != "BARE" && mode != "REFERENCED" {
		err = &requestError{http.StatusBadRequest, fmt.Sprintf("invalid mode %.80q: expected bare or referenced", mode)}
	}
	if err != nil {
		return err
	}
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	name, version := c.Params.Named("policy"), c.version("policy_version")
	found, types := c.findPolicies(w, name, version)
	if len(found) == 0 {
		return notFound("policies", name, version)
	}
	if mode == "referenced" || mode == "REFERENCED" {
		found = append(found, w.Closure(types)...)
	}
	v := tosca.Compose(found)
	return c.answer(http.StatusOK, &v)
}

// findPolicies returns the policies that the path names, and their types.
func (c *call) findPolicies(w *catalog.World, name, version string) (found, types []*tosca.Entity) {
	typ, typeVersion := c.Params.Named("type"), c.version("version")
	seen := map[*tosca.Entity]bool{}
	newest := c.Params.Named("policy_version") == latest
	for e := range list(w, tosca.PolicySection, name, version, newest) {
		t, v := e.Type()
		if typ != "" && (t != typ || typeVersion != "" && v != typeVersion) {
			continue
		}
		found = append(found, e)
		if of := w.Find(tosca.PolicyTypeSection, t, v); of != nil && !seen[of] {
			seen[of] = true
			types = append(types, of)
		}
	}
	return found, types
}

// createPolicies adds policies. The type of the path does not matter.
func (c *call) createPolicies() error {
	t, err := c.template()
	if err != nil {
		return err
	}
	if err := c.catalog.AddPolicies(c.Context(), t); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, &t.Root)
}

// deletePolicy removes a policy. The type of the path does not matter.
func (c *call) deletePolicy() error {
	e, err := c.catalog.RemovePolicy(c.Context(), catalog.ID{Name: c.Params.Named("policy"), Version: c.Params.Named("policy_version")})
	return c.answerRemoved(e, err)
}

// nodeTemplates answers with a list of node templates.
func (c *call) nodeTemplates() error {
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	name, version := c.Params.Named("name"), c.version("version")
	out := tosca.Value{Kind: tosca.List}
	for e := range list(w, tosca.NodeTemplateSection, name, version, false) {
		out.Items = append(out.Items, e.Body)
	}
	if len(out.Items) == 0 && name != "" {
		return notFound("node templates", name, version)
	}
	return c.answer(http.StatusOK, &out)
}

func (c *call) createNodeTemplates() error {
	t, err := c.template()
	if err != nil {
		return err
	}
	if err := c.catalog.AddNodeTemplates(c.Context(), t); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, &t.Root)
}

func (c *call) updateNodeTemplates() error {
	t, err := c.template()
	if err != nil {
		return err
	}
	if err := c.catalog.UpdateNodeTemplates(c.Context(), t); err != nil {
		return err
	}
	return c.answer(http.StatusOK, &t.Root)
}

func (c *call) deleteNodeTemplate() error {
	e, err := c.catalog.RemoveNodeTemplate(c.Context(), catalog.ID{Name: c.Params.Named("name"), Version: c.Params.Named("version")})
	return c.answerRemoved(e, err)
}
