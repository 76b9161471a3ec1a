package gophercloud

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/domains"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
)

func testDomains(s *session) {
	s.made("create domain", &s.domain, func() (string, error) {
		d, err := domains.Create(s.ctx, s.admin, domains.CreateOpts{Name: "gopher", Description: "of gophers"}).Extract()
		if err != nil {
			return "", err
		}
		return d.ID, equal(d.Description, "of gophers")
	})
	s.refused("create the domain again", http.StatusConflict, func() error {
		return domains.Create(s.ctx, s.admin, domains.CreateOpts{Name: "gopher"}).Err
	})
	s.check("get domain", func() error {
		d, err := domains.Get(s.ctx, s.admin, s.domain).Extract()
		if err != nil {
			return err
		}
		return equal(d.Name, "gopher")
	})
	s.check("update domain", func() error {
		text := "changed"
		d, err := domains.Update(s.ctx, s.admin, s.domain, domains.UpdateOpts{Description: &text}).Extract()
		if err != nil {
			return err
		}
		return equal(d.Description, text)
	})
	s.listed("list domains", domains.List(s.admin, domains.ListOpts{Name: "gopher"}), s.domain)
	s.refused("delete an enabled domain", http.StatusForbidden, func() error { return domains.Delete(s.ctx, s.admin, s.domain).Err })
}

func testProjects(s *session) {
	s.made("create project", &s.project, func() (string, error) {
		p, err := projects.Create(s.ctx, s.admin, projects.CreateOpts{Name: "top", DomainID: s.domain, Tags: []string{"blue"}, Extra: map[string]any{"cost": "high"}}).Extract()
		if err != nil {
			return "", err
		}
		return p.ID, errors.Join(equal(p.DomainID, s.domain), equal(fmt.Sprint(p.Extra["cost"]), "high"))
	})
	s.made("create project below", &s.child, func() (string, error) {
		p, err := projects.Create(s.ctx, s.admin, projects.CreateOpts{Name: "below", DomainID: s.domain, ParentID: s.project}).Extract()
		if err != nil {
			return "", err
		}
		return p.ID, equal(p.ParentID, s.project)
	})
	s.check("get project", func() error {
		p, err := projects.Get(s.ctx, s.admin, s.project).Extract()
		if err != nil {
			return err
		}
		return errors.Join(equal(p.Name, "top"), equal(len(p.Tags), 1))
	})
	s.check("update project", func() error {
		text := "changed"
		p, err := projects.Update(s.ctx, s.admin, s.project, projects.UpdateOpts{Description: &text}).Extract()
		if err != nil {
			return err
		}
		return equal(p.Description, text)
	})
	s.listed("list projects by tag", projects.List(s.admin, projects.ListOpts{Tags: "blue"}), s.project)
	s.listed("list projects by parent", projects.List(s.admin, projects.ListOpts{ParentID: s.project}), s.child)
	s.check("replace tags", func() error {
		return projects.ModifyTags(s.ctx, s.admin, s.project, projects.ModifyTagsOpts{Tags: []string{"green", "red"}}).Err
	})
	s.check("list tags", func() error {
		list, err := projects.ListTags(s.ctx, s.admin, s.project).Extract()
		if err != nil {
			return err
		}
		return equal(len(list.Tags), 2)
	})
	s.check("delete tags", func() error { return projects.DeleteTags(s.ctx, s.admin, s.project).Err })
	s.refused("delete a project with children", http.StatusForbidden, func() error { return projects.Delete(s.ctx, s.admin, s.project).Err })
	s.refused("get a project that does not exist", http.StatusNotFound, func() error { return projects.Get(s.ctx, s.admin, "none").Err })
}

