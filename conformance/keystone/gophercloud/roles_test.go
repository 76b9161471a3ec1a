package gophercloud

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/osinherit"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
)

func testRoles(s *session) {
	create := func(name string) func() (string, error) {
		return func() (string, error) {
			r, err := roles.Create(s.ctx, s.admin, roles.CreateOpts{Name: name, Description: "a role"}).Extract()
			if err != nil {
				return "", err
			}
			return r.ID, equal(r.Name, name)
		}
	}
	s.made("create role", &s.role, create("digger"))
	s.made("create another role", &s.implied, create("looker"))
	s.check("get role", func() error {
		r, err := roles.Get(s.ctx, s.admin, s.role).Extract()
		if err != nil {
			return err
		}
		return equal(r.Name, "digger")
	})
	s.check("update role", func() error {
		text := "digs holes"
		r, err := roles.Update(s.ctx, s.admin, s.role, roles.UpdateOpts{Description: &text}).Extract()
		if err != nil {
			return err
		}
		return equal(r.Description, text)
	})
	s.listed("list roles", roles.List(s.admin, roles.ListOpts{Name: "digger"}), s.role)
	s.check("create implied role", func() error {
		return roles.CreateRoleInferenceRule(s.ctx, s.admin, s.role, s.implied).Err
	})
	s.check("get implied role", func() error {
		r, err := roles.GetRoleInferenceRule(s.ctx, s.admin, s.role, s.implied).Extract()
		if err != nil {
			return err
		}
		return equal(r.RoleInference.ImpliedRole.ID, s.implied)
	})
	s.check("list implied roles", func() error {
		list, err := roles.ListRoleInferenceRules(s.ctx, s.admin).Extract()
		if err == nil && len(list.RoleInferenceRuleList) < 2 {
			err = fmt.Errorf("got %d rules, expected at least 2", len(list.RoleInferenceRuleList))
		}
		return err
	})
}

func testGrants(s *session) {
	s.check("grant to user on project", func() error {
		return roles.Assign(s.ctx, s.admin, s.role, roles.AssignOpts{UserID: s.user, ProjectID: s.project}).Err
	})
	s.check("grant to group on domain", func() error {
		return roles.Assign(s.ctx, s.admin, s.implied, roles.AssignOpts{GroupID: s.group, DomainID: s.domain}).Err
	})
	s.check("check grant", func() error {
		return roles.Validate(s.ctx, s.admin, s.role, roles.ValidateOpts{UserID: s.user, ProjectID: s.project}).Err
	})
	s.refused("check a grant that does not exist", http.StatusNotFound, func() error {
		return roles.Validate(s.ctx, s.admin, s.implied, roles.ValidateOpts{UserID: s.user, ProjectID: s.project}).Err
	})
	s.listed("list grants of user", roles.ListAssignmentsOnResource(s.admin, roles.ListAssignmentsOnResourceOpts{UserID: s.user, ProjectID: s.project}), s.role)
	s.listed("list projects of user", users.ListProjects(s.admin, s.user), s.project)
	system := roles.AssignOpts{UserID: s.user, System: true}
	s.check("grant on the system", func() error { return roles.Assign(s.ctx, s.admin, s.implied, system).Err })
	s.check("login with the system as user", func() error {
		_, err := s.client(gophercloud.AuthOptions{UserID: s.user, Password: password, Scope: &gophercloud.AuthScope{System: true}})
		return err
	})
	s.check("revoke on the system", func() error { return roles.Unassign(s.ctx, s.admin, s.implied, roles.UnassignOpts(system)).Err })
	s.refused("login with the system is refused", http.StatusUnauthorized, func() error {
		_, err := s.client(gophercloud.AuthOptions{UserID: s.user, Password: password, Scope: &gophercloud.AuthScope{System: true}})
		return err
	})
}

func testInherited(s *session) {
	o := osinherit.AssignOpts{UserID: s.user, DomainID: s.domain}
	s.check("inherited grant", func() error { return osinherit.Assign(s.ctx, s.admin, s.role, o).Err })
	s.check("check inherited grant", func() error { return osinherit.Validate(s.ctx, s.admin, s.role, osinherit.ValidateOpts(o)).Err })
	s.check("login with the project below", func() error {
		c, err := s.client(gophercloud.AuthOptions{UserID: s.user, Password: password, Scope: &gophercloud.AuthScope{ProjectID: s.child}})
		if err != nil {
			return err
		}
		list, err := s.token(c).ExtractRoles()
		return errors.Join(err, equal(len(list), 2))
	})
	s.check("revoke inherited grant", func() error { return osinherit.Unassign(s.ctx, s.admin, s.role, osinherit.UnassignOpts(o)).Err })
	s.refused("login with the project below is refused", http.StatusUnauthorized, func() error {
		_, err := s.client(gophercloud.AuthOptions{UserID: s.user, Password: password, Scope: &gophercloud.AuthScope{ProjectID: s.child}})
		return err
	})
}

func testAssignments(s *session) {
	yes := true
	s.listed("list assignments", roles.ListAssignments(s.admin, roles.ListAssignmentsOpts{UserID: s.user, ScopeProjectID: s.project}), s.role)
	s.listed("list effective assignments", roles.ListAssignments(s.admin, roles.ListAssignmentsOpts{UserID: s.user, ScopeProjectID: s.project, Effective: &yes}), s.implied)
	s.listed("list assignments with names", roles.ListAssignments(s.admin, roles.ListAssignmentsOpts{UserID: s.user, IncludeNames: &yes}), "digger")
}

func testTokens(s *session) {
	user, err := s.asUser(password)
	s.check("login as user", func() error { return err })
	if err != nil {
		return
	}
	s.check("roles of the token", func() error {
		list, err := s.token(user).ExtractRoles()
		return errors.Join(err, equal(len(list), 2))
	})
	s.check("validate token", func() error {
		ok, err := tokens.Validate(s.ctx, s.admin, user.Token())
		return errors.Join(err, equal(ok, true))
	})
	s.listed("projects of the token", projects.ListAvailable(user), s.project)
	s.refused("user may not list users", http.StatusForbidden, func() error {
		_, err := users.List(user, users.ListOpts{}).AllPages(s.ctx)
		return err
	})
	s.check("login by token", func() error {
		c, err := s.client(gophercloud.AuthOptions{TokenID: user.Token(), Scope: &gophercloud.AuthScope{DomainID: s.domain}})
		if err != nil {
			return err
		}
		d, err := s.token(c).ExtractDomain()
		if err != nil {
			return err
		}
		return equal(d.ID, s.domain)
	})
	s.check("revoke token", func() error { return tokens.Revoke(s.ctx, s.admin, user.Token()).Err })
	s.check("the revoked token is invalid", func() error {
		ok, err := tokens.Validate(s.ctx, s.admin, user.Token())
		return errors.Join(err, equal(ok, false))
	})
}
