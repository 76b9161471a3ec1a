package keystone

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/access"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

// The resources of the API.
var (
	users = &resource{
		kind: identity.User, singular: "user", plural: "users", filters: []string{"name", "domain_id", "enabled", "password_expires_at", "idp_id", "protocol_id", "unique_id"},
		fields: []field{
			{name: "name", form: formName, required: true, max: 255}, {name: "domain_id", null: true}, {name: "enabled", form: formBoolean},
			{name: "password", null: true}, {name: "default_project_id", null: true}, {name: "options", form: formOptions},
			{name: "description", null: true}, {name: "email", null: true},
		},
		target: func(t target, r *identity.Record) {
			t["target.user.id"], t["target.user.domain_id"], t["user_id"] = r.ID, r.Domain, r.ID
		},
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			o.text("name", r.Name)
			o.text("domain_id", r.Domain)
			o.boolean("enabled", !r.Disabled)
			o.textOrNull("password_expires_at", passwordExpiry(r))
			o.member(r.Members, "options", "{}")
			if r.Federated != nil {
				showFederatedUser(o, r.Federated)
			}
			o.members(r.Members.Without("options", "federated"))
		},
		extra: func(m identity.Members) identity.Members {
			return m.Without("options", "federated", "default_project_id")
		},
	}
	groups = &resource{
		kind: identity.Group, singular: "group", plural: "groups", filters: []string{"name", "domain_id"},
		fields: []field{{name: "name", form: formName, required: true, max: 64}, {name: "domain_id"}, {name: "description", null: true}},
		target: func(t target, r *identity.Record) {
			t["target.group.id"], t["target.group.domain_id"] = r.ID, r.Domain
		},
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			o.text("name", r.Name)
			o.text("domain_id", r.Domain)
			o.member(r.Members, "description", `""`)
			o.members(r.Members.Without("description"))
		},
	}
	projects = &resource{
		kind: identity.Project, singular: "project", plural: "projects",
		filters: []string{"name", "domain_id", "parent_id", "enabled", "tags", "tags-any", "not-tags", "not-tags-any"},
		fields: []field{
			{name: "name", form: formName, required: true, max: 64}, {name: "domain_id", null: true}, {name: "parent_id", null: true},
			{name: "is_domain", form: formBoolean}, {name: "enabled", form: formBoolean}, {name: "description", null: true},
			{name: "tags", form: formTags}, {name: "options", form: formOptions},
		},
		target: func(t target, r *identity.Record) {
			t["target.project.id"], t["target.project.domain_id"] = r.ID, r.Domain
			if r.IsDomain {
				t["target.project.domain_id"] = access.Null
			}
		},
		show: showProject,
		extra: func(m identity.Members) identity.Members {
			return m.Without("options", "description", "tags", "is_domain")
		},
	}
	domains = &resource{
		kind: identity.Project, singular: "domain", plural: "domains", domains: true, filters: []string{"name", "enabled"},
		fields: []field{
			{name: "name", form: formName, required: true, max: 64}, {name: "enabled", form: formBoolean}, {name: "description", null: true},
			{name: "tags", form: formTags}, {name: "options", form: formOptions}, {name: "explicit_domain_id"},
		},
		target: func(t target, r *identity.Record) { t["target.domain.id"] = r.ID },
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			o.text("name", r.Name)
			showDescribed(o, r)
		},
	}
	roles = &resource{
		kind: identity.Role, singular: "role", plural: "roles", filters: []string{"name", "domain_id"},
		fields: []field{
			{name: "name", form: formName, required: true, max: 255}, {name: "domain_id", null: true},
			{name: "description", null: true}, {name: "options", form: formOptions},
		},
		target: func(t target, r *identity.Record) {
			t["target.role.id"], t["target.role.name"], t["target.role.domain_id"] = r.ID, r.Name, orNull(r.Domain)
		},
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			o.text("name", r.Name)
			o.textOrNull("domain_id", r.Domain)
			o.member(r.Members, "description", "null")
			o.member(r.Members, "options", "{}")
			o.members(r.Members.Without("description", "options"))
		},
	}
	regions = &resource{
		kind: identity.Region, singular: "region", plural: "regions", filters: []string{"parent_region_id"},
		fields: []field{
			{name: "id", max: 255}, {name: "description", null: true}, {name: "parent_region_id", null: true},
		},
		target: func(target, *identity.Record) {},
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			o.member(r.Members, "description", `""`)
			o.textOrNull("parent_region_id", r.Parent)
			o.members(r.Members.Without("description"))
		},
	}
	services = &resource{
		kind: identity.CatalogService, singular: "service", plural: "services", filters: []string{"name", "type"},
		fields: []field{
			{name: "type", form: formName, required: true, max: 255}, {name: "name", max: 255}, {name: "enabled", form: formBoolean},
			{name: "description", null: true},
		},
		target: func(target, *identity.Record) {},
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			if r.Name != "" {
				o.text("name", r.Name)
			}
			o.boolean("enabled", !r.Disabled)
			o.members(r.Members)
		},
	}
	endpoints = &resource{
		kind: identity.Endpoint, singular: "endpoint", plural: "endpoints", filters: []string{"interface", "service_id", "region_id"},
		fields: []field{
			{name: "interface", form: formName, required: true, oneOf: interfaces}, {name: "url", form: formEndpointURL, required: true, max: 225}, {name: "service_id", form: formName, required: true},
			{name: "region_id", null: true}, {name: "region", null: true}, {name: "enabled", form: formBoolean}, {name: "name"},
		},
		target: func(target, *identity.Record) {},
		show: func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			if r.Name != "" {
				o.text("name", r.Name)
			}
			o.text("service_id", r.Parent)
			o.boolean("enabled", !r.Disabled)
			o.textOrNull("region", r.Members.Text("region_id"))
			o.textOrNull("region_id", r.Members.Text("region_id"))
			o.members(r.Members.Without("region_id"))
		},
	}
)