func testUsers(s *session) {
	s.made("create user", &s.user, func() (string, error) {
		u, err := users.Create(s.ctx, s.admin, users.CreateOpts{Name: "gopher", DomainID: s.domain, Password: "first", DefaultProjectID: s.project,
			Extra: map[string]any{"email": "gopher@example.com"}, Options: map[users.Option]any{users.IgnorePasswordExpiry: true}}).Extract()
		if err != nil {
			return "", err
		}
		return u.ID, errors.Join(equal(fmt.Sprint(u.Extra["email"]), "gopher@example.com"), equal(u.DefaultProjectID, s.project))
	})
	s.refused("create the user again", http.StatusConflict, func() error {
		return users.Create(s.ctx, s.admin, users.CreateOpts{Name: "gopher", DomainID: s.domain}).Err
	})
	s.check("get user", func() error {
		u, err := users.Get(s.ctx, s.admin, s.user).Extract()
		if err != nil {
			return err
		}
		return errors.Join(equal(u.Name, "gopher"), equal(u.Enabled, true), equal(u.Options["ignore_password_expiry"], any(true)))
	})
	s.check("update user", func() error {
		text := "digs"
		u, err := users.Update(s.ctx, s.admin, s.user, users.UpdateOpts{Description: &text}).Extract()
		if err != nil {
			return err
		}
		return equal(u.Description, text)
	})
	s.listed("list users", users.List(s.admin, users.ListOpts{DomainID: s.domain, Filters: map[string]string{"name__contains": "oph"}}), s.user)
	s.check("change the password", func() error {
		return users.ChangePassword(s.ctx, s.admin, s.user, users.ChangePasswordOpts{OriginalPassword: "first", Password: password}).Err
	})
	s.check("login with the new password", func() error {
		_, err := s.client(gophercloud.AuthOptions{UserID: s.user, Password: password, Scope: nil})
		return err
	})
	s.refused("login with the old password", http.StatusUnauthorized, func() error {
		_, err := s.client(gophercloud.AuthOptions{UserID: s.user, Password: "first"})
		return err
	})
}

func testGroups(s *session) {
	s.made("create group", &s.group, func() (string, error) {
		g, err := groups.Create(s.ctx, s.admin, groups.CreateOpts{Name: "burrow", DomainID: s.domain, Description: "a hole"}).Extract()
		if err != nil {
			return "", err
		}
		return g.ID, equal(g.Description, "a hole")
	})
	s.check("get group", func() error {
		g, err := groups.Get(s.ctx, s.admin, s.group).Extract()
		if err != nil {
			return err
		}
		return equal(g.Name, "burrow")
	})
	s.check("update group", func() error {
		g, err := groups.Update(s.ctx, s.admin, s.group, groups.UpdateOpts{Name: "den"}).Extract()
		if err != nil {
			return err
		}
		return equal(g.Name, "den")
	})
	s.listed("list groups", groups.List(s.admin, groups.ListOpts{Name: "den", DomainID: s.domain}), s.group)
	s.check("add user to group", func() error { return users.AddToGroup(s.ctx, s.admin, s.group, s.user).Err })
	s.check("user is in group", func() error {
		in, err := users.IsMemberOfGroup(s.ctx, s.admin, s.group, s.user).Extract()
		return errors.Join(err, equal(in, true))
	})
	s.listed("list users of group", users.ListInGroup(s.admin, s.group, nil), s.user)
	s.listed("list groups of user", users.ListGroups(s.admin, s.user), s.group)
}

func testDeletes(s *session) {
	s.check("remove user from group", func() error { return users.RemoveFromGroup(s.ctx, s.admin, s.group, s.user).Err })
	s.check("user is not in group", func() error {
		in, err := users.IsMemberOfGroup(s.ctx, s.admin, s.group, s.user).Extract()
		return errors.Join(err, equal(in, false))
	})
	s.check("delete group", func() error { return groups.Delete(s.ctx, s.admin, s.group).Err })
	s.check("delete user", func() error { return users.Delete(s.ctx, s.admin, s.user).Err })
	s.refused("get the deleted user", http.StatusNotFound, func() error { return users.Get(s.ctx, s.admin, s.user).Err })
	s.check("delete projects", func() error {
		return errors.Join(projects.Delete(s.ctx, s.admin, s.child).Err, projects.Delete(s.ctx, s.admin, s.project).Err)
	})
	s.check("disable and delete domain", func() error {
		off := false
		return errors.Join(domains.Update(s.ctx, s.admin, s.domain, domains.UpdateOpts{Enabled: &off}).Err, domains.Delete(s.ctx, s.admin, s.domain).Err)
	})
	s.refused("get the deleted domain", http.StatusNotFound, func() error { return domains.Get(s.ctx, s.admin, s.domain).Err })
}
