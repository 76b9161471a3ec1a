package keystone

import (
	"net/http"
	"slices"
	"strings"
)

// routes are all routes of the API, below each prefix.
var routes = slices.Concat(
	[]route{
		{method: http.MethodGet, path: "", name: "Discover", anonymous: true, serve: (*call).discover},
		{method: http.MethodPost, path: "/auth/tokens", name: "IssueToken", login: true, mayWrite: true, anonymous: true, serve: (*call).issueToken},
		{method: http.MethodGet, path: "/auth/tokens", name: "ValidateToken", serve: (*call).validateToken},
		{method: http.MethodDelete, path: "/auth/tokens", name: "RevokeToken", serve: (*call).revokeToken},
		{method: http.MethodGet, path: "/auth/catalog", name: "AuthCatalog", serve: (*call).authCatalog},
		{method: http.MethodGet, path: "/auth/projects", name: "AuthProjects", serve: func(c *call) error { return c.authTargets(projects) }},
		{method: http.MethodGet, path: "/auth/domains", name: "AuthDomains", serve: func(c *call) error { return c.authTargets(domains) }},
		{method: http.MethodGet, path: "/auth/system", name: "AuthSystem", serve: (*call).authSystem},
		{method: http.MethodGet, path: "/OS-REVOKE/events", name: "RevocationEvents", serve: (*call).revocationEvents},
	},
	records(users, "User"), records(groups, "Group"), records(domains, "Domain"),
	served(records(projects, "Project"), handlers{"GetProject": (*call).getProject}),
	records(roles, "Role"), records(regions, "Region"), records(services, "Service"), records(endpoints, "Endpoint"),
	limitRoutes(), domainConfigRoutes(), federationRoutes(),
	[]route{
		{method: http.MethodPut, path: "/regions/{id}", name: "PutRegion", serve: (*call).putRegion},
		{method: http.MethodGet, path: "/projects/{id}/tags", name: "ListProjectTags", serve: (*call).listTags},
		{method: http.MethodPut, path: "/projects/{id}/tags", name: "ReplaceProjectTags", serve: (*call).replaceTags},
		{method: http.MethodDelete, path: "/projects/{id}/tags", name: "RemoveProjectTags", serve: (*call).removeTags},
		{method: http.MethodPut, path: "/projects/{id}/tags/{tag}", name: "AddProjectTag", serve: (*call).addTag},
		{method: http.MethodGet, path: "/projects/{id}/tags/{tag}", name: "CheckProjectTag", serve: (*call).checkTag},
		{method: http.MethodDelete, path: "/projects/{id}/tags/{tag}", name: "RemoveProjectTag", serve: (*call).removeTag},
		{method: http.MethodPost, path: "/users/{user}/password", name: "ChangePassword", anonymous: true, serve: (*call).changePassword},
		{method: http.MethodDelete, path: "/users/{user}/tokens", name: "RevokeTokensOfUser", serve: (*call).revokeTokensOfUser},
		{method: http.MethodGet, path: "/users/{user}/groups", name: "ListGroupsOfUser", serve: (*call).groupsOfUser},
		{method: http.MethodGet, path: "/users/{user}/projects", name: "ListProjectsOfUser", serve: (*call).projectsOfUser},
		{method: http.MethodGet, path: "/groups/{group}/users", name: "ListUsersOfGroup", serve: (*call).usersOfGroup},
		{method: http.MethodPut, path: "/groups/{group}/users/{user}", name: "AddMember", serve: (*call).addMember},
		{method: http.MethodGet, path: "/groups/{group}/users/{user}", name: "CheckMember", serve: (*call).checkMember},
		{method: http.MethodDelete, path: "/groups/{group}/users/{user}", name: "RemoveMember", serve: (*call).removeMember},
		{method: http.MethodPut, path: "/roles/{role}/implies/{implied}", name: "CreateImpliedRole", serve: (*call).createImplied},
		{method: http.MethodGet, path: "/roles/{role}/implies/{implied}", name: "GetImpliedRole", serve: (*call).getImplied},
		{method: http.MethodDelete, path: "/roles/{role}/implies/{implied}", name: "DeleteImpliedRole", serve: (*call).deleteImplied},
		{method: http.MethodGet, path: "/roles/{role}/implies", name: "ListImpliedRoles", serve: (*call).listImplied},
		{method: http.MethodGet, path: "/role_inferences", name: "ListRoleInferences", serve: (*call).listInferences},
		{method: http.MethodGet, path: "/role_assignments", name: "ListRoleAssignments", serve: (*call).roleAssignments},
	},
	credentialRoutes, ec2Routes, oauth1Routes, oauth2Routes,
	applicationRoutes, trustRoutes, goneRoutes,
	records(endpointGroups, "EndpointGroup"), endpointFilterRoutes, records(policies, "Policy"), policyRoutes(),
	grantRoute{}.routes("/projects/{target}/users/{user}/roles", "", "ProjectUserGrant"),
	grantRoute{group: true}.routes("/projects/{target}/groups/{group}/roles", "", "ProjectGroupGrant"),
	grantRoute{domain: true}.routes("/domains/{target}/users/{user}/roles", "", "DomainUserGrant"),
	grantRoute{domain: true, group: true}.routes("/domains/{target}/groups/{group}/roles", "", "DomainGroupGrant"),
	grantRoute{system: true}.routes("/system/users/{user}/roles", "", "SystemUserGrant"),
	grantRoute{system: true, group: true}.routes("/system/groups/{group}/roles", "", "SystemGroupGrant"),
	grantRoute{inherited: true}.routes("/OS-INHERIT/projects/{target}/users/{user}/roles", "/inherited_to_projects", "InheritedProjectUserGrant"),
	grantRoute{inherited: true, group: true}.routes("/OS-INHERIT/projects/{target}/groups/{group}/roles", "/inherited_to_projects", "InheritedProjectGroupGrant"),
	grantRoute{inherited: true, domain: true}.routes("/OS-INHERIT/domains/{target}/users/{user}/roles", "/inherited_to_projects", "InheritedDomainUserGrant"),
	grantRoute{inherited: true, domain: true, group: true}.routes("/OS-INHERIT/domains/{target}/groups/{group}/roles", "/inherited_to_projects", "InheritedDomainGroupGrant"),
)