func orNull(s string) string {
	if s == "" {
		return access.Null
	}
	return s
}

func showProject(o *object, r *identity.Record) {
	o.text("id", r.ID)
	o.text("name", r.Name)
	o.textOrNull("domain_id", r.Domain)
	o.textOrNull("parent_id", r.Parent)
	o.boolean("is_domain", r.IsDomain)
	showDescribed(o, r)
}

// showDescribed appends the members that projects and domains have in common.
func showDescribed(o *object, r *identity.Record) {
	o.member(r.Members, "description", `""`)
	o.boolean("enabled", !r.Disabled)
	o.member(r.Members, "tags", "[]")
	o.member(r.Members, "options", "{}")
	o.members(r.Members.Without("description", "tags", "options"))
}

// tagsOf returns the tags of a project.
func tagsOf(r *identity.Record) (tags []string) {
	if value, ok := r.Members.Get("tags"); ok && json.Unmarshal(value, &tags) != nil {
		return nil
	}
	return tags
}

// putRegion answers PUT /v3/regions/{id}: a new region whose id the path names.
func (c *call) putRegion() error {
	m, err := c.read(regions, true)
	if err != nil {
		return err
	}
	if id := m.Text("id"); id != "" && id != c.Params.At(0) {
		return invalidField("id", id, "expected the id of the path")
	}
	return c.add(regions, m.With("id", c.Params.At(0)))
}

// regionOfEndpoint makes the region that the member "region" of an endpoint
// names, the older form of region_id, if it does not exist.
func (c *call) regionOfEndpoint(m identity.Members) (identity.Members, error) {
	name := m.Text("region")
	m = m.Without("region")
	if name == "" || m.Text("region_id") != "" {
		return m, nil
	}
	_, err := c.id.Create(c.Context(), identity.Record{Kind: identity.Region, ID: name, Members: identity.Members{}.With("description", "")}, nil)
	if errors.Is(err, &identity.Error{Reason: identity.Conflict}) {
		err = nil
	}
	return m.With("region_id", name), err
}

// changePassword answers POST /v3/users/{id}/password. The old password
// authenticates the caller.
func (c *call) changePassword() error {
	m, err := c.body("user")
	if err != nil {
		return err
	}
	for _, f := range []field{{name: "original_password"}, {name: "password", form: formName}} {
		value, given := m.Get(f.name)
		if !given {
			return expecting(f.name, "user")
		}
		if err := f.check(value); err != nil {
			return err
		}
	}
	id := c.Params.At(0)
	c.shownBy = logins.CredentialPassword
	if err := c.id.ChangePassword(c.Context(), id, m.Text("original_password"), m.Text("password")); err != nil {
		return err
	}
	return c.done()
}

// memberships are the groups of a user. A membership has no end.
var memberships = func() *resource {
	x := *groups
	x.show = func(o *object, r *identity.Record) {
		groups.show(o, r)
		o.raw("membership_expires_at", []byte("null"))
	}
	return &x
}()

// groupsOfUser answers GET /v3/users/{id}/groups.
func (c *call) groupsOfUser() error {
	u, err := c.get(users, "list_groups_for_user", c.Params.At(0))
	if err != nil {
		return err
	}
	all, err := c.id.GroupsOf(c.Context(), u.ID)
	if err != nil {
		return err
	}
	return c.sendMembers(memberships, all)
}

// usersOfGroup answers GET /v3/groups/{id}/users.
func (c *call) usersOfGroup() error {
	g, err := c.get(groups, "list_users_in_group", c.Params.At(0))
	if err != nil {
		return err
	}
	all, err := c.id.Members(c.Context(), g.ID)
	if err != nil {
		return err
	}
	return c.sendMembers(users, all)
}

// sendMembers answers with those of the members of a group, or of the groups of a user,
// that the query selects. A token with the scope of a domain sees those of that domain only.
func (c *call) sendMembers(x *resource, all []*identity.Record) error {
	match, err := c.filter(x)
	if err != nil {
		return err
	}
	return c.sendSelected(x, all, match)
}

// membership answers the routes of /v3/groups/{group}/users/{user}.
func (c *call) membership(operation string, act func(group, user string) error) error {
	t := target{}
	group, groupErr := c.id.Get(c.Context(), identity.Group, c.Params.At(0))
	user, userErr := c.id.Get(c.Context(), identity.User, c.Params.At(1))
	if groupErr == nil {
		groups.addTo(t, group)
	}
	if userErr == nil {
		users.addTo(t, user)
	}
	if err := c.may(operation, t); err != nil {
		return err
	}
	if groupErr != nil {
		return groupErr
	}
	if userErr != nil {
		return userErr
	}
	if err := act(group.ID, user.ID); err != nil {
		return err
	}
	return c.done()
}

func (c *call) addMember() error {
	return c.membership("add_user_to_group", func(group, user string) error { return c.id.AddMember(c.Context(), group, user) })
}

func (c *call) removeMember() error {
	return c.membership("remove_user_from_group", func(group, user string) error { return c.id.RemoveMember(c.Context(), group, user) })
}

func (c *call) checkMember() error {
	return c.membership("check_user_in_group", func(group, user string) error {
		found, err := c.id.Member(c.Context(), group, user)
		if err == nil && !found {
			err = &statusError{http.StatusNotFound, "Could not find user: " + user + "."}
		}
		return err
	})
}
