package keystone

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/ostiary/ostiary/internal/identity"
)

// endpointGroups are the endpoint groups of OS-EP-FILTER.
var endpointGroups = &resource{
	kind: identity.EndpointGroup, singular: "endpoint_group", plural: "endpoint_groups", folder: "OS-EP-FILTER", closed: true, filters: []string{"name"},
	fields: []field{
		{name: "name", form: formName, required: true, max: 255}, {name: "description", null: true},
		{name: "filters", form: formFilters, required: true}, {name: "id"},
	},
	target: func(target, *identity.Record) {},
	show: func(o *object, r *identity.Record) {
		o.text("id", r.ID)
		o.text("name", r.Name)
		o.member(r.Members, "description", "null")
		o.member(r.Members, "filters", "{}")
	},
}

// interfaces are the interfaces of endpoints.
var interfaces = []string{"admin", "internal", "public"}

func emptyObject(text json.RawMessage) bool {
	m, err := identity.ParseMembers(text)
	return err == nil && len(m) == 0
}

// checkFilters validates the filters of an endpoint group. They may be empty, but
// not when the group is made.
func checkFilters(value json.RawMessage) error {
	m, err := identity.ParseMembers(value)
	if err != nil {
		return invalidField("filters", string(value), shorten(string(value))+" is not of type 'object'")
	}
	for _, f := range m {
		var text string
		switch {
		case f.Name != "service_id" && f.Name != "region_id" && f.Name != "interface":
			return expecting("service_id or region_id or interface", "endpoint_group")
		case json.Unmarshal(f.Value, &text) != nil || string(f.Value) == "null":
			return invalidField(f.Name, string(f.Value), shorten(string(f.Value))+" is not of type 'string'")
		case f.Name == "interface" && !slices.Contains(interfaces, text):
			return notOneOf(f.Name, text, interfaces)
		}
	}
	return nil
}

// endpointFilterRoutes are the routes of the associations of OS-EP-FILTER.
var endpointFilterRoutes = slices.Concat(
	[]route{
		{method: http.MethodGet, path: "/OS-EP-FILTER/endpoint_groups/{group}/endpoints", name: "ListEndpointsOfGroup", serve: (*call).endpointsOfGroup},
		{method: http.MethodGet, path: "/OS-EP-FILTER/endpoint_groups/{group}/projects", name: "ListProjectsOfEndpointGroup", serve: (*call).projectsOfEndpointGroup},
		{method: http.MethodGet, path: "/OS-EP-FILTER/endpoints/{endpoint}/projects", name: "ListProjectsOfEndpoint", serve: (*call).projectsOfEndpoint},
		{method: http.MethodGet, path: "/OS-EP-FILTER/projects/{project}/endpoints", name: "ListEndpointsOfProject", serve: (*call).endpointsOfProject},
		{method: http.MethodGet, path: "/OS-EP-FILTER/projects/{project}/endpoint_groups", name: "ListEndpointGroupsOfProject", serve: (*call).endpointGroupsOfProject},
	},
	(&association{
		kind: identity.EndpointFilter, path: "/OS-EP-FILTER/endpoint_groups/{group}/projects/{project}", name: "EndpointGroupInProject",
		create: "add_endpoint_group_to_project", check: "get_endpoint_group_in_project", remove: "remove_endpoint_group_from_project",
		ends: []identity.Kind{identity.EndpointGroup, identity.Project}, missing: "Endpoint Group Project Association not found", show: (*call).showGroupInProject,
	}).routes(),
	(&association{
		kind: identity.EndpointFilter, path: "/OS-EP-FILTER/projects/{project}/endpoints/{endpoint}", name: "EndpointInProject",
		create: "add_endpoint_to_project", check: "check_endpoint_in_project", remove: "remove_endpoint_from_project",
		ends: []identity.Kind{identity.Project, identity.Endpoint}, missing: "Endpoint not found in project",
	}).routes(),
)

// association is a route whose path names records that may be associated.
type association struct {
	kind identity.Kind
	path string // pattern, with one parameter for each end
	name string // name of the routes, after a verb
	// create, check and remove are the rules of PUT, of GET and of DELETE.
	create, check, remove string
	ends                  []identity.Kind
	missing               string // text of the error of an association that does not exist
	// show answers GET; nil answers 204.
	show func(*call) error
	// quiet makes DELETE of an association that does not exist succeed.
	quiet bool
}

// routes returns the routes of an association.
func (a *association) routes() []route {
	return []route{
		{method: http.MethodPut, path: a.path, name: "Create" + a.name, serve: a.put},
		{method: http.MethodGet, path: a.path, name: "Check" + a.name, serve: a.get},
		{method: http.MethodDelete, path: a.path, name: "Delete" + a.name, serve: a.delete},
	}
}