// goneRoutes are the routes of tokens that were certificates (PKI). Keystone refuses them.
var goneRoutes = []route{
	{method: http.MethodGet, path: "/auth/tokens/OS-PKI/revoked", name: "RevokedTokens", anonymous: true, serve: func(*call) error {
		return &statusError{http.StatusForbidden, "You are not authorized to perform the requested action."}
	}},
	{method: http.MethodGet, path: "/OS-SIMPLE-CERT/ca", name: "SigningAuthority", anonymous: true, serve: (*call).gone},
	{method: http.MethodGet, path: "/OS-SIMPLE-CERT/certificates", name: "SigningCertificates", anonymous: true, serve: (*call).gone},
}

func (c *call) gone() error {
	return &statusError{http.StatusGone, "This API is no longer available due to the removal of support for PKI tokens."}
}

// records returns the routes that every resource has.
func records(x *resource, name string) []route {
	list := "/" + strings.Join(x.path(), "/")
	one := list + "/{id}"
	return []route{
		{method: http.MethodGet, path: list, name: "List" + name + "s", serve: x.listAll},
		{method: http.MethodPost, path: list, name: "Create" + name, serve: x.create},
		{method: http.MethodGet, path: one, name: "Get" + name, serve: x.getOne},
		{method: http.MethodPatch, path: one, name: "Update" + name, serve: x.update},
		{method: http.MethodDelete, path: one, name: "Delete" + name, serve: x.remove},
	}
}

// handlers are functions that serve routes, by the names of the routes.
type handlers map[string]func(*call) error

// served returns the routes, of which the named ones are served by others than
// those that every resource has.
func served(routes []route, by handlers) []route {
	for i := range routes {
		if serve, other := by[routes[i].name]; other {
			routes[i].serve = serve
		}
	}
	return routes
}
