package gophercloud

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/credentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/ec2credentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/ec2tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"
)

func testApplicationCredentials(s *session) {
	user, err := s.asUser(password)
	s.check("login before application credentials", func() error { return err })
	if err != nil {
		return
	}
	id, secret := "", ""
	s.made("create application credential", &id, func() (string, error) {
		c, err := applicationcredentials.Create(s.ctx, user, s.user, applicationcredentials.CreateOpts{Name: "robot", Roles: []applicationcredentials.Role{{ID: s.implied}},
			AccessRules: []applicationcredentials.AccessRule{{Service: "burrowing", Path: "/v2/**", Method: "GET"}}}).Extract()
		if err != nil {
			return "", err
		}
		secret = c.Secret
		return c.ID, equal(len(c.Roles), 1)
	})
	s.check("get application credential", func() error {
		c, err := applicationcredentials.Get(s.ctx, user, s.user, id).Extract()
		if err != nil {
			return err
		}
		return errors.Join(equal(c.Name, "robot"), equal(c.Secret, ""))
	})
	s.listed("list application credentials", applicationcredentials.List(user, s.user, nil), id)
	s.listed("list access rules", applicationcredentials.ListAccessRules(user, s.user), "/v2/**")
	o := gophercloud.AuthOptions{ApplicationCredentialID: id, ApplicationCredentialSecret: secret}
	s.check("login by application credential", func() error {
		_, err := s.client(o)
		return err
	})
	s.check("delete application credential", func() error { return applicationcredentials.Delete(s.ctx, user, s.user, id).Err })
	s.check("login by a deleted application credential is refused", func() error {
		if _, err := s.client(o); err == nil {
			return errors.New("got a token")
		}
		return nil
	})
}

func testTrusts(s *session) {
	user, err := s.asUser(password)
	s.check("login before trusts", func() error { return err })
	if err != nil {
		return
	}
	id := ""
	s.made("create trust", &id, func() (string, error) {
		expires := time.Now().Add(time.Hour)
		t, err := trusts.Create(s.ctx, user, trusts.CreateOpts{TrustorUserID: s.user, TrusteeUserID: s.adminID, ProjectID: s.project, Impersonation: true,
			Roles: []trusts.Role{{ID: s.role}}, ExpiresAt: &expires}).Extract()
		if err != nil {
			return "", err
		}
		return t.ID, equal(t.TrusteeUserID, s.adminID)
	})
	s.check("get trust", func() error {
		t, err := trusts.Get(s.ctx, user, id).Extract()
		if err != nil {
			return err
		}
		return equal(t.ProjectID, s.project)
	})
	s.listed("list trusts", trusts.List(user, trusts.ListOpts{TrustorUserID: s.user}), id)
	s.listed("list roles of trust", trusts.ListRoles(user, id), s.role)
	s.check("login with a trust", func() error {
		c, err := s.client(gophercloud.AuthOptions{TokenID: s.admin.Token(), Scope: &gophercloud.AuthScope{TrustID: id}})
		if err != nil {
			return err
		}
		u, err := s.token(c).ExtractUser()
		if err != nil {
			return err
		}
		return equal(u.ID, s.user)
	})
	s.check("delete trust", func() error { return trusts.Delete(s.ctx, user, id).Err })
	s.refused("get the deleted trust", http.StatusNotFound, func() error { return trusts.Get(s.ctx, user, id).Err })
}

func testCredentials(s *session) {
	id := ""
	blob, _ := json.Marshal(map[string]string{"access": "gopher-access", "secret": "gopher-secret"})
	s.made("create credential", &id, func() (string, error) {
		c, err := credentials.Create(s.ctx, s.admin, credentials.CreateOpts{UserID: s.user, ProjectID: s.project, Type: "ec2", Blob: string(blob)}).Extract()
		if err != nil {
			return "", err
		}
		return c.ID, equal(c.Blob, string(blob))
	})
	s.check("get credential", func() error {
		c, err := credentials.Get(s.ctx, s.admin, id).Extract()
		if err != nil {
			return err
		}
		return equal(c.Type, "ec2")
	})
	s.listed("list credentials", credentials.List(s.admin, credentials.ListOpts{UserID: s.user}), id)
	s.check("delete credential", func() error { return credentials.Delete(s.ctx, s.admin, id).Err })
}

func testEC2(s *session) {
	access, secret := "", ""
	s.made("create EC2 credential", &access, func() (string, error) {
		c, err := ec2credentials.Create(s.ctx, s.admin, s.user, ec2credentials.CreateOpts{TenantID: s.project}).Extract()
		if err != nil {
			return "", err
		}
		secret = c.Secret
		return c.Access, equal(c.UserID, s.user)
	})
	s.listed("list EC2 credentials", ec2credentials.List(s.admin, s.user), access)
	s.check("login by EC2 signature", func() error {
		t, err := ec2tokens.Create(s.ctx, s.admin, &ec2tokens.AuthOptions{Access: access, Secret: secret, Verb: "GET", Host: "s3.example.com", Path: "/", Region: "meadow", Service: "s3"}).ExtractUser()
		if err != nil {
			return err
		}
		return equal(t.ID, s.user)
	})
	s.check("EC2 login with a wrong secret is refused", func() error {
		r := ec2tokens.Create(s.ctx, s.admin, &ec2tokens.AuthOptions{Access: access, Secret: "wrong", Verb: "GET", Host: "s3.example.com", Path: "/", Region: "meadow", Service: "s3"})
		if r.Err == nil {
			return errors.New("got a token")
		}
		return nil
	})
	s.check("delete EC2 credential", func() error { return ec2credentials.Delete(s.ctx, s.admin, s.user, access).Err })
}