// connects returns the records that the path names, if the caller may call the
// operation. It fails with 404 if one does not exist.
func (a *association) connects(c *call, operation string) (map[identity.Kind]string, error) {
	if err := c.may(operation, nil); err != nil {
		return nil, err
	}
	ids := map[identity.Kind]string{}
	for i, k := range a.ends {
		ids[k] = c.Params.At(i)
		r, err := c.id.Get(c.Context(), k, ids[k])
		if err == nil && k == identity.Project && r.IsDomain {
			err = &statusError{http.StatusNotFound, "Could not find project: " + shorten(ids[k]) + "."}
		}
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (a *association) put(c *call) error {
	ids, err := a.connects(c, a.create)
	if err != nil {
		return err
	}
	if err := c.id.Associate(c.Context(), a.kind, ids); err != nil {
		return err
	}
	return c.done()
}

func (a *association) get(c *call) error {
	ids, err := a.connects(c, a.check)
	if err != nil {
		return err
	}
	found, err := c.id.Associated(c.Context(), a.kind, ids)
	switch {
	case err != nil:
		return err
	case !found:
		return &statusError{http.StatusNotFound, a.missing}
	case a.show != nil:
		return a.show(c)
	}
	return c.done()
}

func (a *association) delete(c *call) error {
	ids, err := a.connects(c, a.remove)
	if err != nil {
		return err
	}
	existed, err := c.id.Dissociate(c.Context(), a.kind, ids)
	if err != nil {
		return err
	}
	if !existed && !a.quiet {
		return &statusError{http.StatusNotFound, a.missing}
	}
	return c.done()
}

// showGroupInProject answers GET of the association of an endpoint group.
func (c *call) showGroupInProject() error {
	var o object
	o.begin("project_endpoint_group")
	o.text("endpoint_group_id", c.Params.At(0))
	o.text("project_id", c.Params.At(1))
	o.links(c.link("OS-EP-FILTER", "endpoint_groups", c.Params.At(0), "projects", c.Params.At(1)))
	o.end()
	return c.write(http.StatusOK, &o)
}

// endpointsOfGroup answers GET /v3/OS-EP-FILTER/endpoint_groups/{id}/endpoints.
func (c *call) endpointsOfGroup() error {
	if err := c.may("list_endpoints_associated_with_endpoint_group", nil); err != nil {
		return err
	}
	found, err := c.id.GroupEndpoints(c.Context(), c.Params.At(0))
	if err != nil {
		return err
	}
	return c.sendRecords(endpoints, found, false)
}

// projectsOfEndpointGroup answers GET /v3/OS-EP-FILTER/endpoint_groups/{id}/projects.
func (c *call) projectsOfEndpointGroup() error {
	if err := c.may("list_projects_associated_with_endpoint_group", nil); err != nil {
		return err
	}
	return c.sendAssociated(identity.EndpointGroup, projects)
}

// projectsOfEndpoint answers GET /v3/OS-EP-FILTER/endpoints/{id}/projects.
func (c *call) projectsOfEndpoint() error {
	if _, err := c.get(endpoints, "list_projects_for_endpoint", c.Params.At(0)); err != nil {
		return err
	}
	return c.sendAssociated(identity.Endpoint, projects)
}

// endpointGroupsOfProject answers GET /v3/OS-EP-FILTER/projects/{id}/endpoint_groups.
func (c *call) endpointGroupsOfProject() error {
	if _, err := c.get(projects, "list_endpoint_groups_for_project", c.Params.At(0)); err != nil {
		return err
	}
	return c.sendAssociated(identity.Project, endpointGroups)
}

// sendAssociated answers with the records of a resource that are associated with
// the record in the path, whose kind is k.
func (c *call) sendAssociated(k identity.Kind, x *resource) error {
	filters, err := c.id.Referring(c.Context(), k, c.Params.At(0), identity.EndpointFilter)
	if err != nil {
		return err
	}
	var ids []string
	for _, f := range filters {
		if id, ok := f.Connects[x.kind]; ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	found, err := c.lookupAll(x.kind, ids)
	if err != nil {
		return err
	}
	return c.sendRecords(x, found, false)
}

// endpointsOfProject answers GET /v3/OS-EP-FILTER/projects/{id}/endpoints.
func (c *call) endpointsOfProject() error {
	if _, err := c.get(projects, "list_endpoints_for_project", c.Params.At(0)); err != nil {
		return err
	}
	found, err := c.id.ProjectEndpoints(c.Context(), c.Params.At(0))
	if err != nil {
		return err
	}
	return c.sendRecords(endpoints, found, false)
}
